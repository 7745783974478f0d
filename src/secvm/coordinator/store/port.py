"""CoordinatorStore: what a coordinator keeps, as a port. ``memory``, ``sqlite`` and ``postgres`` implement it, and one
suite tests them all.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from secvm.crypto.signing import Envelope
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.round_state import RoundState


@dataclass(frozen=True, slots=True)
class BatchState:
    """How much of a batch has arrived."""

    #: How often its pieces were not what was announced, and were dropped.
    attempt: int = 0
    #: The numbers of the pieces that are here, ascending.
    have: tuple[int, ...] = ()
    #: Whether the pieces are the batch, for good.
    whole: bool = False


class BatchStore(Protocol):
    """Batches, each by its experiment's digest and its round's number."""

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        """The seed of the round's count key: the one that is there, or this one, durably. For the driver, and fenced.
        A batch that is forgotten gets none: it raises ``LocalProtocolError``, as an unknown experiment does.
        """
        ...

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        """The seed; None where the batch has not begun, or is forgotten."""
        ...

    def batch(self, experiment: str, number: int) -> BatchState | None:
        """How far it is; None where it has not begun, or is forgotten."""
        ...

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        """A piece of the batch. The same again changes nothing; other bytes raise ``LocalProtocolError``, and so does a
        new piece of a whole batch. False: the batch has not begun, or is forgotten.
        """
        ...

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        """The bytes of a piece; None where it is not here."""
        ...

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        """The pieces of this attempt are not what was announced: they are gone, and the next attempt begins. A whole
        batch keeps its pieces, and so does another attempt.
        """
        ...

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        """The pieces of this attempt were compared, and are the batch. False: they were dropped meanwhile."""
        ...

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        """A run, of so many, that has no result and that nobody else is counting; None when there is none, and as long
        as the batch is not whole. The same one again as long as this node has not put its result; then another.
        """
        ...

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        """What a run came to. The first result stays. Of a batch that is forgotten nothing is kept; of one that is not
        whole there is no result: it raises.
        """
        ...

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        """Which runs have a result."""
        ...

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        """What a run came to; None where it is not counted, or forgotten."""
        ...

    def forget_batch(self, experiment: str, number: int) -> None:
        """Seed, pieces and results are gone, also from the file's free pages. Twice is once. For the driver, and
        fenced. Whoever was killed in here calls it again, or opens the store again.
        """
        ...

    def batches(self) -> list[tuple[str, int]]:
        """Those that have begun and are not forgotten, by experiment and number."""
        ...


class Standing(enum.Enum):
    """Whether an experiment goes on."""

    RUNNING = "running"
    #: By the operator; no new round is announced.
    PAUSED = "paused"
    #: By the operator, for good.
    STOPPED = "stopped"
    #: All T rounds are over, or early stopping said so.
    FINISHED = "finished"


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


#: Into how many parts records fall by their digest, where several nodes count.
SHARDS = 16


class CoordinatorStore(BatchStore, Protocol):
    """The store of a coordinator: everything that must survive a crash."""

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, holder: str, lease_s: float) -> int | None:
        """Become the driver, or stay it: the term; None while the lease of another one runs.

        ``holder`` is a name that no other process has, nor the same node before its restart. Whoever leads and asks
        again keeps its term, and its lease begins anew, also when it had run out and nobody came. Whoever takes over
        gets the next term. No term is given to two.
        """
        ...

    def resign(self, term: int) -> None:
        """Let go of a term before its lease ends: it is stale from now on. One that is over already stays so."""
        ...

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
        ...

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        """A new experiment and the blobs it starts from. The same again changes nothing, also when its standing has
        changed since; another envelope or other settings raise.
        """
        ...

    def experiments(self) -> list[StoredExperiment]:
        """All experiments, in the order they were added."""
        ...

    def set_standing(self, digest: str, standing: Standing) -> None:
        """What its operator, or its last round, decided. What is stopped or finished stays so: another standing raises
        then.
        """
        ...

    def rounds(self, digest: str) -> list[StoredRound]:
        """All rounds of an experiment, ascending."""
        ...

    def blob(self, digest: str) -> bytes:
        """The bytes under this name. Raises ``KeyError`` where there are none."""
        ...

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Bytes under names: what is there already under a name stays. For the driver."""
        ...

    def agree(self, name: str, value: bytes) -> bytes:
        """What all nodes must have in common: this, if nothing is there under the name yet; else what is there."""
        ...

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        """A round that is ANNOUNCED, with its signed manifest. There is only ever one of a number: the same bytes again
        change nothing, other bytes raise ``LocalProtocolError``. So does a new one where the experiment is not running.
        """
        ...

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        """The clock's transitions: OPEN, CLOSING. Also PUBLISHED, once the next manifest is. The state it is in already
        changes nothing.
        """
        ...

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        """TALLIED with its tally, or ABANDONED without. The same again changes nothing, also when it is published
        since; others raise.
        """
        ...

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_key(self, key: StoredKey) -> StoredKey:
        """The epoch's key: the one that is already there, or this one. A scrubbed epoch gets none: it raises."""
        ...

    def keys(self) -> list[StoredKey]:
        """The gateway keys of epochs that are not scrubbed, by epoch."""
        ...

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        """The epoch's fetch key: the one that is already there, or this one."""
        ...

    def fetch_keys(self) -> list[StoredKey]:
        """The fetch keys that are not forgotten, by epoch."""
        ...

    def forget_fetch_key(self, epoch: int) -> None:
        """Delete the fetch key of an epoch. A second call changes nothing."""
        ...

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        """Groups of capsules (``sealing.capsules.pack``), in one commit. False: the epoch is closed, nothing stored."""
        ...

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        """The oldest groups that are still sealed, each with its number. No number is ever used twice.

        Where several nodes open, this one has claimed them: the others do not get them before the claim has run out.
        Asking again gives the same ones again, and their claim begins anew. None here does not mean that none is left.
        """
        ...

    def left_sealed(self, epoch: int) -> bool:
        """Whether anything of the epoch is still sealed, also what another node has claimed."""
        ...

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        """These groups are opened now: the block stands in their place (empty: nothing does). Also in a closed epoch.
        Twice changes nothing; only some of them being still there raises.

        What another node has claimed meanwhile, because our claim ran out, is not there any more: that node opens it.
        """
        ...

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        """All blocks of opened records, one after the other: they need not fit into memory together. Complete when the
        epoch is closed and nothing of it is sealed any more. Records may have changed places within their block.

        With ``shard``, only the records whose digest belongs to it (``shard_of``): equal capsules are in one shard, so
        that each can be counted alone.
        """
        ...

    @property
    def n_shards(self) -> int:
        """How many shards an epoch has: ``SHARDS``, or 1 where there is one process."""
        ...

    def claim_shard(self, epoch: int) -> int | None:
        """A shard that has no result and that nobody else is counting; None when there is none. The same one again as
        long as this node has not put its result; then another.

        None too as long as the epoch is open, or something of it is sealed: what is counted is complete.
        """
        ...

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        """What the shard came to. The first result stays, and a later one changes nothing: two that counted the same
        came to the same. Of a scrubbed epoch nothing is kept. An epoch that is still open, or sealed, raises.
        """
        ...

    def counted_shards(self, epoch: int) -> set[int]:
        """Which shards have a result. Results are large: whoever waits for the last one asks this."""
        ...

    def shards(self, epoch: int) -> dict[int, bytes]:
        """The results of shards that are counted, by shard."""
        ...

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        """A relay's whole epoch with its count, at once. A second time by the same relay changes nothing and is True.
        False: the epoch is closed.
        """
        ...

    def deposits(self, epoch: int) -> list[Deposit]:
        """The deposits of an epoch, by name of the relay."""
        ...

    def close_epoch(self, epoch: int) -> None:
        """From now on nothing is appended. Twice is once."""
        ...

    def scrub(self, epoch: int) -> None:
        """Capsules, records, shards and key of the epoch are gone, also from the file's free pages; counts of relays
        stay. It is closed from now on. Twice is once. Whoever was killed in here calls it again, or opens the store
        again.
        """
        ...

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        """The log goes on with these, all of them or none; ``at`` is its size before. Another size raises: whoever
        appends has read the log as it is.
        """
        ...

    def entries(self, since: int = 0) -> list[bytes]:
        """The log's entries from this index on, in their order."""
        ...

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        """A checkpoint of the log that a quorum has cosigned: the newest of this name from now on. One of the same size
        and root takes the place of the one before, as renewed cosignatures do; a smaller size, or the same size with
        another root, raises.
        """
        ...

    def notes(self) -> list[StoredNote]:
        """All cosigned checkpoints, by name."""
        ...

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        """The record, verified, of the beacon that an experiment names in this place. Other bytes there raise."""
        ...

    def beacons(self, digest: str) -> dict[int, bytes]:
        """The records of an experiment's beacons, as far as they are known, by place."""
        ...

    def close(self) -> None:
        """Let go of the file, or of the connections, and of what is claimed. What is there stays."""
        ...


def find_blob(store: CoordinatorStore, name: str) -> bytes | None:
    """The blob of this name; None where there is none."""
    try:
        return store.blob(name)
    except KeyError:
        return None
