"""LongHistory: a coordinator with thousands of rounds behind it, made up, and served as a real one serves its files.

    with LongHistory(rounds=10_000, further=50).served() as (history, url):
        …                         # a dashboard reads from ``url``
        history.tell_next()       # one more round is public

The experiment, and its log are signed and cosigned as always, and the status is written by the
coordinator's own code; the counts in it are drawn, with days and nights, and their manifests were never written. So
whoever shows can be measured with it, and whoever audits must refuse it.
"""

from __future__ import annotations

import contextlib
import math
import random
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson

from secvm.coordinator.experiments.status_document import LeakageMeter, TellableRound, Watchers, round_heading, status
from secvm.coordinator.store.port import Standing
from secvm.learning.aggregate.descent import Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound
from secvm.protocol.relays.manifest import Instants
from secvm.protocol.round_state import RoundEnd, RoundState
from secvm_lab.rigs.histories.public_history import PublicHistory

LABELS = ("north", "south", "east")
_DAY_MS = 86_400_000
_METRICS = """\
# TYPE secvm_coordinator_capsules_total counter
secvm_coordinator_capsules_total{outcome="counted"} %d
"""


class LongHistory:
    """So many rounds are public, and ``further`` ones can be told."""

    def __init__(self, *, rounds: int, further: int = 0) -> None:
        dice = random.Random(1)  # noqa: S311  (nothing here is secret)
        experiment = Experiment(n_bins=4096, labels=LABELS, rule=Swift(), thinning=Thinning(rho=Fraction(4)), budget=20)
        asked: dict[str, Any] = {
            "title": "A question that was asked for years",
            "floor": 30,
            "rounds": rounds + further + 1,
        }
        self.history = PublicHistory.drawn(dice, witnesses=3, experiment=experiment, beacons=0, **asked)
        self.told = rounds
        self._lock = threading.Lock()
        self._rounds = [_drawn(dice, self.history, number) for number in range(1, rounds + further + 2)]
        self._whole = self._told_whole(dice)
        self.files: dict[str, bytes] = dict(self.history.files)
        self._show()

    @property
    def document(self) -> ExperimentDocument:
        """The experiment."""
        return self.history.document

    @property
    def status_path(self) -> str:
        """Where its status is."""
        return f"{self.history.place}/status"

    @property
    def now(self) -> int:
        """In the middle of the round that is open."""
        one = self._rounds[self.told]
        return (one.times.opens_at + one.times.closes_at) // 2

    def _told_whole(self, dice: random.Random) -> dict[str, Any]:
        """The status when everything is told, as the coordinator writes it."""
        meter = LeakageMeter(self.document)
        meter.rounds = {
            one.number: dice.uniform(0.5, 2) * 1e-4 for one in self._rounds if one.last and one.last.participants
        }
        watchers = Watchers(self.document.experiment, leakage=meter)
        data = status(self.document, standing=Standing.RUNNING, rounds=self._rounds, watchers=watchers)
        whole: dict[str, Any] = orjson.loads(data)
        return whole

    def _show(self) -> None:
        """As far as it is told: the round after that is open."""
        whole, leakage = self._whole, self._whole["leakage"]
        running = self._rounds[self.told]
        current = round_heading(running.number, str(RoundState.OPEN.value), running.times)
        told = {
            **whole,
            "rounds": [*whole["rounds"][: self.told], current],
            "leakage": {
                **leakage,
                "rounds_told": self.told,
                "per_round": [one for one in leakage["per_round"] if one["round"] <= self.told],
            },
        }
        data = orjson.dumps(told)
        with self._lock:
            self.files |= {
                self.status_path: data,
                "/health": b'{"status":"ok"}',
                "/metrics": (_METRICS % (self.told * 1000)).encode(),
            }

    def tell_next(self) -> int:
        """One more round is public; its number."""
        assert self.told + 1 < len(self._rounds), "all further rounds are told"
        self.told += 1
        self._show()
        return self.told

    def retell(self, change: Callable[[dict[str, Any]], None]) -> None:
        """The status as it is now, changed by hand: what a coordinator would tell that has met with something rare."""
        told = orjson.loads(self.files[self.status_path])
        change(told)
        with self._lock:
            self.files[self.status_path] = orjson.dumps(told)

    def file(self, path: str) -> bytes | None:
        """What is public at a path. Any thread may ask."""
        with self._lock:
            return self.files.get(path)

    @contextlib.contextmanager
    def served(self) -> Iterator[tuple[Self, str]]:
        """On a free port of this machine, with tags as a coordinator has them; its address."""
        history = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                data = history.file(self.path.partition("?")[0])
                if data is None:
                    self._answer(404, b"there is nothing here\n", None)
                    return
                tag = f'"{digest_of(data)[:32]}"'
                known = self.headers.get("if-none-match", "")
                self._answer(304 if tag in known else 200, b"" if tag in known else data, tag)

            def _answer(self, code: int, body: bytes, tag: str | None) -> None:
                self.send_response(code)
                if tag is not None:
                    self.send_header("etag", tag)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (so it is called there)
                """Nothing to say."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self, f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


def _drawn(dice: random.Random, history: PublicHistory, number: int) -> TellableRound:
    """A round of people who sleep at night, and of a model that gets better."""
    opens = history.opening(number)
    windows = history.document.windows
    closes = opens + 1000 * windows.length_s
    awake = 1 + 0.8 * math.sin(2 * math.pi * opens / _DAY_MS)
    right = 0.9 - 0.5 * math.exp(-number / 400)
    participants = tuple(round(share * awake * dice.uniform(0.9, 1.1)) for share in (300, 200, 100))
    cells = []
    for row, of in enumerate(participants):
        hits = round(0.3 * of * min(1.0, right * dice.uniform(0.95, 1.05)))
        missed = round(0.3 * of) - hits
        cells.append(tuple(hits if row == column else missed // 2 for column in range(len(LABELS))))
    few = dice.random() < 0.01
    last = LastRound(tally=None) if few else LastRound(tally="00" * 32, participants=participants, cells=tuple(cells))
    state = RoundState.ABANDONED if few else RoundState.PUBLISHED
    until = closes + 1000 * windows.grace_s
    times = Instants(opens, closes, until, until, until, until, until)
    end = RoundEnd.TOO_FEW_TRAINED if few else RoundEnd.COUNTED
    return TellableRound(number, str(state.value), times, last, end)
