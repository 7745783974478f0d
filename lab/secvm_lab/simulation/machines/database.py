"""The coordinator's database: one ``MemoryStore`` that all nodes have in common, and what may go wrong at each call.

Every call of every node is a point before it and a point after it (``lives``): a node may die before its change, or
after it and before it knows. Besides, a change may fail because the disk is full, or because the connection breaks in
the middle of a commit, and then it has happened or has not, and the node cannot know.

Here it is also known who may drive: each term that was ever given is seen. A change that somebody made under an older
term than the newest is written down, and that is the end of the simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, StoredKey, StoredRound
from secvm.coordinator.store.records import DIGEST_BYTES, RECORD_BYTES
from secvm.errors import StoreError
from secvm_lab.simulation.machines.lives import Life
from secvm_lab.simulation.machines.loop import SimulatedClock
from secvm_lab.simulation.question import LEASE_S

#: Changes that only a driver makes.
DRIVEN = frozenset(
    {
        "announce", "set_state", "conclude", "add_key", "close_epoch", "scrub", "append_entries", "keep_note",
        "keep_beacon",
    }
)  # fmt: skip
#: What operators may do at any node, and drivers too.
ANYBODY = frozenset({"add_experiment", "set_standing"})
#: What every node does.
SHARED = frozenset({"append_sealed", "replace_sealed", "deposit", "keep_shard", "keep_blobs", "agree"})
#: What other nodes want to hear of.
_TOLD = frozenset({"announce", "conclude", "keep_note", "set_standing", "add_experiment", "keep_blobs"})
_CHANGES = DRIVEN | ANYBODY | SHARED
#: Calls that are no point of anybody's life: looking at what is in memory costs nothing, and cannot fail half-way.
_LOOKS = frozenset(
    {"experiments", "rounds", "blob", "keys", "entries", "notes", "beacons", "deposits", "left_sealed", "n_shards"}
)


class Database:
    """What all nodes have in common."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.store = MemoryStore(clock)
        self.full = False
        #: The next changes are said to have failed; True: after they have happened.
        self.failing: list[bool] = []
        #: The newest term that was given, and to whom.
        self.term, self.driver = 0, ""
        #: A thief takes over before the k-th change of a driver from now; 0: none comes.
        self.thief = 0
        #: What must not be: one sentence each.
        self.wrong: list[str] = []
        #: Every manifest that was ever stored, by experiment and number.
        self.manifests: dict[tuple[str, int], bytes] = {}
        #: Every gateway key that there ever was: whoever checks the counts opens capsules with them.
        self.keys: dict[int, StoredKey] = {}
        #: Digests of the capsules of each epoch that was counted.
        self.counted: dict[int, set[bytes]] = {}
        #: Nodes that are told when something has changed that is public, or will be.
        self.listeners: dict[str, Callable[[], None]] = {}
        self.done: Counter[str] = Counter()

    def node(self, life: Life) -> CoordinatorStore:
        """The database as one process of a node has it."""
        return cast("CoordinatorStore", NodeStore(self, self.store.another_node(), life))

    def take_over(self) -> None:
        """Somebody's lease runs out and another one leads, for a moment: whoever drove does not know."""
        self.clock.jump(int(1000 * LEASE_S))
        term = self.store.lead(f"thief {self.term}", LEASE_S)
        if term is not None:
            self.term, self.driver = term, "a thief"
            self.store.resign(term)
            self.done["taken over"] += 1

    def note(self, name: str, given: tuple[Any, ...], found: Any, term: int | None) -> None:
        """A change has happened."""
        if name in _TOLD:
            for listener in self.listeners.values():
                listener()
        if term is not None and name in DRIVEN | ANYBODY and term != self.term:
            self.wrong.append(f"{name} was accepted under term {term}, and {self.term} is the newest")
        if term is None and name in DRIVEN:
            self.wrong.append(f"{name} was asked for by somebody who does not drive")
        if name == "announce":
            announced: StoredRound = given[0]
            place = (announced.experiment, announced.number)
            if self.manifests.setdefault(place, announced.envelope) != announced.envelope:
                self.wrong.append(f"there is a second manifest of round {announced.number}")
        elif name == "add_key":
            self.keys[found.epoch] = found
        elif name == "conclude":
            self._note_counted(*given[:2])

    def _note_counted(self, experiment: str, number: int) -> None:
        """What an epoch held when a round of it was concluded: nothing may come or go after its count."""
        (epoch,) = (one.epoch for one in self.store.rounds(experiment) if one.number == number)
        records = b"".join(self.store.opened(epoch))
        digests = {records[at : at + DIGEST_BYTES] for at in range(0, len(records), RECORD_BYTES)}
        if self.counted.setdefault(epoch, digests) != digests:
            self.wrong.append(f"epoch {epoch} was counted twice, and came to different capsules")


class NodeStore:
    """A ``CoordinatorStore`` in the hands of one life, and of a term where it drives."""

    def __init__(self, database: Database, inside: MemoryStore, life: Life, term: int | None = None) -> None:
        self._database, self._inside, self._life, self._term = database, inside, life, term

    def driving(self, term: int) -> NodeStore:
        return NodeStore(self._database, cast("MemoryStore", self._inside.driving(term)), self._life, term)

    def lead(self, holder: str, lease_s: float) -> int | None:
        self._life.point()
        term = self._inside.lead(holder, lease_s)
        if term is not None:
            if term < self._database.term:
                self._database.wrong.append("a term was given that is older than another")
            if term > self._database.term:
                self._database.done["terms"] += 1
            self._database.term, self._database.driver = term, self._life.name
        self._life.point()
        return term

    def resign(self, term: int) -> None:
        self._life.point()
        self._inside.resign(term)

    def close(self) -> None:
        if not self._life.dead:
            self._inside.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inside, name)
        if name not in _CHANGES:
            if name == "n_shards":
                return found
            made = self._looking(found, pointless=name in _LOOKS)
        else:
            made = self._changing(name, found)
        setattr(self, name, made)
        return made

    def _looking(self, method: Callable[..., Any], *, pointless: bool) -> Callable[..., Any]:
        life = self._life

        def look(*given: Any, **named: Any) -> Any:
            if not pointless or life.dead:
                life.point()
            return method(*given, **named)

        return look

    def _changing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        database, life, term = self._database, self._life, self._term

        def change(*given: Any, **named: Any) -> Any:
            life.point()
            if term is not None and database.thief:
                database.thief -= 1
                if database.thief == 0:
                    database.take_over()
            if database.full:
                database.done["full"] += 1
                raise StoreError("there is no room left on the disk")
            fails = database.failing.pop(0) if database.failing else None
            if fails is False:
                database.done["failed"] += 1
                raise StoreError("the connection broke before the commit")
            found = method(*given, **named)
            database.note(name, given, found, term)
            if fails:
                database.done["failed"] += 1
                raise StoreError("the connection broke after the commit")
            life.point()
            return found

        return change
