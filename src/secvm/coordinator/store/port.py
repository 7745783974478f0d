"""CoordinatorStore: what a coordinator keeps. Its kinds are ``sqlite``, ``memory``, ``postgres``; one suite tests all.

Each method is one transaction of named queries (``queries``), and what must not be is refused inside of it. The kinds
add what differs: how a transaction begins, who drives, what is claimed, and how much of an epoch is kept where.

Every method is one transaction: it has happened, durably, when it returns, or it has not happened at all. Methods that
a crashed driver may call a second time are idempotent. Nothing here has an arrival time. Any thread may call; one at a
time is served, or several where the store can.

Errors: ``StoreError`` when the store cannot (disk full, I/O error) and nothing is done; ``LocalProtocolError`` when
what was asked contradicts what is there: an experiment or round that does not exist, a transition that is not in
``round_state.TRANSITIONS``, other bytes under a name that is taken. docs/data-model.md says what is forgotten when.
One exception: a database over the network that goes away while it commits leaves nobody knowing. That is a
``StoreError`` too, and whoever gets it asks for the same again.

An **epoch** is one slot of the coordinator's grid (docs/protocol.md §19): one gateway key, and the rounds of all
experiments whose windows lie in it. Ingest appends to an epoch until it is **closed**; then the driver counts what is
there; when every round of the epoch is concluded, the epoch is **scrubbed**.

Several **nodes** may have one store in common. Each is a gateway, and opens and counts its share: it **claims** groups
and shards, and nobody else gets those until its claim has run out. One of them is the **driver**, for a **term**: a
number that only grows. It leads by a lease, not by a lock: one that is stopped and wakes up later believes that it
still drives, so its changes are **fenced** by its term and do nothing. Leases and claims run by the store's own clock,
which all nodes have in common; their own clocks are never asked.

    term = store.lead("node-3/8f2c…", lease_s=10)       # None: another one drives
    store.driving(term).close_epoch(7)                  # StaleDriverError: somebody has taken over since

A **batch** is the mixing relay's inner capsules of one round, in pieces as they travel (docs/protocol.md §30), and with
them the seed of the round's count key. It begins with the seed, before the round has a manifest; it is **whole** when
its pieces were compared with the mixing relay's count; it is **forgotten** some rounds later, seed, pieces and all. The
statements that relays sign are no part of it: they are public, and kept for good.

A whole batch is counted in **runs**, one for each piece: any node claims one, opens its capsules and keeps what they
came to. What a run came to follows from the batch, so it does not matter who counted it, or how often.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from secvm.coordinator.store.queries import NoTableError, Row
from secvm.coordinator.store.rules import agreed_name, may_keep_shard
from secvm.crypto.signing import Envelope
from secvm.errors import BadInputError, LocalProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.round_state import TRANSITIONS, RoundState


@dataclass(frozen=True, slots=True)
class BatchState:
    """How much of a batch has arrived."""

    #: How often its pieces were not what was announced, and were dropped.
    attempt: int = 0
    #: The numbers of the pieces that are here, ascending.
    have: tuple[int, ...] = ()
    #: Whether the pieces are the batch, for good.
    whole: bool = False


class Standing(enum.Enum):
    """Whether an experiment goes on."""

    RUNNING = "running"
    #: By the operator; no new round is announced.
    PAUSED = "paused"
    #: By the operator, for good.
    STOPPED = "stopped"
    #: All T rounds are over, or early stopping said so.
    FINISHED = "finished"

    @property
    def is_final(self) -> bool:
        """Whether it stays so."""
        return self in (Standing.STOPPED, Standing.FINISHED)


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """One experiment as it is stored."""

    digest: str
    #: As it is served.
    envelope: bytes
    #: Canonical JSON of what only the coordinator needs to know, such as early stopping.
    settings: bytes
    standing: Standing

    @property
    def document(self) -> ExperimentDocument:
        """The experiment's document, out of its envelope: our own, so that no signature is checked."""
        return ExperimentDocument.from_bytes(Envelope.from_bytes(self.envelope).payload)


