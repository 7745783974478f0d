"""Everybody in one process: nodes, relay, witnesses, devices, the network and the disks between them; and the truth.

A world goes on by itself as the loop's time passes. Whoever ended is started again after a while, as a supervisor does;
what may end a process by itself is a store that fails, and nothing else.

**The truth** is what really happened, seen from above: every capsule that a device made, who took it, and what was
counted. A server gives a promise when its answer leaves it, whether or not anybody hears it:

- the **coordinator** takes a capsule, a batch or a deposit: each capsule in it is *due*, and its round must count it,
  once;
- the **relay** keeps a capsule: it is *kept*, and the epoch's deposit must hold it.

A refusal that leaves is a promise too: what was refused each time, and never anything else, is not counted. Whatever
else becomes of a request, no answer, a broken connection, "try later", leaves it open; such a capsule may be counted,
once, or not.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.intake.running import gateway_key
from secvm.coordinator.store.port import Standing, StoredExperiment
from secvm.crypto.sealing.capsules import unpack
from secvm.crypto.sealing.oblivious import GatewayKeys
from secvm.errors import RemoteProtocolError, StoreError
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.protocol.codec import AddressedPackage, decode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import first_model
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.plain.sealed_requests import package_in
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm_lab.simulation.machines.database import Database
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.machines.loop import SimulatedClock
from secvm_lab.simulation.machines.network import Network, Party
from secvm_lab.simulation.operations import DEVICES, NODES, PARTIES, WITNESSES
from secvm_lab.simulation.parties.devices import SimulatedDevice, joined, thrifty
from secvm_lab.simulation.parties.nodes import SimulatedNode
from secvm_lab.simulation.parties.servers import SimulatedRelay, SimulatedWitness
from secvm_lab.simulation.question import BUDGET, GRACE_S, GRID, LENGTH_S, START, envelope, question


def digest_of(capsule: bytes) -> bytes:
    """What a capsule is known by."""
    return hashlib.sha256(capsule).digest()


@dataclass(slots=True)
class Fate:
    """What became of one capsule at the coordinator."""

    capsule: bytes
    #: The epoch whose key it names; None: nobody's.
    epoch: int | None
    due: bool = False
    refused: bool = False
    #: It was handed over at least once without a clear answer.
    open: bool = False


@dataclass(slots=True)
class Truth:
    """All of it."""

    database: Database
    #: Capsules that devices made, by device and key id, in the order in which they were first sent.
    sent: dict[tuple[str, int], dict[bytes, None]] = field(default_factory=dict)
    #: What the coordinator was handed, by digest.
    fates: dict[bytes, Fate] = field(default_factory=dict)
    #: What the relay has promised to keep, by epoch: capsules, and whose.
    kept: defaultdict[int, dict[bytes, str]] = field(default_factory=lambda: defaultdict(dict))
    #: What the relay has handed over as its deposit, by epoch.
    deposits: dict[int, set[bytes]] = field(default_factory=dict)
    #: Capsules that were changed on their way to somebody.
    done: Counter[str] = field(default_factory=Counter)
    _opened: dict[bytes, AddressedPackage | None] = field(default_factory=dict)

    def handed(self, request: HttpRequest, answer: HttpResponse | None, at: int) -> None:
        """The coordinator was handed something when its clock showed ``at``, and has answered this."""
        told = _told(answer)
        for capsule in capsules_in(request):
            digest = digest_of(capsule)
            fate = self.fates.get(digest)
            if fate is None:
                fate = self.fates[digest] = Fate(capsule, self.epoch_of(capsule))
            # Of a batch, only what belongs to an epoch that takes capsules is taken; the rest is dropped.
            dropped = told == "due" and request.path == "/v1/batch" and not takes(fate.epoch, at)
            fate.due |= told == "due" and not dropped
            fate.refused |= told == "refused"
            fate.open |= told == "open" or dropped
        self.done[told] += 1
        if request.path == "/v1/deposit":
            self.done["deposits"] += told == "due"
            capsules = capsules_in(request)
            epoch = self.epoch_of(capsules[0]) if capsules else None
            if epoch is not None:
                self.deposits.setdefault(epoch, set()).update(capsules)

    def epoch_of(self, capsule: bytes) -> int | None:
        """The epoch whose key a capsule names."""
        return next((epoch for epoch in self.database.keys if capsule and epoch % 256 == capsule[0]), None)

    def open(self, capsule: bytes, epoch: int) -> AddressedPackage | None:
        """What is in a capsule, by the key of the epoch; None: nothing that counts."""
        digest = digest_of(capsule)
        if digest not in self._opened:
            self._opened[digest] = None
            key = self.database.keys.get(epoch)
            if key is not None:
                (found,) = GatewayKeys([gateway_key(key)]).open_unanswered([capsule])
                try:
                    if not isinstance(found, RemoteProtocolError):
                        self._opened[digest] = decode(package_in(found))
                except RemoteProtocolError:
                    pass
        return self._opened[digest]


def _told(answer: HttpResponse | None) -> str:
    if answer is None or answer.status >= 500 or answer.status == 429:
        return "open"
    return "refused" if answer.status >= 400 else "due"


def takes(epoch: int | None, at: int) -> bool:
    """Whether an epoch takes capsules at this instant: all rounds of a slot have the same times here."""
    return epoch is not None and 0 <= at - GRID.start(epoch) < 1000 * (LENGTH_S + GRACE_S)


def capsules_in(request: HttpRequest) -> Sequence[bytes]:
    """What a request brings."""
    body = request.body
    try:
        if request.path == "/v1/batch":
            return list(unpack(body))
        if request.path == "/v1/deposit":
            length = int.from_bytes(body[:4], "little")
            return list(unpack(body[4 + length :]))
    except RemoteProtocolError:
        return []
    return [body] if request.path == "/v1/capsule" else []


#: The experiment is there so long before its first window.
BEFORE_MS = 50_000
#: Whoever ended by itself comes back after so long.
SUPERVISED_S = 3.0
#: What may end a process.
_HONEST_FAULTS = (StoreError, sqlite3.Error)
#: The first device agrees to one round only; the others to all.
_THRIFTY = 0


class World:
    """Everybody."""

    def __init__(self, *, way: str, rounds: int, seed: int) -> None:
        dice = random.Random(f"{seed} {way} {rounds}")  # noqa: S311  (a repro must throw the same)
        self.document: ExperimentDocument = question(way, rounds)
        self.envelope = envelope(self.document)
        self.dice = dice
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        self._context = contextvars.copy_context()
        self.clocks = {name: SimulatedClock(START - BEFORE_MS) for name in ("database", *PARTIES)}
        self.network = Network(dice, self._find)
        steady = SimulatedClock(0)
        self.database = Database(self.clocks["database"])
        self.truth = Truth(self.database)
        self.network.watchers.append(self._watch)
        self.witnesses = [SimulatedWitness(i, self.clocks[name]) for i, name in enumerate(WITNESSES)]
        self.nodes = [
            SimulatedNode(i, self.clocks[name], self.database, self.network, dice, steady)
            for i, name in enumerate(NODES)
        ]
        self.relay = None if way == "direct" else SimulatedRelay(self.clocks["relay"], self.network, dice)
        checks = SharedChecks()
        self.devices = [
            SimulatedDevice(
                i,
                self.clocks[name],
                self.network,
                dice,
                checks,
                consent=thrifty(self.document, 1 if i == _THRIFTY else rounds),
            )
            for i, name in enumerate(DEVICES)
        ]
        relays = [] if self.relay is None else [self.relay]
        servers: list[SimulatedWitness | SimulatedRelay] = [*self.witnesses, *relays]
        self._by_host: dict[str, Party] = {one.name.replace(" ", ""): one for one in servers}
        everybody: list[Process] = [*self.nodes, *self.witnesses, *self.devices, *relays]
        self.parties = {one.name: one for one in everybody}
        self._claims: dict[tuple[str, int], bytes] = {}
        #: Seconds that somebody is gone when it ends the next time.
        self.gone: dict[str, float] = {}
        #: Everything that was ever on its way to the relay or the coordinator, by key id.
        self.wire: dict[int, list[tuple[str, bytes]]] = {}
        self._ask()
        for device in self.devices[: 2 + (seed % 3 > 0)]:
            device.disk.synced = joined(device.number, seed % 2, self.document, self.envelope)
            device.on_send = self._sent
        for party in everybody:
            party.on_end = self._supervise
            party.start()

    def _ask(self) -> None:
        stored = StoredExperiment(
            self.document.digest, self.envelope, OwnSettings().model_dump_json().encode(), Standing.RUNNING
        )
        self.database.store.add_experiment(stored, first_model(self.document).by_name)

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _supervise(self, party: Process) -> None:
        fault = party.life.fault
        if fault is not None and not isinstance(fault, _HONEST_FAULTS):
            self.wrong.append(f"{party.name} broke: {fault!r}")
        self.done["faults" if fault is not None else "crashes"] += 1
        delay = self.gone.pop(party.name, SUPERVISED_S)
        asyncio.get_running_loop().call_later(delay, party.start, context=self._context)

    def _find(self, host: str) -> Party | None:
        """Who answers to this name now; None: nobody."""
        if host != "coordinator":
            return self._by_host.get(host)
        alive = [node for node in self.nodes if not node.life.dead]
        return self.dice.choice(alive) if alive else None

    def device(self, name: str) -> SimulatedDevice:
        return self.devices[int(name[-1])]

    async def close(self) -> None:
        """The end of the world: nobody is started again, and everybody falls."""
        for party in self.parties.values():
            party.on_end = None
            party.life.kill()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def all_done(self) -> Counter[str]:
        """How often what has happened."""
        counts = self.done + self.network.done + self.database.done + self.truth.done
        disks = [*(one.disk for one in self.devices), *(one.disk for one in self.witnesses)]
        disks += [] if self.relay is None else [self.relay.disk]
        counts["disk failures"] = sum(disk.failures for disk in disks)
        return counts

    # ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _sent(self, device: SimulatedDevice, capsule: bytes) -> None:
        """A capsule is about to leave a device."""
        self.done["sent"] += 1
        assert device.device is not None
        accepted = device.device.memberships[self.document.digest].session.accepted
        number = 0 if accepted is None else accepted.manifest.round_number
        if (self.document.digest, number) not in device.ledger:
            self.wrong.append(f"{device.name} sends packages of round {number}, which its ledger on the disk has not")
        mine = self.truth.sent.setdefault((device.name, number), {})
        mine[capsule] = None
        if len(mine) > BUDGET:
            self.wrong.append(f"{device.name} sends more than {BUDGET} packages in round {number}")
        self.wire.setdefault(capsule[0], []).append((device.name, capsule))

    def _watch(self, party: Party, request: HttpRequest, at: int, answer: HttpResponse | None) -> None:
        if isinstance(party, SimulatedNode):
            if capsules_in(request):
                self.truth.handed(request, answer, at)
        elif isinstance(party, SimulatedWitness):
            party.watch(request, answer)
        elif party is self.relay and request.path == "/r":
            self._watch_relay(request, answer)

    def _watch_relay(self, request: HttpRequest, answer: HttpResponse | None) -> None:
        if answer is not None and answer.status == 202:
            epoch = self.truth.epoch_of(request.body)
            self.truth.kept[-1 if epoch is None else epoch][request.body] = request.headers["secvm-credential"]
            self.done["kept"] += 1

    def claim(self, told: Checkpoint) -> list[str]:
        """Somebody has put a name under this: there is one tree of a size."""
        place = (told.origin, told.size)
        if self._claims.setdefault(place, told.root) != told.root:
            return [f"there are two trees of size {told.size} of one log"]
        return []
