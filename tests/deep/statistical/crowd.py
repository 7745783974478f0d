"""A crowd of real devices over several rounds, with churn: what leaves each of them, and when.

Every device is a ``participant.Device`` with its own SQLite state, clock and dice, joined to one experiment whose
rounds are published ahead. They do not meet, so they live one after the other; a thousand devices take seconds. The
seal is a hook that makes random bytes of a capsule's length and notes what was sealed: the tests know what no attacker
does.

Dice are seeded with the run's seed. What befalls a device (restarts, sleep, pauses, lost answers) is thrown with other
dice than its own, and never looks at the person, so that whatever tells persons apart is the device's doing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort
from secvm.learning.weights import Weights
from secvm.participant import device as device_module
from secvm.participant.consent.policies import Consent
from secvm.participant.device import Device
from secvm.participant.dice import RandomBytes
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.participant.sending.transport import Fetched, SendReply
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.trust import model_files as models_module
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents import manifest as manifest_module
from secvm.protocol.documents.experiment import ExperimentDocument, Relay, publish
from secvm.protocol.documents.manifest import RoundManifest, last_round, make_manifest
from secvm.protocol.plain.session_memory import Seal
from secvm.testing.clock import ManualClock
from secvm.testing.transport import Fate, MemoryTransport
from tests.seeds import seed_for
from tests.unit.protocol.helpers import (
    COORDINATOR,
    GATEWAY_KEYS,
    GRACE_S,
    LENGTH_S,
    RELAY,
    START,
    document,
    tally,
)

BUDGET, BINS = 8, 20
LENGTH_MS, GRACE_MS = 1000 * LENGTH_S, 1000 * GRACE_S
#: From one opening to the next: window, grace, and three graces in which devices ask for the next manifest.
PERIOD_MS = LENGTH_MS + 4 * GRACE_MS
#: After the end of a round its successor takes a moment to be published.
TALLY_MS = 5000
FLUSH_MS = 1000
#: So few devices are not worth another process.
SMALL = 200
#: What befalls a device in a round, and how often.
KINDS_OF_TROUBLE = ("steady", "flaky", "stopped", "killed", "asleep", "paused")
CHANCES_OF_TROUBLE = (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)
RELAYS = tuple(Relay(url=f"https://relay{i}.example/r", key=RELAY.public) for i in range(3))


# ── what is public ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Experimented:
    """An experiment and its rounds."""

    of: ExperimentDocument
    envelope: bytes
    rounds: tuple[RoundManifest, ...]
    #: Envelopes of the manifests.
    signed: tuple[bytes, ...]
    blobs: dict[str, bytes]

    def latest(self, now: int) -> bytes | None:
        """What ``manifest/latest`` is at this time."""
        there = [
            one
            for one, of in zip(self.signed, self.rounds, strict=True)
            if now >= of.opens_at - 3 * GRACE_MS + TALLY_MS
        ]
        return there[-1] if there else None


@cache
def experimented(rounds: int, seed: int) -> Experimented:
    """Weights are random, so that in every round about half of the train cohort violates, each time others."""
    experiment = Experiment(n_bins=BINS, labels=("a", "b"), rule=Pegasos(), budget=BUDGET)
    of = document(experiment=experiment, relays=RELAYS)
    rng = np.random.default_rng(seed)
    made: list[RoundManifest] = []
    blobs: dict[str, bytes] = {}
    unit = aggregate.training_weights(experiment, aggregate.start(experiment)).unit
    for number in range(rounds):
        both = [Weights(rng.integers(-9, 10, size=(1, BINS + 1)).astype(np.int32), unit).to_bytes() for _ in range(2)]
        manifest = make_manifest(
            of,
            opens_at=START + number * PERIOD_MS,
            model=(digest_of(aggregate.start(experiment).to_bytes()), digest_of(both[0]), digest_of(both[1])),
            gateway_keys=GATEWAY_KEYS,
            before=made[-1] if made else None,
            last=last_round(tally(20, 30)) if made else None,
        )
        made.append(manifest)
        blobs |= {digest_of(blob): blob for blob in both}
    envelopes = tuple(one.signed([COORDINATOR]) for one in made)
    return Experimented(of, publish(of, keys=(COORDINATOR,)), tuple(made), envelopes, blobs)


# ── one device ───────────────────────────────────────────────────────────────────────────────────────────────────────


class DeviceDice:
    """A device's own dice; and, since the seal has them too, where it notes what it sealed."""

    def __init__(self, seed: list[int]) -> None:
        self._rng = np.random.default_rng(seed)
        self.sealed: dict[bytes, str] = {}

    def __call__(self, count: int) -> bytes:
        return self._rng.bytes(count)