@dataclass(frozen=True, slots=True)
class StoredRound:
    """One round of one experiment as it is stored."""

    experiment: str
    number: int
    epoch: int
    state: RoundState
    #: The signed manifest, as it is served.
    envelope: bytes
    #: After it was tallied: digest of the tally; None before, and when abandoned.
    tally: str | None = None
    #: After it was concluded: digest of the state that follows from it (unchanged when abandoned).
    next_state: str | None = None


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A gateway key or a fetch key of one epoch."""

    epoch: int
    key_id: int
    private: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Deposit:
    """A relay's signed count of one epoch, as an envelope, and which relay signed."""

    epoch: int
    relay: str
    count: bytes


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A checkpoint of the log that a quorum of witnesses has cosigned, under the name for which it is kept."""

    name: str
    #: Of the checkpoint.
    size: int
    root: bytes
    #: With its cosignatures.
    note: bytes


#: A named query of a transaction, with its parameters → its whole answer.
Ask = Callable[..., list[Row]]
#: Whose turn it is (``in_turn``).
_ADDING, _APPENDING = 1, 2
_CONCLUDED = (RoundState.TALLIED, RoundState.ABANDONED)


class CoordinatorStore(ABC):
    """The store of a coordinator: everything that must survive a crash."""

    #: What else is forgotten with an epoch, and with a batch: queries of the transaction that marks it.
    _scrubs: ClassVar[tuple[str, ...]]
    _forgets: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _changing(self, *, bulk: bool = False) -> AbstractContextManager[Ask]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""

    @abstractmethod
    def driven(self, *, by_anyone: bool = False) -> AbstractContextManager[Ask]:
        """A transaction of whoever drives, and still does at its end; ``by_anyone``: also of a node without a term."""

    @abstractmethod
    def _once(self, query: str, **given: object) -> list[Row]:
        """A named query outside of any transaction. Raises ``NoTableError``."""

    @abstractmethod
    def _remove_left(self) -> None:
        """Remove what scrubbed epochs and forgotten batches still have, of this call or of one that was killed."""

    def _reading(self) -> AbstractContextManager[object]:
        """For a few questions that nobody comes between, where that costs nothing."""
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Let go of the file, or of the connections, and of what is claimed. What is there stays."""

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def lead(self, holder: str, lease_s: float) -> int | None:
        """Become the driver, or stay it: the term; None while the lease of another one runs.

        ``holder`` is a name that no other process has, nor the same node before its restart. Whoever leads and asks
        again keeps its term, and its lease begins anew, also when it had run out and nobody came. Whoever takes over
        gets the next term. No term is given to two.
        """

    @abstractmethod
    def resign(self, term: int) -> None:
        """Let go of a term before its lease ends: it is stale from now on. One that is over already stays so."""

    @abstractmethod
    def driving(self, term: int) -> CoordinatorStore:
        """The same store, as the driver of this term uses it.

        There ``add_experiment``, ``set_standing``, ``announce``, ``set_state``, ``conclude``, ``add_key``,
        ``close_epoch``, ``scrub``, ``append_entries``, ``keep_note``, ``keep_beacon``, ``keep_blobs``, ``begin_batch``
        and ``forget_batch`` are fenced: they raise ``StaleDriverError``, with nothing done, as soon as somebody else
        leads or the term was resigned. The term is looked at in the transaction that makes the change: whoever takes
        over waits for it, or it sees who took over. A lease that ran out is no reason to stop as long as nobody came.

        The rest is as in the plain store. In that of PostgreSQL those methods raise ``LocalProtocolError``, because
        nobody drives there without a term; ``add_experiment`` and ``set_standing`` do not: operators ask any node for
        them. It shares the connections of the store it came from, and is not closed by itself.
        """

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        """A new experiment and the blobs it starts from. The same again changes nothing, also when its standing has
        changed since; another envelope or other settings raise.
        """
        given = {"envelope": experiment.envelope, "settings": experiment.settings}
        with self.driven(by_anyone=True) as ask:
            # Their order is that of their commits: a log follows from it, and may not change behind its back.
            ask("in_turn", turn=_ADDING)
            if ask("add_experiment", digest=experiment.digest, standing=experiment.standing.value, **given):
                _keep(ask, blobs)
                return
            there = _held_experiment(ask, experiment.digest)
            if (there.envelope, there.settings) != (experiment.envelope, experiment.settings):
                raise LocalProtocolError(
                    "an experiment of this digest is there, with another envelope or other settings"
                )

    def experiments(self) -> list[StoredExperiment]:
        """All experiments, in the order they were added."""
        return [_experiment(row) for row in self._once("experiments")]

    def set_standing(self, digest: str, standing: Standing) -> None:
        """What its operator, or its last round, decided. What is stopped or finished stays so: another standing raises
        then.
        """
        with self.driven(by_anyone=True) as ask:
            there = _held_experiment(ask, digest).standing
            # Whoever asks at which node: its ending may be public already.
            if there.is_final and standing is not there:
                raise LocalProtocolError(f"an experiment that is {there.value} stays so")
            ask("set_standing", digest=digest, standing=standing.value)

    def rounds(self, digest: str) -> list[StoredRound]:
        """All rounds of an experiment, ascending."""
        return [_stored_round(row) for row in self._once("rounds", digest=digest)]

    def blob(self, digest: str) -> bytes:
        """The bytes under this name. Raises ``KeyError`` where there are none."""
        for (data,) in self._once("blob", digest=digest):
            return bytes(data)
        raise KeyError(digest)

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Bytes under names: what is there already under a name stays. For the driver."""
        with self.driven() as ask:
            _keep(ask, blobs)

    def agree(self, name: str, value: bytes) -> bytes:
        """What all nodes must have in common: this, if nothing is there under the name yet; else what is there."""
        with self._changing() as ask:
            _keep(ask, {agreed_name(name): value})
        return self.blob(agreed_name(name))

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        """A round that is ANNOUNCED, with its signed manifest. There is only ever one of a number: the same bytes again
        change nothing, other bytes raise ``LocalProtocolError``. So does a new one where the experiment is not running.
        """
        place = {"digest": announced.experiment, "number": announced.number}
        with self.driven() as ask:
            # Held until the end: whoever pauses it waits for this manifest, or it is not announced.
            standing = _held_experiment(ask, announced.experiment).standing
            rows = ask("round", **place)
            if not rows and standing is not Standing.RUNNING:
                raise LocalProtocolError(f"the experiment is {standing.value}: no round is announced")
            if announced.state is not RoundState.ANNOUNCED or (announced.tally, announced.next_state) != (None, None):
                raise LocalProtocolError("a round begins announced, without a tally")
            if not rows:
                begin_epoch(ask, announced.epoch)
                state, envelope = announced.state.value, announced.envelope
                ask("announce", epoch=announced.epoch, state=state, envelope=envelope, **place)
                _keep(ask, blobs)
                return
            there = _stored_round(rows[0])
            if (there.epoch, there.envelope) != (announced.epoch, announced.envelope):
                raise LocalProtocolError("this round is announced already, with another manifest or epoch")

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        """The clock's transitions: OPEN, CLOSING. Also PUBLISHED, once the next manifest is. The state it is in already
        changes nothing.
        """
        with self.driven() as ask:
            there = _held_round(ask, digest, number).state
            if there is state:
                return
            if state in _CONCLUDED or state not in TRANSITIONS[there].values():
                raise LocalProtocolError(f"a round that is {there.value} does not become {state.value} like this")
            ask("set_state", digest=digest, number=number, state=state.value)

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        """TALLIED with its tally, or ABANDONED without. The same again changes nothing, also when it is published
        since; others raise.
        """
        with self.driven() as ask:
            there = _held_round(ask, digest, number)
            if there.next_state is not None:
                if (there.tally, there.next_state) != (tally, next_state):
                    raise LocalProtocolError("this round is concluded already, with another outcome")
                return
            if there.state is not RoundState.CLOSING:
                raise LocalProtocolError(f"a round that is {there.state.value} cannot be concluded")
            state = RoundState.ABANDONED if tally is None else RoundState.TALLIED
            outcome = {"state": state.value, "tally": tally, "next_state": next_state}
            ask("conclude", digest=digest, number=number, **outcome)
            _keep(ask, blobs)

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _of_epoch(self, epoch: int, query: str, **given: object) -> list[Row]:
        """A question to an epoch's content; nothing where it has not begun, or is scrubbed."""
        with suppress(NoTableError):
            return self._once(query, epoch=epoch, **given)
        return []

    def add_key(self, key: StoredKey) -> StoredKey:
        """The epoch's key: the one that is already there, or this one. A scrubbed epoch gets none: it raises."""
        with self.driven() as ask:
            begin_epoch(ask, key.epoch)
            ((_, scrubbed),) = ask("hold_epoch", epoch=key.epoch)
            if scrubbed:
                raise LocalProtocolError("the epoch is scrubbed: it gets no key any more")
            return _add_key(ask, "add_key", "key", key)

    @abstractmethod
    def keys(self) -> list[StoredKey]:
        """The gateway keys of epochs that are not scrubbed, by epoch."""

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        """The epoch's fetch key: the one that is already there, or this one."""
        with self.driven() as ask:
            return _add_key(ask, "add_fetch_key", "fetch_key", key)

    def fetch_keys(self) -> list[StoredKey]:
        """The fetch keys that are not forgotten, by epoch."""
        return [StoredKey(*row) for row in self._once("fetch_keys")]

    def forget_fetch_key(self, epoch: int) -> None:
        """Delete the fetch key of an epoch. A second call changes nothing."""
        with self.driven() as ask:
            ask("forget_fetch_key", epoch=epoch)

    @abstractmethod
    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        """Groups of capsules (``sealing.capsules.pack``), in one commit. False: the epoch is closed, nothing stored."""

    @abstractmethod
    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        """The oldest groups that are still sealed, each with its number. No number is ever used twice.

        Where several nodes open, this one has claimed them: the others do not get them before the claim has run out.
        Asking again gives the same ones again, and their claim begins anew. None here does not mean that none is left.
        """

    def left_sealed(self, epoch: int) -> bool:
        """Whether anything of the epoch is still sealed, also what another node has claimed."""
        return any(left for (left,) in self._of_epoch(epoch, "left_sealed"))

    @abstractmethod
    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        """These groups are opened now: the block stands in their place (empty: nothing does). Also in a closed epoch.
        Twice changes nothing; only some of them being still there raises.

        What another node has claimed meanwhile, because our claim ran out, is not there any more: that node opens it.
        """

    @abstractmethod
    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        """All blocks of opened records, one after the other: they need not fit into memory together. Complete when the
        epoch is closed and nothing of it is sealed any more. Records may have changed places within their block.

        With ``shard``, only the records whose digest belongs to it (``shard_of``): equal capsules are in one shard, so
        that each can be counted alone.
        """

    @property
    @abstractmethod
    def n_shards(self) -> int:
        """How many shards an epoch has: ``SHARDS``, or 1 where there is one process."""

    @abstractmethod
    def claim_shard(self, epoch: int) -> int | None:
        """A shard that has no result and that nobody else is counting; None when there is none. The same one again as
        long as this node has not put its result; then another.

        None too as long as the epoch is open, or something of it is sealed: what is counted is complete.
        """

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        """What the shard came to. The first result stays, and a later one changes nothing: two that counted the same
        came to the same. Of a scrubbed epoch nothing is kept. An epoch that is still open, or sealed, raises.
        """
        with self._changing(bulk=True) as ask:
            rows = ask("hold_epoch", epoch=epoch)
            closed, scrubbed = rows[0] if rows else (False, False)
            # What is held is not scrubbed meanwhile, and what is closed is not appended to.
            sealed = closed and not scrubbed and ask("left_sealed", epoch=epoch)[0][0]
            may_keep_shard(shard, self.n_shards, complete=bool(closed and not sealed))
            if not scrubbed:
                self._keep_result(ask, epoch, shard, result)

    @abstractmethod
    def _keep_result(self, ask: Ask, epoch: int, shard: int, result: bytes, /) -> None:
        """What the shard came to, unless it has a result."""

    def counted_shards(self, epoch: int) -> set[int]:
        """Which shards have a result. Results are large: whoever waits for the last one asks this."""
        return {shard for (shard,) in self._of_epoch(epoch, "counted_shards")}

    def shards(self, epoch: int) -> dict[int, bytes]:
        """The results of shards that are counted, by shard."""
        # A question for each: together they may be more than a statement has time for.
        results = {shard: self._of_epoch(epoch, "shard", shard=shard) for shard in sorted(self.counted_shards(epoch))}
        return {shard: b"".join(piece for (piece,) in pieces) for shard, pieces in results.items() if pieces}

    @abstractmethod
    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        """A relay's whole epoch with its count, at once. A second time by the same relay changes nothing and is True.
        False: the epoch is closed.
        """

    def deposits(self, epoch: int) -> list[Deposit]:
        """The deposits of an epoch, by name of the relay."""
        return [Deposit(*row) for row in self._once("deposits", epoch=epoch)]

    def close_epoch(self, epoch: int) -> None:
        """From now on nothing is appended. Twice is once."""
        with self.driven() as ask:
            begin_epoch(ask, epoch)
            ask("close_epoch", epoch=epoch)

    def scrub(self, epoch: int) -> None:
        """Capsules, records, shards and key of the epoch are gone, also from the file's free pages; counts of relays
        stay. It is closed from now on. Twice is once. Whoever was killed in here calls it again, or opens the store
        again.
        """
        with self.driven() as ask:
            # From here on nothing of it is shown; what follows may be killed, and is gone on with later.
            ask("mark_scrubbed", epoch=epoch)
            for query in self._scrubs:
                ask(query, epoch=epoch)
        self._remove_left()

    # ── batches, each by its experiment's digest and its round's number ──────────────────────────────────────────────

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        """The seed of the round's count key: the one that is there, or this one, durably. For the driver, and fenced.
        A batch that is forgotten gets none: it raises ``LocalProtocolError``, as an unknown experiment does.
        """
        with self.driven() as ask:
            _held_experiment(ask, experiment)
            for (made,) in ask("begin_batch", experiment=experiment, number=number):
                ask("make_batch_tables", batch=made)
            held = _held_batch(ask, experiment, number)
            if held is None:
                raise LocalProtocolError("the batch of this round is forgotten: its count key is not made again")
            ask("put_seed", batch=held[0], seed=seed)
            return bytes(ask("seed", batch=held[0])[0][0])

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        """The seed; None where the batch has not begun, or is forgotten."""
        return _first(self._of_batch(experiment, number, "seed"))

    def batch(self, experiment: str, number: int) -> BatchState | None:
        """How far it is; None where it has not begun, or is forgotten."""
        with self._reading():
            kept = self._kept_batch(experiment, number)
            rows = self._of_batch(experiment, number, "have")
        if kept is None or rows is None:
            return None
        _, attempt, whole = kept
        return BatchState(attempt, tuple(piece for (piece,) in rows), bool(whole))

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        """A piece of the batch. The same again changes nothing; other bytes raise ``LocalProtocolError``, and so does a
        new piece of a whole batch. False: the batch has not begun, or is forgotten.
        """
        with self._changing(bulk=True) as ask:
            held = _held_batch(ask, experiment, number)
            if held is None:
                return False
            batch, whole = held
            if whole or not ask("put_piece", batch=batch, index=index, data=data):
                there = _first(ask("piece", batch=batch, index=index))
                if there is None:
                    raise LocalProtocolError("the batch is whole: it has no such piece")
                if there != data:
                    raise LocalProtocolError("a piece of this number is there, with other bytes")
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        """The bytes of a piece; None where it is not here."""
        return _first(self._of_batch(experiment, number, "piece", index=index))

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        """The pieces of this attempt are not what was announced: they are gone, and the next attempt begins. A whole
        batch keeps its pieces, and so does another attempt.
        """
        with self._changing() as ask:
            for (batch,) in ask("next_attempt", experiment=experiment, number=number, attempt=attempt):
                ask("drop_pieces", batch=batch)

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        """The pieces of this attempt were compared, and are the batch. False: they were dropped meanwhile."""
        with self._changing() as ask:
            return bool(ask("finish_batch", experiment=experiment, number=number, attempt=attempt))

    @abstractmethod
    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        """A run, of so many, that has no result and that nobody else is counting; None when there is none, and as long
        as the batch is not whole. The same one again as long as this node has not put its result; then another.
        """

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        """What a run came to. The first result stays. Of a batch that is forgotten nothing is kept; of one that is not
        whole there is no result: it raises.
        """
        with self._changing(bulk=True) as ask:
            held = _held_batch(ask, experiment, number)
            if held is None:
                return
            batch, whole = held
            if not whole:
                raise LocalProtocolError("the batch is not whole: it cannot be counted yet")
            ask("keep_run", batch=batch, run=run, result=result)

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        """Which runs have a result."""
        return {counted for (counted,) in self._of_batch(experiment, number, "counted_runs") or ()}

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        """What a run came to; None where it is not counted, or forgotten."""
        return _first(self._of_batch(experiment, number, "run_result", run=run))

    def forget_batch(self, experiment: str, number: int) -> None:
        """Seed, pieces and results are gone, also from the file's free pages. Twice is once. For the driver, and
        fenced. Whoever was killed in here calls it again, or opens the store again.
        """
        with self.driven() as ask:
            # As in ``scrub``.
            for (batch,) in ask("forget_batch", experiment=experiment, number=number):
                for query in self._forgets:
                    ask(query, batch=batch)
        self._remove_left()

    def batches(self) -> list[tuple[str, int]]:
        """Those that have begun and are not forgotten, by experiment and number."""
        return [(experiment, number) for experiment, number in self._once("batches")]

    def _kept_batch(self, experiment: str, number: int) -> Row | None:
        """Id, attempt and whether it is whole, as it is now; None where it has not begun, or is forgotten."""
        rows = self._once("kept_batch", experiment=experiment, number=number)
        return rows[0] if rows else None

    def _of_batch(self, experiment: str, number: int, query: str, **given: object) -> list[Row] | None:
        """What a question to a batch's content brings; None where it has not begun, or is forgotten."""
        with self._reading(), suppress(NoTableError):
            kept = self._kept_batch(experiment, number)
            return None if kept is None else self._once(query, batch=kept[0], **given)
        return None

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        """The log goes on with these, all of them or none; ``at`` is its size before. Another size raises: whoever
        appends has read the log as it is.
        """
        with self.driven() as ask:
            # Two who append with one size in mind: the second waits for the first, and counts again.
            ask("in_turn", turn=_APPENDING)
            size = ask("size")[0][0]
            if at != size:
                raise LocalProtocolError(f"the log has {size} entries, and these are to come after {at}: read it again")
            for index, entry in enumerate(entries):
                ask("append", place=at + index, entry=entry)

    def entries(self, since: int = 0) -> list[bytes]:
        """The log's entries from this index on, in their order."""
        return [bytes(entry) for (entry,) in self._once("entries", since=since)]

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        """A checkpoint of the log that a quorum has cosigned: the newest of this name from now on. One of the same size
        and root takes the place of the one before, as renewed cosignatures do; a smaller size, or the same size with
        another root, raises.
        """
        with self.driven() as ask:
            for there in (StoredNote(*row) for row in ask("note", name=name)):
                # A log only grows; of one size it has one root.
                if size < there.size or (size == there.size and root != there.root):
                    raise LocalProtocolError("a checkpoint of the log is there that this one does not follow from")
            ask("keep_note", name=name, size=size, root=root, note=note)

    def notes(self) -> list[StoredNote]:
        """All cosigned checkpoints, by name."""
        return [StoredNote(*row) for row in self._once("notes")]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        """The record, verified, of the beacon that an experiment names in this place. Other bytes there raise."""
        with self.driven() as ask:
            _held_experiment(ask, digest)
            if _first(ask("beacon", digest=digest, place=index)) not in (None, record):
                raise LocalProtocolError("another record of this beacon is there")
            ask("keep_beacon", digest=digest, place=index, record=record)

    def beacons(self, digest: str) -> dict[int, bytes]:
        """The records of an experiment's beacons, as far as they are known, by place."""
        return dict(self._once("beacons", digest=digest))


