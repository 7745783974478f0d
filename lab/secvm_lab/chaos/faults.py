"""Faults: what is done to whom, and undone.

A **kill** is SIGKILL, and the process is started again at once, as a service manager does. A **stop** is SIGSTOP for
longer than a driver's lease, until somebody else drives, then SIGCONT: whoever wakes up believes for a moment that it
still drives. A **cut** takes a node's cable away for as long, a **slow** one makes it slow. A **loss** is a door that
loses every third message for a while, a **delay** one that is late with each. A **disk** is filled to the last byte
until somebody has noticed, then freed. A **restart** is one of a relay's machine: what it had in memory is gone.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from secvm.testing.federation_settings import LEASE_S, ROLES
from secvm_lab.chaos.deployment import Deployment
from secvm_lab.chaos.passage import Weather
from secvm_lab.chaos.small_disk import SmallDisk

NODE, DRIVER, DATABASE = "node", "driver", "database"
#: Whose absence makes others say "try later".
SHAKY = (DATABASE,)
#: So long somebody may take over, in the machine's seconds.
_TAKE_OVER_S = 12 * LEASE_S
#: Cut or slow, where nobody has to take over.
_AWHILE_S = 1.5 * LEASE_S
#: A full disk that nobody wrote to by then is freed all the same.
_NOTICED_S = 4.0
#: After the first who noticed, others may.
_LINGER_S = 0.5
_LOSING, _LATE = Weather(lost_share=0.33), Weather(delay_s=1.5)


class Kind(StrEnum):
    """What can be done to somebody."""

    KILL = "kill"
    STOP = "stop"
    CUT = "cut"
    SLOW = "slow"
    LOSS = "loss"
    DELAY = "delay"
    DISK = "disk"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    kind: Kind
    #: node, driver, database, relay, entry, mix, witness, host; door.
    whom: str

    @property
    def shaky(self) -> bool:
        """Whether it makes somebody say "try later"."""
        return self.kind in (Kind.DISK, Kind.LOSS, Kind.DELAY) or self.whom in SHAKY


class Faults:
    """Does them."""

    def __init__(
        self,
        deployment: Deployment,
        dice: random.Random,
        *,
        disks: Mapping[str, SmallDisk] | None = None,
    ) -> None:
        self._deployment = deployment
        self._dice = dice
        self._disks = dict(disks or {})
        #: Disks that are full already, and how many had complained before.
        self._full: dict[str, int] = {}
        #: Drivers that lost the lead while they were stopped or cut off.
        self.taken_over = 0
        #: Full disks that somebody noticed.
        self.noticed = 0

    def strike(self, fault: Fault, *, number: int = 0) -> str:
        """Do it, and say to whom it was done. ``number``: of the round that is under way."""
        match fault.kind:
            case Kind.KILL:
                return self._kill(fault.whom)
            case Kind.STOP:
                return self._stop(fault.whom)
            case Kind.CUT | Kind.SLOW:
                return self._cable(fault.kind, fault.whom)
            case Kind.LOSS | Kind.DELAY:
                return self._spoil(_LOSING if fault.kind is Kind.LOSS else _LATE)
            case Kind.DISK:
                return self._fill(fault.whom)
            case Kind.RESTART:
                self._deployment.restart_machine(fault.whom, number)
                return f"the machine of {fault.whom}"

    # ── whom ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _process(self, whom: str) -> str:
        """The name of a process that is meant."""
        deployment = self._deployment
        drivers = deployment.drivers()
        others = [name for name in deployment.nodes if name not in drivers]
        found = {
            DRIVER: drivers or deployment.nodes,
            NODE: others or deployment.nodes,
            "relay": deployment.relay_names,
            **{role: [role] for role in ROLES},
            "witness": deployment.witness_names,
            "host": deployment.host_names,
        }[whom]
        return self._dice.choice(found)

    # ── what ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _kill(self, whom: str) -> str:
        database = self._deployment.database
        if whom == DATABASE:
            assert database is not None
            if self._dice.randrange(3) == 0 and database.kill_backend(self._dice):
                return "a backend of the database"
            database.kill()
            database.revive()
            return "database"
        name = self._process(whom)
        self._deployment.kill(name)
        self._deployment.restart(name)
        return name

    def _spoil(self, weather: Weather) -> str:
        number = self._dice.randrange(len(self._deployment.doors))
        self._deployment.doors[number].weather = weather
        try:
            time.sleep(_AWHILE_S)
        finally:
            self._deployment.calm()
        return f"at door {number}"

    def _stop(self, whom: str) -> str:
        name = self._process(whom)
        children = self._deployment.children
        children.send(name, signal.SIGSTOP)
        try:
            self._away(name, was_driving=whom == DRIVER)
        finally:
            children.send(name, signal.SIGCONT)
        return name

    def _cable(self, kind: Kind, whom: str) -> str:
        network = self._deployment.network
        assert network is not None
        name = self._process(whom)
        (network.cut if kind is Kind.CUT else network.slow)(name)
        try:
            self._away(name, was_driving=whom == DRIVER and kind is Kind.CUT)
        finally:
            network.heal(name)
        return name

    def _away(self, name: str, *, was_driving: bool) -> None:
        """Wait until somebody else drives; or just a while."""
        begun = time.monotonic()
        time.sleep(_AWHILE_S)
        if not was_driving or len(self._deployment.nodes) < 2:
            return
        while time.monotonic() < begun + _TAKE_OVER_S:
            if set(self._deployment.drivers()) - {name}:
                self.taken_over += 1
                # What it does first, the stale one shall find done.
                time.sleep(self._dice.random())
                return
            time.sleep(0.05)
        raise TimeoutError(f"{name} was away, and nobody drives in its place")

    def prepare(self, whom: str) -> None:
        """Fill a disk before its fault comes, so that nobody finds room on it meanwhile. Twice is once."""
        if whom not in self._full:
            self._full[whom] = self._deployment.complaints()
            self._disks[whom].fill()

    def _fill(self, whom: str) -> str:
        disk, deployment = self._disks[whom], self._deployment
        self.prepare(whom)
        before, begun = self._full.pop(whom), time.monotonic()
        try:
            while deployment.complaints() == before and time.monotonic() < begun + _NOTICED_S:
                time.sleep(0.05)
            self.noticed += deployment.complaints() != before
            time.sleep(_LINGER_S)
        finally:
            disk.free()
        return f"of the {whom}"
