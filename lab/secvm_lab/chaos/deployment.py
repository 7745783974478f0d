"""Deployment: a federation that is made to be disturbed, and its rounds in parts.

    with Deployment(folder, hosts=…, seed=…, nodes=3, database=database) as deployment:
        deployment.start_servers()
        deployment.begin(specification)

Beside what a ``Federation`` has: doors (``passage``) in front of nodes and relays, and for plain experiments a relay of
each kind. What relays acknowledge goes by ``acknowledged``. With a network each node is a machine of its own, with a
cable. Whoever ends by itself is started again, as a service manager would, and counted.

A round has four parts, each of which waits for what it is about, and for its faults. Devices join; the window is open;
what was sent is closed and handed on; the count, the step and the next manifest. A plain round and one of two relays
(``secvm.testing.played_rounds``) have the same parts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from secvm.relay.setting_up import RELAY_PATH
from secvm.testing.clock import JOINING_QUIET_S
from secvm.testing.federation import Federation, HostOf
from secvm.testing.federation_settings import COORDINATOR, RELAY, Pace, memory_of
from secvm.testing.played_rounds import PlainPlay, RelayedPlay
from secvm_lab.chaos.accounting import Acknowledged
from secvm_lab.chaos.network import HUB_ADDRESS, Network
from secvm_lab.chaos.passage import FAIR, Answer, Instead, Passage, Request

if TYPE_CHECKING:
    from secvm_lab.chaos.database import Database


class Part(StrEnum):
    """A part of a round."""

    JOINING = "joining"
    WINDOW = "window"
    CLOSING = "closing"
    COUNTING = "counting"


#: The second of two relays that hold packages.
SECOND = "second"
#: Of relays: seconds of the machine that they wait for a node, and what they say in the federation's seconds, of which
#: a window has a minute.
_RELAY_TABLES: dict[str, dict[str, float]] = {
    "gateway": {"timeout_s": 6.0, "deposit_timeout_s": 6.0},
    "limits": {"retry_after_s": 1},
}
_WITNESSES = 3
#: Whoever may be stopped or cut off is not waited for.
_PROBE_S = 0.8
#: A long lead: devices ask for a manifest again and again until somebody is there to answer.
PACE = Pace(length_s=60, grace_s=8, lead_s=600, rate=20.0)
#: With two relays: each asks nodes and the other one, and devices ask both.
COVERED_PACE = Pace(length_s=60, grace_s=12, lead_s=300, rate=10.0)


class Deployment(Federation):
    """Use it in a ``with``: at the end nothing runs any more."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: Sequence[HostOf],
        seed: str,
        nodes: int = 1,
        database: Database | None = None,
        network: Network | None = None,
        disks: Mapping[str, Path] | None = None,
        liar: Instead | None = None,
        covered: bool = False,
    ) -> None:
        """Without a database there is one coordinator, with a file of its own. ``disks``: small ones for the state of
        a relay or of "coordinator". ``liar`` answers in the relays' place, where it likes. ``covered``: experiments
        have a guarantee, and two relays.
        """
        self.database = database
        self.network = network if database is not None else None
        self.acknowledged = Acknowledged(RELAY_PATH)
        #: What relays answered to packages, by status.
        self.answers: Counter[int] = Counter()
        #: Processes that ended without being killed, and were started again.
        self.ended_by_themselves: Counter[str] = Counter()
        #: What each of them said last.
        self.last_words: list[str] = []
        #: Rounds of which a relay has lost its memory, and that stay unopened.
        self.forgotten: set[int] = set()
        self._liar = liar
        addresses: dict[str, str] = {}
        wrappers: dict[str, Sequence[str]] = {}
        if self.network is not None:
            addresses = {f"witness-{number}": HUB_ADDRESS for number in range(_WITNESSES)}
            for name in (f"node-{number}" for number in range(nodes)):
                addresses[name] = self.network.add(name)
                wrappers[name] = ["nsenter", f"--net={self.network.place(name)}"]
        super().__init__(
            folder,
            hosts=hosts,
            seed=seed,
            pace=COVERED_PACE if covered else PACE,
            covered=covered,
            witnesses=_WITNESSES,
            nodes=0 if database is None else nodes,
            database=None if database is None else database.address,
            relays=(RELAY, SECOND),
            doors=self._make_passage,
            addresses=addresses,
            disks=disks,
            wrappers=wrappers,
            relay_tables=_RELAY_TABLES,
        )

    def _make_passage(self, name: str, places: Sequence[tuple[str, int]], port: int) -> Passage | None:
        if name == COORDINATOR and self.node_names:
            return Passage(places, port=port)
        if name not in self.relay_names:
            return None
        # Nodes that are machines of their own reach the relays over their cables.
        host = "127.0.0.1" if self.network is None else HUB_ADDRESS
        return Passage(places, host=host, port=port, watch=self._watch, instead=self._liar)

    # ── who there is, and where ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def nodes(self) -> list[str]:
        """The processes that are the coordinator."""
        return self.node_names or [COORDINATOR]

    @property
    def doors(self) -> list[Passage]:
        """Those of relays, and of nodes where there are some."""
        return [door for door in self.door_before.values() if isinstance(door, Passage)]

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start_servers(self) -> None:
        """Start doors and servers, and wait until all answer and one drives."""
        super().start_servers()
        self._await(self.well, "a driver")
        # The door looks for itself; until it has found them it hangs up on whoever asks.
        self._await(lambda: all(door.all_well() for door in self.doors), "doors that have found everybody")

    def stop(self) -> None:
        # Whoever was stopped hears nothing else.
        for name in self.children.names():
            with contextlib.suppress(OSError):
                self.children.send(name, signal.SIGCONT)
        super().stop()

    def _watch(self, request: Request, answer: Answer) -> None:
        if self.acknowledged.place_of(request) is not None:
            self.answers[answer.status] += 1
        self.acknowledged(request, answer)

    # ── who is there ─────────────────────────────────────────────────────────────────────────────────────────────────

    def drivers(self) -> list[str]:
        """Nodes that say that they drive: one, most of the time."""
        if not self.node_names:
            return [COORDINATOR]
        return [name for name in self.node_names if self._role(name) == "driver"]

    def _role(self, name: str) -> str | None:
        with contextlib.suppress(OSError):
            role: str = json.loads(self.ask(name, "GET", "/health", patience_s=_PROBE_S))["node"]["role"]
            return role
        return None

    def well(self) -> bool:
        """Whether everybody answers, the database too, and somebody drives."""
        return self.well_enough() and all(self._answers(name) for name in self.nodes)

    def well_enough(self) -> bool:
        """Whether the database answers, a node drives, and all who are no nodes are there."""
        others = [name for name in self.names if name in self.children.names() and name not in self.node_names]
        # Who is asked over a door that has not found anybody yet is hung up on.
        found = all(door.well() for door in self.doors)
        return self.look_after() and found and all(self._answers(name) for name in others) and bool(self.drivers())

    def look_after(self) -> bool:
        """Start again whoever has ended by itself; False while the database does not answer."""
        for name in self.children.ended():
            self.ended_by_themselves[name] += 1
            said = self.children.log(name).read_text(errors="replace").splitlines()
            self.last_words.append(f"{name}: {said[-1] if said else 'nothing'}")
            self.children.kill(name)
            self.children.restart(name)
        return self.database is None or self.database.revive()

    def restart_machine(self, relay: str, number: int) -> None:
        """The machine of a relay starts again: the memory of its rounds is gone, and this one stays unopened."""
        self.forgotten.add(number)
        self.kill(relay)
        shutil.rmtree(memory_of(self.folder, relay))
        self.restart(relay)

    def calm(self) -> None:
        """Fair weather at every door."""
        for door in self.doors:
            door.weather = FAIR

    def complaints(self) -> int:
        """How often a relay said "try later", or a node told of a store that failed. The log of PostgreSQL is no help:
        it lies on the same disk.
        """
        told = sum(
            self.children.log(name).read_bytes().count(word)
            for name in self.nodes
            for word in (b'-failed"', b"lost-the")
        )
        return told + self.answers[503]

    def _answers(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            self.ask(name, "GET", "/health", patience_s=_PROBE_S)
            return True
        return False

    # ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin_round(
        self, number: int, *, attending: int, budget: int, spent: Callable[[], bool] = lambda: True
    ) -> PlainPlay:
        """A round, whose parts are played one after the other; each ends when what it waits for is there, and
        ``spent()``.
        """
        # What fails in the last seconds shall find a moment for its next attempt, also on a busy machine.
        return self.round_parts(number, attending=attending, budget=budget, spent=spent, quiet_s=JOINING_QUIET_S)

    def play_part(self, part: Part, play: PlainPlay, number: int) -> None:
        """Play one of them."""
        match part:
            case Part.JOINING:
                play.join()
            case Part.WINDOW:
                play.send()
            case Part.CLOSING:
                play.close(unless=lambda: number in self.forgotten)
            case Part.COUNTING:
                play.open(unopened=number in self.forgotten)

    def acknowledged_in(self, play: PlainPlay, number: int, budget: int) -> int:
        """Packages of a round whose acknowledgement or receipt went by."""
        if isinstance(play, RelayedPlay):
            return self.acknowledged.of(play.manifest.label) * budget
        return self.acknowledged.of(bytes([(number - 1) % 256]))