class KeptState(DeviceState):
    """A state in SQLite's memory: it outlives its device as a file would, and asks nothing of the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, unsafe_unsynced=True, database=sqlite3.connect(":memory:", isolation_level=None))

    def close(self) -> None:
        """The device is gone; the file is not."""


class NoShelf(models_module.ModelShelf):
    """Weights are fetched by every device for itself, and never become files."""

    def hold(self, owner: object, digest: str) -> None:
        del owner, digest


class Net(MemoryTransport):
    """A device's way out: rounds appear when it is time, and some capsules or answers are lost."""

    def __init__(self, now: Callable[[], int], of: Experimented, rng: np.random.Generator) -> None:
        super().__init__(now)
        self._of = of
        self._rng = rng
        #: Share of capsules that something happens to.
        self.trouble = 0.0
        self.files = {f"/v1/blob/{digest}": blob for digest, blob in of.blobs.items()}
        self._latest = f"/v1/experiment/{of.of.digest}/manifest/latest"

    async def send(self, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:
        if self.trouble and self._rng.random() < self.trouble:
            self.script = iter([(Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY)[int(self._rng.integers(3))]])
        return await super().send(capsule, relay, label=label)

    async def fetch(self, path: str, *, most: int = 2**30, gateway_keys: bytes | None = None) -> Fetched | None:
        latest = self._of.latest(self.now())
        if latest is not None:
            self.files[self._latest] = latest
        return await super().fetch(path, most=most, gateway_keys=gateway_keys)


@dataclass(frozen=True)
class Trouble:
    """What befalls a device in a round."""

    #: "steady", "flaky" (answers are lost), "stopped", "killed", "asleep", "paused".
    kind: str
    #: When it begins, and ends.
    begins: int = 0
    ends: int = 0


@dataclass
class Stay:
    """One device in one round, as somebody sees it who knows everything. Times are milliseconds after the opening."""

    person: int
    round_number: int
    cohort: Cohort
    trouble: Trouble
    #: When trouble began and ended.
    begins: int
    ends: int
    #: Whether the device lived through the whole window, and every answer came.
    steady: bool
    #: Whether the device had joined the experiment before the window opened.
    in_time: bool
    #: Whether there was an update to send; None: nothing was computed.
    violates: bool | None
    #: First arrivals and their kinds, in order.
    times: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    #: When each capsule first left.
    tried: list[int] = field(default_factory=list)
    #: Everything that left, re-sends included: time, size, relay.
    sends: list[tuple[int, int, str]] = field(default_factory=list)
    #: When anything was fetched, since the round before; and when the manifest was.
    fetches: list[int] = field(default_factory=list)
    asked_at: int = 0


def person(rng: np.random.Generator) -> Individual:
    """Somebody with a few features, so that an update fits into the budget."""
    bins = sorted(rng.choice(BINS, size=int(rng.integers(2, BUDGET - 1)), replace=False).tolist())
    cohort = Cohort.TRAIN if rng.random() < 0.7 else Cohort.TEST
    return Individual(BinnedVector(dict.fromkeys(bins, 1), BINS), label=int(rng.integers(2)), cohort=cohort)


class Life:
    """One device, from its joining to the last round."""

    def __init__(self, number: int, of: Experimented, seed: int, *, late: bool) -> None:
        self.number = number
        self.of = of
        #: Fate, and the person; the device's own dice are others.
        self.rng = np.random.default_rng([seed, number, 0])
        self.dice = DeviceDice([seed, number, 1])
        self.person = person(self.rng)
        begins = START - 2 * GRACE_MS - int(self.rng.integers(GRACE_MS // 2))
        if late:
            begins += int(self.rng.integers(PERIOD_MS * max(1, len(of.rounds) - 1)))
        self.begins = begins
        self.clock = ManualClock(begins)
        self.net = Net(self.clock.now, of, self.rng)
        self.state = KeptState(Path("/nonexistent") / str(number))
        self.state.join(of.of.digest, of.envelope, self.person)
        self.device = self._start()

    def _start(self) -> Device:
        shelf = NoShelf(self.state.folder)
        return Device(
            self.state,
            self.net,
            now=self.clock.now,
            random_bytes=self.dice,
            shelf=shelf,
            consent=Consent.unsafe_accept_anything(),
        )

    async def live(self) -> list[Stay]:
        """All rounds, one after the other."""
        stays = []
        for manifest in self.of.rounds:
            if manifest.closes_at <= self.begins:
                continue
            trouble = self._draw(manifest)
            self.net.trouble = 0.3 if trouble.kind == "flaky" else 0.0
            if trouble.begins:
                await self._drive(trouble.begins, mortal=trouble.kind == "killed")
                await self._befall(trouble)
            await self._drive(manifest.accept_until)
            stays.append(self._seen(manifest, trouble))
        return stays

    def _draw(self, manifest: RoundManifest) -> Trouble:
        """Half of all rounds are quiet. The rest is of any length, and may begin before the window, or end after it."""
        kind = str(self.rng.choice(KINDS_OF_TROUBLE, p=CHANCES_OF_TROUBLE))
        if kind in ("steady", "flaky"):
            return Trouble(kind)
        earliest = max(manifest.opens_at - GRACE_MS, self.begins)
        begins = int(self.rng.integers(earliest, manifest.closes_at))
        # From a second to the whole window, each order of magnitude alike.
        lasts = int(1000 * LENGTH_S ** self.rng.random())
        return Trouble(kind, begins, min(begins + lasts, manifest.accept_until))

    async def _befall(self, trouble: Trouble) -> None:
        digest = self.of.of.digest
        if trouble.kind == "paused":
            self.state.set_status(digest, Status.PAUSED)
            self.device._look()
            await self._drive(trouble.ends)
            self.state.set_status(digest, Status.JOINED)
            self.device._look()
            return
        if trouble.kind == "stopped":
            self.device.close()
        self.clock.advance(max(0, trouble.ends - self.clock.now()))
        if trouble.kind != "asleep":
            # Killed: what was not written is lost, as it is with a process that ends.
            self.device = self._start()

    async def _drive(self, until: int, *, mortal: bool = False) -> None:
        """Let the device live up to this instant; what it has not written for a second is written, as a host does."""
        device, clock = self.device, self.clock
        while clock.now() < until:
            while jobs := device.wake():
                for job in jobs:
                    await device.carry_out(job)
            following = max(device.wake_at, clock.now() + 1)
            # Written or not makes no difference to a device that is not killed.
            if mortal and min(following, until) - clock.now() >= FLUSH_MS:
                device.flush()
            clock.advance(min(following, until) - clock.now())

    def _seen(self, manifest: RoundManifest, trouble: Trouble) -> Stay:
        """What left the device since this was last asked."""
        opens_at, sealed = manifest.opens_at, self.dice.sealed
        quiet = trouble.kind == "steady" or (trouble.kind != "flaky" and trouble.ends <= opens_at)
        stay = Stay(
            person=self.number,
            round_number=manifest.round_number,
            cohort=self.person.cohort,
            trouble=trouble,
            begins=trouble.begins - opens_at,
            ends=trouble.ends - opens_at,
            steady=quiet,
            in_time=self.begins < opens_at,
            violates="train" in sealed.values() if sealed else None,
        )
        tried: dict[bytes, int] = {}
        arrived: dict[bytes, int] = {}
        for one in self.net.seen:
            at = one.at - opens_at
            stay.sends.append((at, len(one.capsule), "" if one.relay is None else one.relay.url))
            tried.setdefault(one.capsule, at)
            if one.fate in (Fate.ARRIVES, Fate.ANSWER_LOST):
                arrived.setdefault(one.capsule, at)
        stay.tried = list(tried.values())
        stay.times = list(arrived.values())
        stay.kinds = [sealed[capsule] for capsule in arrived]
        stay.fetches = [at - opens_at for _, at in self.net.fetches]
        stay.asked_at = max((at - opens_at for path, at in self.net.fetches if path.endswith("latest")), default=0)
        for kept in (self.net.seen, self.net.fetches, sealed):
            kept.clear()
        return stay


#: Kinds of packages by their number in the encoding (docs/protocol.md §9).
KINDS = {1: "train", 2: "test", 3: "participation", 4: "null"}


def marking_seal(random_bytes: RandomBytes) -> Seal:
    """A capsule's length of dice, and a note of what it stands for."""
    assert isinstance(random_bytes, DeviceDice)

    def seal(plaintext: bytes, _gateway_keys: bytes) -> bytes:
        capsule = random_bytes(CAPSULE_BYTES)
        random_bytes.sealed[capsule] = KINDS[plaintext[1]]
        return capsule

    return seal


def _remember(patch: pytest.MonkeyPatch) -> None:
    """Verify each signature and read each blob once, not once for every device: the answers are the same for all."""
    manifest = manifest_module.RoundManifest
    patch.setattr(manifest, "from_bytes", cache(manifest.from_bytes))
    for module, name in (
        (manifest_module, "verify"),
        (models_module, "decode_weights"),
        (device_module, "read_published"),
    ):
        patch.setattr(module, name, cache(getattr(module, name)))


#: Changes the code under test into one with a fault, for as long as the patch lives.
Fault = Callable[[pytest.MonkeyPatch], None]


@cache
def crowd(devices: int, rounds: int, fault: Fault | None = None) -> tuple[Stay, ...]:
    """What such a crowd does, by device and round. A tenth of the devices joins late. On two cores at once."""
    share, seed = devices // 2, seed_for("crowd")
    if share < SMALL:
        return tuple(part(range(devices), rounds, fault, seed))
    # Not forked: a test may have left threads behind.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        halves = [pool.submit(part, range(i * share, (i + 1) * share), rounds, fault, seed) for i in range(2)]
        return tuple(stay for half in halves for stay in half.result())


def part(numbers: range, rounds: int, fault: Fault | None, seed: int) -> list[Stay]:
    """Some devices of the crowd. The seed is handed over: another process does not know the run's."""
    of = experimented(rounds, seed)

    async def live() -> list[Stay]:
        return [stay for n in numbers for stay in await Life(n, of, seed, late=n % 10 == 0).live()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_module, "gateway_seal", marking_seal)
        _remember(patch)
        if fault is not None:
            fault(patch)
        return asyncio.run(live())
