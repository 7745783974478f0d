"""BatchRound: what one label goes through at either relay, whoever fills its batch (docs/protocol.md §30, §31).

``advance`` does the next thing that is due and says its name. Each is durable when it returns, and killed at any moment
it is done again with the same outcome:

    …           the batch is built: see ``relay.entry.rounds`` and ``relay.mix``
    part-J      each part of the cover, drawn over the root of the incoming batch
    counted     our count is kept
                (the shell hands the batch on at its time, and tells ``handed_on`` when the next has it, durably)
    narrowed    (mixing relay) of the secret only the seeds of the parts are left: the round's key is gone
    forgotten   capsules, and whatever lies in their file, are destroyed
                (``answer`` takes the statement of the other relay that is answered with a seed)
    revealed    the one reveal is signed
    silent      the secret is destroyed
    over        open_by has passed: whatever is left is destroyed

A round whose secret or marks do not fit any more is *lost*: nothing is drawn, and it stays unopened.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.relay.batches.capsule_file import CapsuleFile
from secvm.relay.batches.ledger import ENTRY_REVEAL, MIX_COUNT
from secvm.relay.batches.round_custody import BATCH, HANDED_ON, OVER, DrawPart, RoundCustody, RoundPlan
from secvm.relay.database import destroy_database
from secvm.relay.refusals import RelayRefusalError

F = TypeVar("F", bound=CapsuleFile)
_WORDS = {MIX_COUNT: "count of the mixing relay", ENTRY_REVEAL: "reveal of the entry relay"}


class BatchRound(ABC, Generic[F]):
    """One round. Methods may be called from any thread; one process holds the folder."""

    #: Which papers of the ledger are ours, and which one of the other relay is answered with a seed.
    own_count: ClassVar[str]
    own_reveal: ClassVar[str]
    answers: ClassVar[str]
    #: What our count is.
    count_type: ClassVar[type[EntryCount | MixCount]]

    def __init__(self, plan: RoundPlan, keeping: RoundCustody, key: SigningKey, draw: DrawPart) -> None:
        self.plan = plan
        self._keeping = keeping
        self._ledger = keeping.ledger
        self._key = key
        self._draw = draw
        self._lock = threading.RLock()
        #: The round's capsules, until they are handed on.
        self._file: F | None = None
        if not (self._is_done(HANDED_ON) or self._is_done(OVER)):
            self._file = self._open_file()
        #: Whether the file has what the mark says; None: not looked yet.
        self._fits: bool | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(round_number={self.plan.round_number}, ...)"

    # ── where it stands ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def count(self) -> bytes | None:
        """Our count's envelope, once our batch is whole."""
        return self._ledger.paper(self.plan.label, self.own_count)

    @property
    def capsules(self) -> int:
        """How many our count says; 0: there is none yet."""
        return 0 if self.count is None else self.count_type.enclosed(self.count).capsules

    @property
    def marked(self) -> bytes | None:
        """The root of the incoming batch, once it is closed: on the disk."""
        return self._ledger.marked(self.plan.label, BATCH)

    @property
    def is_lost(self) -> bool:
        """Whether the round can never be drawn: its secret is gone, or was used over another batch."""
        if self.count is not None:
            return False
        root, remembered = self.marked, self._keeping.secrets.marked(self.plan.label, BATCH)
        other = root is not None and remembered not in (None, root)
        return other or self._fits is False or self._keeping.secret(self.plan) is None

    def is_waiting(self, now: int) -> bool:
        """Whether our batch is to be handed on now: not before its time, however early it is ready."""
        due = self._due_at <= now < self.plan.instants.open_by
        return due and self.count is not None and not self._is_done(HANDED_ON) and not self._is_done(OVER)

    def piece(self, index: int) -> bytes:
        """A piece of our batch."""
        with self._lock:
            if self._file is None or self.count is None:
                raise LocalProtocolError("the batch is not ready, or handed on")
            return self._file.piece(index)

    def handed_on(self) -> None:
        """The next one has our batch, durably."""
        self._ledger.note(self.plan.label, HANDED_ON)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def advance(self, now: int) -> str | None:
        """Do the next thing that is due; its name, or None: nothing is due."""
        with self._lock:
            if now >= self.plan.instants.open_by:
                return self._end()
            if self.count is None and self._file is not None and not self.is_lost and self._is_closed(now):
                return self._build(self._file)
            if self._is_done(HANDED_ON) and (step := self._forget()) is not None:
                return step
            if self._ledger.paper(self.plan.label, self.own_reveal) is not None:
                return "silent" if self._keeping.forget_secret(self.plan) else None
            return self._reveal()

    @property
    @abstractmethod
    def _due_at(self) -> int:
        """When our batch is handed on."""

    @abstractmethod
    def _open_file(self) -> F: ...

    @abstractmethod
    def _is_closed(self, now: int) -> bool:
        """Whether nothing more comes into the incoming batch."""

    @abstractmethod
    def _build(self, file: F) -> str | None:
        """The next step towards our count."""

    @abstractmethod
    def _open_part(self, answered: bytes) -> EntryReveal | MixReveal | None:
        """Our reveal, which answers this statement of the other relay; None: nothing may be opened."""

    @abstractmethod
    def tells(self, now: int) -> tuple[str, ...]:
        """The papers that the other relay is told now."""

    def _take_answered(self, envelope: bytes, digest: str, now: int) -> None:
        """Keep the statement that ``advance`` answers. Raises ``RelayRefusalError``: too late, or there is another."""
        with self._lock:
            self._check_time(now)
            if not self._keeping.may_answer(self.plan, digest):
                raise RelayRefusalError(f"another {_WORDS[self.answers]} was taken before", why="conflict")
            self._ledger.keep_paper(self.plan.label, self.answers, envelope)

    def _reveal(self) -> str | None:
        answered = self._ledger.paper(self.plan.label, self.answers)
        reveal = None if answered is None else self._open_part(answered)
        if reveal is None:
            return None
        self._ledger.keep_paper(self.plan.label, self.own_reveal, reveal.signed(self._key))
        return "revealed"

    def _cover(self, file: F, seeds: tuple[bytes, ...], root: bytes) -> str | None:
        """Add the next part that is missing; None: all are there. The batch of this root may be drawn over."""
        for part, seed in enumerate(seeds):
            if file.done(f"part {part}") is None:
                file.add(self._draw(seed, root), f"part {part}")
                return f"part-{part}"
        return None

    def _forget(self) -> str | None:
        if not self._keeping.capsules(self.plan).exists():
            return None
        self._destroy_capsules()
        return "forgotten"

    def _end(self) -> str | None:
        if self._is_done(OVER):
            return None
        self._keeping.forget_secret(self.plan)
        self._destroy_capsules()
        self._ledger.note(self.plan.label, OVER)
        return "over"

    def _destroy_capsules(self) -> None:
        self.close()
        destroy_database(self._keeping.capsules(self.plan))

    def _check_time(self, now: int) -> None:
        if now >= self.plan.instants.open_by:
            raise RelayRefusalError("the round is over: nothing is taken or opened any more", why="stale")

    def _is_done(self, step: str) -> bool:
        return self._ledger.is_done(self.plan.label, step)
