"""Federation: coordinator, relays, witnesses and hosts as real processes on this machine, one clock for all of them.

Of an experiment and its people (docs/how-to/federation-in-python.md):

    with Federation(experiment="experiment.toml", people="people.jsonl") as federation:
        result = federation.run()

Or step by step, for tests that disturb it:

    with Federation(folder, hosts=[HostOf(people, first=0, count=100)], seed="…") as federation:
        federation.start_servers()
        digest = federation.begin(specification)          # a dict as the coordinator's admin API takes it
        for number in range(1, rounds + 1):
            federation.play_round(number, attending=100, budget=8)

The settings files are those of real services, in a folder of their own; every process can be killed and started again.
Time is steered by ``PatientClock``; ``played_rounds`` says where it stands still in a round.

Faults are arguments, of this class or of a round:

- ``doors`` puts something of the caller's before parties, such as a proxy that delays, loses or changes messages, or a
  balancer before several nodes of a coordinator;
- ``disks`` lets the state of a server lie on a small or failing disk; ``addresses`` and ``wrappers`` put processes on
  machines of their own; ``relay_tables`` and ``host_tables`` change the settings of relays and hosts;
- ``play_round(between=…)`` calls somebody between the steps of a round, and ``clock.meanwhile`` is called again and
  again while something is waited for: the places to ``kill``, ``restart`` or pause processes (``children``);
- ``round_parts`` gives the parts of a round one by one.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from secvm.errors import BadInputError
from secvm.files import or_bad_input
from secvm.protocol.documents.experiment import read_published
from secvm.relay.setting_up import RELAY_PATH
from secvm.runtime.clock import ClockSteering
from secvm.testing.asked import FEW, Asked, Experiment, People, Vocabulary
from secvm.testing.clock import PatientClock
from secvm.testing.federation_answers import START_PATIENCE_S, FederationAnswers, HostCounts
from secvm.testing.federation_settings import (
    ANYTHING,
    BEGIN_MS,
    COORDINATOR,
    DASHBOARD,
    ORIGIN_MS,
    RELAY,
    RELAY_STEPS,
    ROLES,
    HostOf,
    Pace,
    PartyDoor,
)
from secvm.testing.played_rounds import Between, PlainPlay, RelayedPlay, settle
from secvm.testing.processes import ROOM_BYTES, Children, free_port, in_memory
from secvm.testing.result import Result
from secvm.testing.whole_experiment import play_rounds

#: The clock's rate where few devices take part.
_QUICK = 30.0
#: A host answers once all its devices have joined: so much longer for each of them, on a machine that is busy.
_JOIN_PATIENCE_S = 0.3


#: Makes the door before a party: its name, the addresses and ports behind the door, and the port to listen on. None:
#: this party has no door. Without any, the others ask the first of several nodes.
MakeDoor = Callable[[str, Sequence[tuple[str, int]], int], PartyDoor | None]


class Federation(FederationAnswers):
    """A whole federation on this machine: every party a process of its own, over loopback. For made-up people.

    Use it in a ``with``. Given an experiment and its people it starts everything and lets all devices join; at the end
    nothing runs any more, and without a ``folder`` of yours nothing is left behind.

    Examples
    --------
    ::

        people = [(["rain", "tea"], "north"), (["sea", "sand"], "south")] * 10
        experiment = {"binning": {"bins": 50}, "budget": 8, "rounds": 2, "privacy": "none"}
        with Federation(experiment=experiment, people=people) as federation:
            result = federation.run()
        print(result)
        result.model.predict([["tea"]])
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None = None,
        *,
        experiment: Experiment | None = None,
        people: People | None = None,
        vocabulary: Vocabulary | None = None,
        hosts: Sequence[HostOf] = (),
        seed: str | int = 0,
        pace: Pace | None = None,
        patience_s: float = 120.0,
        witnesses: int = 3,
        nodes: int = 0,
        database: str | None = None,
        dashboard: bool = False,
        audit_every_s: float = 20.0,
        covered: bool = False,
        consent: Mapping[str, Any] = ANYTHING,
        relays: Sequence[str] = (RELAY,),
        doors: MakeDoor | None = None,
        addresses: Mapping[str, str] | None = None,
        disks: Mapping[str, Path] | None = None,
        wrappers: Mapping[str, Sequence[str]] | None = None,
        relay_tables: Mapping[str, Mapping[str, Any]] | None = None,
        host_tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Choose the ports and the settings; nothing runs yet.

        Parameters
        ----------
        folder
            Where processes keep settings, logs and states; a temporary folder without.
        experiment
            A specification as ``secvm experiment new`` takes it: a file, or a dict of the same keys. Relays and windows
            are the federation's own; title, labels, floor and source may be left out.
        people
            A file of people, or for each of them a pair of words and label.
        vocabulary
            The words that are the bins, or a file of them, where they are not hashed.
        hosts
            In place of experiment and people, for whoever calls ``start_servers`` and ``begin``.
        seed
            Of the devices' dice and the salt. The same seed gives the same model, but for the cover that relays draw.
        patience_s
            So long nothing may change while something is waited for.
        witnesses
            How many there are; without any there is no log.
        nodes, database
            So many processes on the PostgreSQL of this address are the coordinator, in place of one on a file.
        dashboard, audit_every_s
            Whether the operator's page runs beside it, at ``page_url``, and how often it audits.
        covered
            Whether experiments have a guarantee, and two relays that add cover; else the ``relays`` of these names
            serve plain ones. Where an experiment is given, it says so.
        consent
            Of every device, as its settings say it.
        doors
            What stands before parties; see ``MakeDoor``.
        addresses, disks, wrappers
            By name of a process: where it listens in place of 127.0.0.1, the folder that its state lies in, and the
            command that it is run by, such as ``nsenter``.
        relay_tables, host_tables
            What all relays and all hosts have in their settings besides, by table.
        """
        self._dashboard, self._audit_every_s = dashboard, audit_every_s
        self._asked: Asked | None = None
        if experiment is not None and people is not None:
            self._asked = Asked.of(experiment, people, vocabulary=vocabulary, seed=seed)
            covered = self._asked.covered
        elif folder is None or experiment is not None or people is not None:
            raise BadInputError("a federation needs an experiment and its people: give experiment=… and people=…")
        self._leftover: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._leftover = tempfile.TemporaryDirectory(prefix="secvm-federation-", dir=in_memory(ROOM_BYTES))
            folder = self._leftover.name
        # A settings file's paths are relative to it.
        folder = Path(folder).absolute()
        with or_bad_input(f"cannot keep a federation in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            if self._asked is not None:
                hosts = self._asked.carried(folder)
        #: Rounds that ``run`` has played.
        self._played = 0
        self.folder, self.seed, self.covered = folder, str(seed), covered
        self.pace = pace or Pace()
        if pace is None and self._asked is not None and len(self._asked.people) <= FEW:
            self.pace = replace(self.pace, rate=_QUICK)
        if covered and self.pace.relays is None:
            self.pace = replace(self.pace, relays=RELAY_STEPS)
        self.database_url, self.consent = database, consent
        self.disks, self.relay_tables, self.host_tables = disks or {}, relay_tables or {}, host_tables or {}
        self._addresses, self._wrappers = addresses or {}, wrappers or {}
        self.admin_key = os.urandom(32).hex()
        self.document = None
        self.children = Children(folder)
        self._hosts = list(hosts)
        self.host_names = [f"host-{number}" for number in range(len(hosts))]
        self.witness_names = [f"witness-{number}" for number in range(witnesses)]
        self.node_names = [f"node-{number}" for number in range(nodes)]
        #: The two that add cover, or those of plain experiments.
        self.relay_names = list(ROLES) if covered else list(relays)
        self._ports = {name: free_port() for name in (COORDINATOR, *self.names)}
        #: Doors by the party before which they stand.
        self.door_before = self._make_doors(doors)
        self._steering = ClockSteering(folder / "clock", now=BEGIN_MS, rate=0.0, limit=BEGIN_MS)
        self.clock = PatientClock(self._steering, rate=self.pace.rate, patience_s=patience_s)
        self._last_counts = {}

    def _make_doors(self, make: MakeDoor | None) -> dict[str, PartyDoor]:
        if make is None:
            if self.node_names:
                self._ports[COORDINATOR] = self._ports[self.node_names[0]]
            return {}
        doors: dict[str, PartyDoor] = {}
        for name in (COORDINATOR, *self.relay_names, *self.witness_names):
            behind = self.node_names if self.node_names and name == COORDINATOR else [name]
            port = self._ports[COORDINATOR] if behind is self.node_names else free_port()
            door = make(name, [(self.address(party), self._ports[party]) for party in behind], port)
            if door is not None:
                doors[name] = door
        return doors

    def __enter__(self) -> Self:
        if self._asked is None:
            return self
        try:
            # What the coordinator would refuse is refused before anything is started.
            self._asked.document(self.pace)
            self.start_servers()
            self.begin(self._asked.content)
        except BaseException as fault:
            self.__exit__()
            if isinstance(fault, OSError):
                raise BadInputError(f"the federation cannot begin: {fault}") from None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._leftover is not None:
            self._leftover.cleanup()

    def run(self, rounds: int | None = None) -> Result:
        """Play the next so many rounds, or all that are left; what came of all rounds so far."""
        if self._asked is None or self.document is None:
            raise BadInputError("run() is for a federation of experiment and people, inside of its with block")
        last = self.document.rounds if rounds is None else min(self._played + rounds, self.document.rounds)
        if last == 0 or (rounds is not None and rounds < 1):
            raise BadInputError("run() plays one round or more")
        result = play_rounds(
            self, self._played + 1, last, devices=len(self._asked.people), vocabulary=self._asked.vocabulary
        )
        self._played = len(result.rounds)
        return result

    @property
    def server_names(self) -> list[str]:
        """All but the hosts."""
        coordinators = self.node_names or [COORDINATOR]
        return [*self.witness_names, *coordinators, *self.relay_names, *([DASHBOARD] * self._dashboard)]

    @property
    def names(self) -> list[str]:
        """Every process."""
        return [*self.server_names, *self.host_names]

    # ── beginning and ending ─────────────────────────────────────────────────────────────────────────────────────────

    def write_settings(self) -> None:
        """Write the servers' settings, which whoever extends this class may change before anything is started."""
        self.write_servers()
        if self._dashboard:
            self.write_dashboard(self._audit_every_s)

    def start_servers(self) -> None:
        """Start witnesses, coordinator and relays, and wait until all answer."""
        self.write_settings()
        for door in self.door_before.values():
            door.start()
        programs = {
            **dict.fromkeys(self.witness_names, "witness"),
            **dict.fromkeys(self.node_names, COORDINATOR),
            **dict.fromkeys(self.relay_names, "relay"),
        }
        for name in self.server_names:
            self._start(name, programs.get(name, name), "serve")
        for name in self.server_names:
            self._await(lambda name=name: self.healthy(name), f"{name} to answer")  # type: ignore[misc]

    def _start(self, name: str, *command: str) -> None:
        arguments = [*command, "--config", str(self.folder / f"{name}.toml")]
        self.children.start(name, arguments, wrapper=self._wrappers.get(name, ()))

    def start_host(self, name: str) -> None:
        """Start one host; a federation that measures its hosts starts them in its own way."""
        self._start(name, "participant", "run")

    def begin(self, specification: dict[str, Any]) -> str:
        """Make the experiment and start the hosts; its digest. It has all relays, unless it names its own."""
        whole = {
            **({} if self.covered else {"privacy": "none"}),
            "relays": self.relays_specified(),
            **specification,
            "windows": self.pace.specified(),
            "test": True,
        }
        # As an operator, on a machine of the coordinator: planning takes longer than the door before nodes waits.
        asked = (self.node_names or [COORDINATOR])[0]
        made = self.ask(asked, "POST", "/admin/experiments", json.dumps(whole).encode(), admin=True)
        digest: str = json.loads(made)["digest"]
        # Logged and cosigned first; then its beacons' rounds come, then its first round.
        served = self.patiently(lambda: self.public(f"/v1/experiment/{digest}"), "the experiment")
        self.document = read_published(served, digest=digest)
        self.clock.leap_to(ORIGIN_MS - 1000 * self.pace.lead_s)
        self._await(lambda: self.public(f"/v1/experiment/{digest}/manifest/1") is not None, "the first manifest")
        for name, host in zip(self.host_names, self._hosts, strict=True):
            self.write_host(name, host, digest)
            self.start_host(name)
        patience_s = START_PATIENCE_S + _JOIN_PATIENCE_S * sum(host.count for host in self._hosts)
        for name in self.host_names:
            self._await(lambda name=name: self.healthy(name), f"{name} to answer", patience_s)  # type: ignore[misc]
        return digest

    def stop(self) -> None:
        """End everything: devices first, then all servers."""
        self.children.stop(self.host_names)
        self.children.stop()
        for door in self.door_before.values():
            door.close()

    def kill(self, name: str) -> None:
        """SIGKILL one process."""
        self.children.kill(name)

    def restart(self, name: str) -> None:
        """Start one process again; its state is what it had written."""
        self.children.restart(name)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def opens_at(self, number: int) -> int:
        """When a round opens, while every round follows the one before."""
        return ORIGIN_MS + 1000 * self.pace.period_s * (number - 1)

    def round_parts(
        self,
        number: int,
        *,
        attending: int,
        budget: int,
        spent: Callable[[], bool] = lambda: True,
        quiet_s: float = 0.0,
    ) -> PlainPlay:
        """The parts of a round, to be played one by one; see ``played_rounds``."""
        kind = RelayedPlay if self.covered else PlainPlay
        return kind(self, number, attending=attending, budget=budget, spent=spent, quiet_s=quiet_s)

    def play_round(
        self,
        number: int,
        *,
        attending: int,
        budget: int,
        look: Callable[[int], None] | None = None,
        before_closing: Callable[[], None] | None = None,
        between: Between | None = None,
    ) -> tuple[HostCounts, float]:
        """Play one whole round, up to the publication of what follows; what the hosts counted, and how long the end was
        waited for.

        ``between`` is told of every step, while time stands still; ``look`` is told the time, again and again while the
        window is open.
        """
        return self.round_parts(number, attending=attending, budget=budget).play(
            look=look, before_closing=before_closing, between=between
        )

    def settle(self) -> None:
        """After the last round of two relays: wait for devices to fetch the ending and to look for their canaries."""
        settle(self)


__all__ = ["COORDINATOR", "ORIGIN_MS", "RELAY", "RELAY_PATH", "Federation", "HostCounts", "HostOf", "Pace", "PartyDoor"]
