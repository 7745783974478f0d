"""CoordinatorStore: what a coordinator keeps, as a port. ``memory`` and ``sqlite`` implement it; one suite tests both.

Every method is one transaction: it has happened, durably, when it returns, or it has not happened at all. Methods that
a crashed driver may call a second time are idempotent. Nothing here has an arrival time. Any thread may call; one at a
time is served.

Errors: ``StoreError`` when the store cannot (disk full, I/O error) and nothing is done; ``LocalProtocolError`` when
what was asked contradicts what is there: an experiment or round that does not exist, a transition that is not in
``round_state.TRANSITIONS``, other bytes under a name that is taken. docs/data-model.md says what is forgotten when.

An **epoch** is one slot of the coordinator's grid (docs/protocol.md §19): one gateway key, and the rounds of all
experiments whose windows lie in it. Ingest appends to an epoch until it is **closed**; then the driver counts what is
there; when every round of the epoch is concluded, the epoch is **scrubbed**.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from secvm.protocol.round_state import RoundState


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
    """One experiment."""

    digest: str
    #: As it is served.
    envelope: bytes
    #: Canonical JSON of what only the coordinator needs to know, such as early stopping.
    settings: bytes
    standing: Standing


@dataclass(frozen=True, slots=True)
class StoredRound:
    """One round of one experiment."""

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
    """A gateway key of one epoch."""

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
    """What a quorum of witnesses has cosigned of one log. The log itself is not stored: it follows from the rest."""

    origin: str
    #: Of the newest checkpoint.
    size: int
    root: bytes
    #: The newest checkpoint's note, with its cosignatures.
    newest: bytes
    #: The first note that ever had its quorum; never changes.
    first: bytes


class CoordinatorStore(Protocol):
    """What must not be lost."""

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        """A new experiment and the blobs it starts from. The same again changes nothing, also when its standing has
        changed since; another envelope or other settings raise.
        """
        ...

    def experiments(self) -> list[StoredExperiment]:
        """All, in the order they were added."""
        ...

    def set_standing(self, digest: str, standing: Standing) -> None:
        """What its operator, or its last round, decided."""
        ...

    def rounds(self, digest: str) -> list[StoredRound]:
        """All rounds of an experiment, ascending."""
        ...

    def blob(self, digest: str) -> bytes:
        """Raises ``KeyError``."""
        ...

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        """A round that is ANNOUNCED, with its signed manifest. There is only ever one of a number: the same bytes again
        change nothing, other bytes raise ``LocalProtocolError``.
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
        """Those that are not scrubbed, by epoch."""
        ...

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        """Groups of capsules (``crypto.capsules.pack``), in one commit. False: the epoch is closed, nothing stored."""
        ...

    def append_opened(self, epoch: int, block: bytes, spent: bytes = b"") -> bool:
        """A block of opened records (``coordinator.records``), and which of them have used which tokens
        (``coordinator.redeeming``). False: the epoch is closed, nothing stored.
        """
        ...

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        """The oldest groups that are still sealed, each with its number. No number is ever used twice."""
        ...

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes, spent: bytes = b"") -> None:
        """These groups are opened now: the block stands in their place (empty: nothing does). Also in a closed epoch.
        Twice changes nothing; only some of them being still there raises.
        """
        ...

    def opened(self, epoch: int) -> Iterator[bytes]:
        """All blocks of opened records, one after the other: they need not fit into memory together. Complete when the
        epoch is closed and nothing of it is sealed any more.
        """
        ...

    def spent(self, epoch: int) -> Iterator[bytes]:
        """All that was told of tokens with the records, in the same way."""
        ...

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        """A relay's whole epoch with its count, at once. A second time by the same relay changes nothing and is True.
        False: the epoch is closed.
        """
        ...

    def deposits(self, epoch: int) -> list[Deposit]:
        """By name of the relay."""
        ...

    def close_epoch(self, epoch: int) -> None:
        """From now on nothing is appended. Twice is once."""
        ...

    def scrub(self, epoch: int) -> None:
        """Capsules, records and key of the epoch are gone, also from the file's free pages; counts of relays stay.
        It is closed from now on. Twice is once. Whoever was killed in here calls it again, or opens the store again.
        """
        ...

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def keep_note(self, origin: str, *, size: int, root: bytes, note: bytes) -> None:
        """A checkpoint of this log that a quorum has cosigned: the newest from now on, and the first if there was none.
        One of the same size and root takes the place of the newest, as renewed cosignatures do; a smaller size, or the
        same size with another root, raises.
        """
        ...

    def notes(self) -> list[StoredNote]:
        """Of all logs, by origin."""
        ...

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        """The record, verified, of the beacon that an experiment names in this place. Other bytes there raise."""
        ...

    def beacons(self, digest: str) -> dict[int, bytes]:
        """The records of an experiment's beacons, as far as they are known, by place."""
        ...

    def close(self) -> None:
        """Let go of the file. What is there stays."""
        ...
