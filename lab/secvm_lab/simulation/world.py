"""Everybody in one process: nodes, relay, witnesses, devices, the network and the disks between them.

A world goes on by itself as the loop's time passes. Whoever ended is started again after a while, as a supervisor does;
what may end a process by itself is a store that fails, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import sqlite3
from collections import Counter
from functools import partial

from secvm.coordinator.experiments.history import first_blobs
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.store.port import Standing, StoredExperiment
from secvm.errors import StoreError
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm_lab.simulation.machines.clock import SimulatedClock
from secvm_lab.simulation.machines.database import Database
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.machines.network import Network, Party
from secvm_lab.simulation.operations import DEVICES, NODES, WITNESSES
from secvm_lab.simulation.parties.devices import SimulatedDevice, joined, thrifty
from secvm_lab.simulation.parties.nodes import SimulatedNode
from secvm_lab.simulation.parties.relays import SimulatedRelay
from secvm_lab.simulation.parties.witnesses import SimulatedWitness
from secvm_lab.simulation.question import BUDGET, START, envelope, question
from secvm_lab.simulation.truth import Truth, capsules_in

#: The experiment is there so long before its first window.
BEFORE_MS = 50_000
#: Whoever ended by itself comes back after so long.
SUPERVISED_S = 3.0
#: What may end a process.
_HONEST_FAULTS = (StoreError, sqlite3.Error)
#: The first device agrees to one round only; the others to all.
_THRIFTY = 0


class Parts:
    """What a simulation is made of; a broken world has another of some."""

    database: type[Database] = Database
    node: type[SimulatedNode] = SimulatedNode
    relay: type[SimulatedRelay] = SimulatedRelay
    witness: type[SimulatedWitness] = SimulatedWitness
    device: type[SimulatedDevice] = SimulatedDevice


class World:
    """Everybody."""

    def __init__(self, *, way: str, rounds: int, seed: int, parts: type[Parts] = Parts) -> None:
        dice = random.Random(f"{seed} {way} {rounds}")  # noqa: S311  (a repro must throw the same)
        self.document: ExperimentDocument = question(way, rounds)
        self.envelope = envelope(self.document)
        self.dice = dice
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        self._context = contextvars.copy_context()
        self.clocks = {name: SimulatedClock(START - BEFORE_MS) for name in ("database", "relay", *NODES, *WITNESSES)}
        self.clocks |= {name: SimulatedClock(START - BEFORE_MS) for name in DEVICES}
        self.network = Network(dice)
        steady = SimulatedClock(0)
        self.database = parts.database(self.clocks["database"])
        self.truth = Truth(self.database)
        self.network.watchers.append(self._watch)
        self.witnesses = [parts.witness(i, self.clocks[name]) for i, name in enumerate(WITNESSES)]
        self.nodes = [
            parts.node(i, self.clocks[name], self.database, self.network, dice, steady) for i, name in enumerate(NODES)
        ]
        self.relay = None if way == "direct" else parts.relay(self.clocks["relay"], self.network, dice)
        checks = SharedChecks()
        self.devices = [
            parts.device(
                i,
                self.clocks[name],
                self.network,
                dice,
                checks,
                consent=thrifty(self.document, 1 if i == _THRIFTY else rounds),
            )
            for i, name in enumerate(DEVICES)
        ]
        everybody: list[Process] = [*self.nodes, *self.witnesses, *self.devices]
        everybody += [] if self.relay is None else [self.relay]
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
        self.database.store.add_experiment(stored, first_blobs(self.document))
        self.network.host("coordinator", self._some_node)
        self.network.host("relay", lambda: self.relay)
        for i, witness in enumerate(self.witnesses):
            self.network.host(f"witness{i}", partial(_itself, witness))

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _supervise(self, party: Process) -> None:
        fault = party.life.fault
        if fault is not None and not isinstance(fault, _HONEST_FAULTS):
            self.wrong.append(f"{party.name} broke: {fault!r}")
        self.done["faults" if fault is not None else "crashes"] += 1
        delay = self.gone.pop(party.name, SUPERVISED_S)
        asyncio.get_running_loop().call_later(delay, party.start, context=self._context)

    def _some_node(self) -> SimulatedNode | None:
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


def _itself(party: Party) -> Party:
    return party
