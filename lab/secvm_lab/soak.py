"""Soak: real coordinator processes under a steady load through many epochs, and what they use watched meanwhile.

    with Soak(folder, rate=2000, nodes=0) as soak:
        soak.begin_rounds(100)
        samples = [soak.play(number, seconds=5) for number in range(1, 101)]
    judge(samples)

In each epoch a relay's batches come over loopback sockets, so many packages a second, all of them sealed; every tenth
batch comes twice, as when an answer was lost. Then the steered clock leaps to the end of the window, the coordinator
counts, publishes and scrubs, and the next epoch begins. What was acknowledged must be what its tally has.

With ``nodes`` the coordinator is so many processes on one PostgreSQL, else one process on a file.

Slopes: whether something grows from epoch to epoch, with an interval, and what is said of it then.
"""

from __future__ import annotations

import contextlib
import http.client
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scipy.stats import t as student

from secvm.crypto.sealing.capsules import MEDIA_TYPE, pack
from secvm.crypto.sealing.oblivious import RequestSealer, decode_key_configurations
from secvm.crypto.signing import Envelope
from secvm.learning.package import Cohort, ParticipationPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.sealed_requests import package_request
from secvm.testing.federation import COORDINATOR, Federation, Pace
from secvm_lab.rigs.postgres import PostgresCluster


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per step, and the interval that has it in 95 of 100 such runs."""

    per_step: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"per_epoch": round(self.per_step, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def slope_of(values: Sequence[float]) -> Slope:
    """Of values at equal steps, by least squares. Fewer than three say nothing: the interval is everything."""
    n = len(values)
    if n < 3:
        return Slope(0.0, -math.inf, math.inf)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    per_step = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
    left = sum((value - mean - per_step * (i - middle)) ** 2 for i, value in enumerate(values))
    half = float(student.ppf(0.975, n - 2)) * math.sqrt(left / (n - 2) / spread)
    return Slope(per_step, per_step - half, per_step + half)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def settled(values: Sequence[float]) -> Sequence[float]:
    """Without the first third: caches fill, pools open, an allocator finds its size."""
    return values[len(values) // 3 :]


_PACE = Pace(length_s=30, grace_s=5, lead_s=25, rate=1.0)
_FLOOR, _BINS = 5, 1000
_PATIENCE_S = 60.0
_AGAIN = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """One epoch."""

    number: int
    #: Distinct packages, and what the round's tally has.
    acknowledged: int
    counted: int
    #: Packages a second that were taken, and latencies of their batches, from the moment that each was due.
    per_s: float
    p50_ms: float
    p99_ms: float
    #: From the end of the window to the next manifest.
    close_s: float
    #: Of all coordinator processes together, after the epoch.
    rss_mb: float
    descriptors: int
    disk_mb: float


class Soak(Federation):
    """A coordinator, its clock, and a relay's load. Use it in a ``with``: at the end nothing runs any more."""

    def __init__(self, folder: Path, *, rate: int, batch: int = 100, nodes: int = 0) -> None:
        self._rate, self._batch = rate, batch
        self._lines: dict[str, http.client.HTTPConnection] = {}
        self._cluster = PostgresCluster() if nodes else None
        database = None
        with contextlib.ExitStack() as held:
            if self._cluster is not None:
                database = held.enter_context(self._cluster).create_database()
            super().__init__(
                folder,
                hosts=[],
                seed="",
                pace=_PACE,
                patience_s=_PATIENCE_S,
                witnesses=0,
                nodes=nodes,
                database=database,
            )
            held.pop_all()
        self._names = self.node_names or [COORDINATOR]

    def __enter__(self) -> Self:
        try:
            self.start_servers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for line in self._lines.values():
            line.close()
        super().stop()
        if self._cluster is not None:
            self._cluster.close()

    def begin_rounds(self, rounds: int) -> None:
        """Make an experiment of so many rounds."""
        self.begin(
            {
                "title": "A soak",
                "question": "",
                "labels": ["a", "b"],
                "floor": _FLOOR,
                "features": {"source": "none", "description": ""},
                "binning": {"bins": _BINS, "salt": "00" * 16},
                "descent": {"rule": "swift", "thinning": "3"},
                "budget": 100,
                "train_share": "7/10",
                "rounds": rounds,
                # Here we are the relay, and nobody else tells how many packages came.
                "relays": [],
            }
        )

    def play(self, number: int, *, seconds: float) -> Sample:
        """One round under load for so many seconds, and its count."""
        manifest = self._manifest(number)
        self.clock.leap_to(manifest.opens_at)
        acknowledged, latencies, took = self._load(manifest, seconds)
        self.clock.leap_to(manifest.accept_until)
        ended = time.monotonic()
        after = self._manifest(number + 1)
        close_s = time.monotonic() - ended
        assert after.last is not None
        counted = 0
        if after.last.tally is not None:
            blob = self.ask(self._names[0], "GET", f"/v1/blob/{after.last.tally}")
            tally = decode_tally(blob, digest=after.last.tally, experiment=self._known.experiment)
            counted = int(tally.plus.sum() + tally.minus.sum() + tally.participants.sum())
        # What follows publication, the scrub, is over when nothing is under way for the next epoch: time stands still.
        self.clock.leap_to(manifest.accept_until + 1000)
        pids = [self.children.pid(name) for name in self._names]
        return Sample(
            number=number,
            acknowledged=acknowledged,
            counted=counted,
            per_s=acknowledged / took,
            p50_ms=percentile(latencies, 0.5),
            p99_ms=percentile(latencies, 0.99),
            close_s=close_s,
            rss_mb=sum(_rss_mb(pid) for pid in pids),
            descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),  # noqa: PTH208  (numbers, not paths)
            disk_mb=self._disk_mb(),
        )

    def _load(self, manifest: RoundManifest, seconds: float) -> tuple[int, list[float], float]:
        """Distinct packages that were acknowledged, latencies in milliseconds, and how long it took."""
        sealer = RequestSealer(decode_key_configurations(manifest.gateway_keys)[0])
        latencies: list[float] = []
        acknowledged = 0
        batches = max(1, round(self._rate * seconds / self._batch))
        pause = self._batch / self._rate
        started = time.monotonic()
        for i in range(batches):
            packed = pack([sealer.seal(self._request(manifest, i, j), os.urandom).capsule for j in range(self._batch)])
            due = started + i * pause
            # Sealed beforehand; sent when it is time. Who is late waits for nobody, and its lateness counts.
            time.sleep(max(0.0, due - time.monotonic()))
            for _ in range(2 if i % _AGAIN == 0 else 1):
                self._send(self._names[i % len(self._names)], packed)
            latencies.append(1000 * (time.monotonic() - due))
            acknowledged += self._batch
        return acknowledged, latencies, time.monotonic() - started

    def _request(self, manifest: RoundManifest, i: int, j: int) -> bytes:
        # The first of a round are participants, enough for its floor; the others move bins.
        package = (
            ParticipationPackage(cohort=Cohort.TRAIN, class_index=j % 2)
            if i == 0 and j < 4 * _FLOOR
            else TrainPackage(model=0, bin_index=(i * self._batch + j) % _BINS, sign=1 if j % 2 else -1)
        )
        return package_request(encode(AddressedPackage(self._known.experiment_id, manifest.round_number, package)))

    def _manifest(self, number: int) -> RoundManifest:
        path = f"/v1/experiment/{self.digest}/manifest/{number}"
        served = self.patiently(lambda: self.public(path), f"manifest {number}", nap_s=0.01)
        return RoundManifest.from_bytes(Envelope.from_bytes(served).payload)

    @property
    def _known(self) -> ExperimentDocument:
        assert self.document is not None
        return self.document

    def _send(self, name: str, packed: bytes) -> None:
        line = self._lines.setdefault(
            name, http.client.HTTPConnection("127.0.0.1", self.port(name), timeout=_PATIENCE_S)
        )
        headers = {"authorization": f"Bearer {self._token}", "content-type": MEDIA_TYPE}
        line.request("POST", "/v1/batch", packed, headers)
        answer = line.getresponse()
        answer.read()
        if answer.status != 202:
            raise OSError(f"a batch was answered {answer.status}")

    @property
    def _token(self) -> str:
        (relay,) = self.known_relays
        return (self.folder / f"{relay.name}.token").read_text("ascii").strip()

    def _disk_mb(self) -> float:
        places = [self.folder / name for name in self._names]
        if self._cluster is not None:
            places.append(self._cluster.folder)
        return sum(_size(place) for place in places) / 2**20


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        # Files come and go meanwhile.
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total
