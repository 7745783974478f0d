"""A simulated device: the real ``Device`` of one person, with its real state on a simulated disk.

It is carried as a host would carry it: woken when it wants to be, its jobs done side by side, and what need not be on
the disk at once is written a moment later. The person may join, pause, resume and leave while it sleeps or works.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from secvm.errors import BadInputError
from secvm.learning.individual.dice import KeptOnDevice
from secvm.participant.consent.ledger import spending
from secvm.participant.consent.policies import Budget, Consent
from secvm.participant.device import Device, Job
from secvm.participant.dice import RandomBytes, SystemDice
from secvm.participant.person.pinning import pin_person
from secvm.participant.sending.transport import Fetched, RelayTransport, SendReply, UnsafeDirectTransport
from secvm.participant.storage.books import NOTHING
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Provenance, Vault
from secvm.participant.trust.model_files import ModelShelf
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy.leakage import auc_of
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.plain.session_memory import NEVER
from secvm_lab.simulation.machines.disk import Connection, Disk
from secvm_lab.simulation.machines.lives import Life, Process
from secvm_lab.simulation.machines.loop import SimulatedClock
from secvm_lab.simulation.machines.network import Network, Session
from secvm_lab.simulation.question import COORDINATOR_URL, RELAY_URL

#: What need not be durable at once is written after so long.
FLUSH_S = 4.0
#: When nothing wants it, a device looks at its state again after so long.
_IDLE_S = 3600.0


class _Vault:
    """One person's answers."""

    def __init__(self, number: int) -> None:
        self._number = number

    def features(self, _source: str) -> KeptOnDevice[Mapping[str, int]]:
        return KeptOnDevice({f"w{self._number}": 1, "all": 1})

    def readings(self) -> dict[str, Provenance]:
        return {}

    def label(self, _name: str) -> KeptOnDevice[str]:
        return KeptOnDevice("ab"[self._number % 2])


class _NoFiles(ModelShelf):
    """Models are computed here, and nobody predicts with them."""

    def hold(self, owner: object, digest: str) -> None:
        """No file is written."""