def begin_epoch(ask: Ask, epoch: int) -> None:
    """An epoch that nobody has used yet begins open."""
    if ask("begin_epoch", epoch=epoch):
        ask("make_epoch_tables", epoch=epoch)


def _held_experiment(ask: Ask, digest: str) -> StoredExperiment:
    """An experiment that nobody else changes before this transaction ends."""
    for row in ask("experiment", digest=digest):
        return _experiment(row)
    raise LocalProtocolError("there is no such experiment")


def _held_round(ask: Ask, digest: str, number: int) -> StoredRound:
    for row in ask("round", digest=digest, number=number):
        return _stored_round(row)
    raise LocalProtocolError("there is no such round")


def _held_batch(ask: Ask, experiment: str, number: int) -> tuple[int, bool] | None:
    """The id of a batch, and whether it is whole, until this transaction ends; None: not begun, or forgotten."""
    for batch, _, whole, forgotten in ask("hold_batch", experiment=experiment, number=number):
        return None if forgotten else (batch, bool(whole))
    return None


def _add_key(ask: Ask, add: str, there: str, key: StoredKey) -> StoredKey:
    if not 0 <= key.key_id < 256:
        raise LocalProtocolError("a key id is one byte")
    ask(add, epoch=key.epoch, key_id=key.key_id, private=key.private)
    return StoredKey(*ask(there, epoch=key.epoch)[0])


def _keep(ask: Ask, blobs: Mapping[str, bytes]) -> None:
    for digest, data in blobs.items():
        ask("keep_blob", digest=digest, data=data)


Word = TypeVar("Word", Standing, RoundState)


def _one_of(kind: type[Word], value: str) -> Word:
    """The word of this kind; nothing but a damaged file has another."""
    try:
        return kind(value)
    except ValueError:
        raise BadInputError(
            f"the coordinator's database is damaged: it holds no {kind.__name__} where one belongs",
            next_step="Restore it from a backup.",
        ) from None


def _experiment(row: Row) -> StoredExperiment:
    digest, envelope, settings, standing = row
    return StoredExperiment(digest, envelope, settings, _one_of(Standing, standing))


def _stored_round(row: Row) -> StoredRound:
    experiment, number, epoch, state, envelope, tally, next_state = row
    return StoredRound(experiment, number, epoch, _one_of(RoundState, state), envelope, tally, next_state)


def _first(rows: Sequence[Row] | None) -> bytes | None:
    return bytes(rows[0][0]) if rows else None


def find_blob(store: CoordinatorStore, name: str) -> bytes | None:
    """The blob of this name; None where there is none."""
    try:
        return store.blob(name)
    except KeyError:
        return None