class SimulatedTransport(RelayTransport):
    """Packages go as the experiment says. Public files are fetched as any browser would, in clear: that the seal around
    a fetch holds is tested elsewhere, and costs more than all the rest of a fetch.
    """

    def __init__(self, session: Session, random_bytes: RandomBytes, owner: SimulatedDevice) -> None:
        super().__init__(session, [RELAY_URL], random_bytes, credential=owner.name)
        self._owner = owner
        self._direct = UnsafeDirectTransport(session, COORDINATOR_URL)

    def check(self, document: ExperimentDocument) -> None:
        if document.relays:
            super().check(document)
        else:
            self._direct.check(document)

    async def send(self, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:
        self._owner.on_send(self._owner, capsule)
        return await (
            self._direct.send(capsule, None, label=label)
            if relay is None
            else super().send(capsule, relay, label=label)
        )

    async def fetch(
        self,
        path: str,
        *,
        most: int = 2**24,
        gateway_keys: bytes | None = None,  # noqa: ARG002
    ) -> Fetched | None:
        return await self._direct.fetch(path, most=most)


@lru_cache(maxsize=64)
def thrifty(document: ExperimentDocument, rounds: int) -> Consent:
    """A person who agrees to anything, but to no more than so many rounds of such an experiment in all."""
    free = Consent(most_auc=1.0, budget=Budget(auc=1.0))
    once = spending(document, 1, free, NOTHING).d_squared
    assert once is not None
    return Consent(most_auc=1.0, budget=Budget(auc=auc_of((rounds + 0.5) * once)))


@lru_cache(maxsize=64)
def joined(number: int, variant: int, document: ExperimentDocument, served: bytes) -> bytes:
    """The disk of somebody who has joined before: thousands of lists begin with the same people."""
    disk, life = Disk(), Life("somebody")
    state = DeviceState(Path("device"), database=disk.connect(life))
    dice = SystemDice(random.Random(f"{number} {variant}").randbytes)  # noqa: S311  (nobody's secret)
    person = pin_person(document, cast("Vault", _Vault(number)), dice)
    state.join(document.digest, served, person)
    disk.crash(power_cut=True)
    return disk.synced


class SimulatedDevice(Process):
    """One person's device; ``start`` it, and again after each end."""

    def __init__(
        self,
        number: int,
        clock: SimulatedClock,
        network: Network,
        dice: random.Random,
        checks: SharedChecks,
        *,
        consent: Consent,
    ) -> None:
        super().__init__(f"device {number}")
        self.number, self.clock, self.consent = number, clock, consent
        self._network, self._dice, self._checks = network, dice, checks
        self.disk = Disk()
        #: Rounds that are in the ledger on the disk, so that no power cut takes them away.
        self.ledger: set[tuple[str, int]] = set()
        self.disk.on_sync = self._look_at_ledger
        self.device: Device | None = None
        #: The machine loses power when it ends; else only the process does.
        self.power_cut = True
        self._poked = asyncio.Event()
        clock.on_jump = self._poke
        #: Told of every capsule that leaves, before it does.
        self.on_send: Callable[[SimulatedDevice, bytes], None] = lambda _device, _capsule: None

    def _poke(self) -> None:
        self._poked.set()

    def begin(self) -> None:
        self._poked = asyncio.Event()
        self._unwritten = False
        state = DeviceState(Path("device"), database=self.disk.connect(self.life))
        self.device = Device(
            state,
            SimulatedTransport(Session(self._network, "package"), self._dice.randbytes, self),
            now=self.clock.now,
            random_bytes=self._dice.randbytes,
            shelf=_NoFiles(Path("models")),
            checks=self._checks,
            policy=TrustPolicy(refetches=1),
            consent=self.consent,
            only_tests=True,
        )
        self.life.main(self._carry(self.device))

    def end(self) -> None:
        self.device = None
        self.disk.crash(power_cut=self.power_cut)

    # ── what the person does ─────────────────────────────────────────────────────────────────────────────────────────

    def join(self, document: ExperimentDocument, served: bytes) -> bool:
        """Take part, if the device runs and never did."""

        def act(device: Device) -> None:
            device.join(document.digest, served, cast("Vault", _Vault(self.number)))

        return self._act(act)

    def set_status(self, document: ExperimentDocument, status: Status) -> bool:
        """Pause or resume."""
        return self._act(lambda device: (device.state.set_status(document.digest, status), device._look()))  # noqa: SLF001

    def leave(self, document: ExperimentDocument) -> bool:
        """Forget the experiment."""
        return self._act(lambda device: (device.state.forget(document.digest), device._look()))  # noqa: SLF001

    def _act(self, act: Any) -> bool:
        if self.life.dead or self.life.stalled is not None or self.device is None:
            return False
        try:
            self.life.run(act, self.device)
        except (BadInputError, sqlite3.Error):
            # What a person is told who types the command.
            return False
        finally:
            self._poked.set()
        return True

    def distrusts(self, document: ExperimentDocument) -> bool:
        """Whether it takes no part because of what it has seen of the server."""
        found = None if self.device is None else self.device.memberships.get(document.digest)
        return found is not None and found.distrusts

    def at_rest(self, document: ExperimentDocument) -> bool:
        """Whether it wants nothing more: it knows that the experiment is over, or takes no part."""
        if self.device is None:
            return False
        found = self.device.memberships.get(document.digest)
        return found is None or found.ended or found.distrusts

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _carry(self, device: Device) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._poked.clear()
            for job in device.wake():
                self.life.main(self._carry_out(device, job))
            if not self._unwritten:
                self._unwritten = True
                loop.call_later(FLUSH_S, self._flush, device)
            at = device.wake_at
            delay = _IDLE_S if at >= NEVER else max(0.0, (at - self.clock.now()) / 1000)
            timer = loop.call_later(delay, self._poked.set)
            try:
                await self._poked.wait()
            finally:
                timer.cancel()

    async def _carry_out(self, device: Device, job: Job) -> None:
        await device.carry_out(job)
        self._poked.set()

    def _flush(self, device: Device) -> None:
        if self.life.dead:
            return

        async def flush() -> None:
            self._unwritten = False
            device.flush()

        self.life.main(flush())

    def _look_at_ledger(self, db: Connection) -> None:
        cursor = db.cursor()
        found = cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone()
        if found is not None:
            self.ledger = set(cursor.execute("SELECT experiment, round FROM ledger").fetchall())
