"""The mixing relay's role: it opens the outer layer, and knows neither who sent nor what (docs/protocol.md §29 to §31).

``MixRound`` is one label here, from the announced batch to its one reveal.

The batch is announced by a count that the entry relay signed, comes in pieces, and is *whole* when its root and number
are those of the count; before that nothing is opened. Its steps before ``part-J``: ``opened-I``, what was in piece I,
each inner capsule once. Opening the outer layer of a batch judges each capsule alone.

``MixDoors`` are its doors, beside those of both roles: ``PUT R/batch/LABEL/count`` and ``…/I``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, BulkSealer, outer_layer
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError
from secvm.protocol.relays.batches import (
    FIELD,
    MEDIA_TYPE,
    capsule_digest,
    capsule_root,
    capsules_in_piece,
    check_ticket,
    piece_count,
    split_piece,
)
from secvm.protocol.relays.commitments import SEED_BYTES, RoundSecret, part_path
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.relay.batches.capsule_file import CapsuleFile
from secvm.relay.batches.doors import MOST_PAPER_BYTES, Answer, RoleDoors, read_index
from secvm.relay.batches.ledger import ENTRY_COUNT, ENTRY_REVEAL, MIX_COUNT, MIX_REVEAL
from secvm.relay.batches.round_custody import BATCH, DrawPart, RoundCustody, RoundPlan
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.batches.running_rounds import have_json
from secvm.relay.refusals import RelayRefusalError, refusal
from secvm.runtime.http.server import HttpRequest, HttpResponse

_MORE = "CREATE TABLE pieces (number INTEGER PRIMARY KEY, data BLOB NOT NULL)"


class IncomingBatch(CapsuleFile):
    """The file of one label: pieces of the entry relay's batch as they come, and later what was inside of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _MORE)

    def have(self) -> list[int]:
        """The numbers of pieces that are here."""
        return [number for (number,) in self.rows("SELECT number FROM pieces ORDER BY number")]

    def put(self, index: int, data: bytes, count: EntryCount) -> None:
        """Keep a piece of the batch that was announced by this count. The same again is nothing new.

        Raises
        ------
        RefusedError
            The batch has no such piece, the piece another length, or other bytes came before.
        """
        expected = capsules_in_piece(index, count.capsules) * OUTER_BYTES
        if not expected:
            raise RelayRefusalError(f"the batch has {piece_count(count.capsules)} pieces, not {index}", why="unknown")
        if len(data) != expected:
            raise RelayRefusalError(f"piece {index} has {len(data)} bytes, not {expected}", why="too-large")
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO pieces VALUES (?, ?)", (index, data))
            if db.execute("SELECT data FROM pieces WHERE number = ?", (index,)).fetchone()[0] != data:
                raise RelayRefusalError(f"piece {index} came before with other bytes", why="conflict")

    def outers(self, index: int) -> bytes:
        """The outer capsules of a piece that is here, side by side."""
        data: bytes | None = self.value("SELECT data FROM pieces WHERE number = ?", (index,))
        if data is None:
            raise LocalProtocolError(f"there is no piece {index}")
        return data

    def outer_digests(self, pieces: int) -> Iterator[list[bytes]]:
        """Digests of all outer capsules as they stand in the pieces."""
        for index in range(pieces):
            yield [capsule_digest(capsule) for capsule in split_piece(self.outers(index), OUTER_BYTES)]

    def is_batch_of(self, count: EntryCount) -> bool:
        """Whether the pieces are the batch that this count announced: ascending, under its root, as many as it says.

        All pieces are here.
        """
        last = b""
        for digests in self.outer_digests(piece_count(count.capsules)):
            if any(digest >= following for digest, following in pairwise([last, *digests])):
                return False
            last = digests[-1]
        by_piece = self.outer_digests(piece_count(count.capsules))
        return capsule_root(digest for digests in by_piece for digest in digests) == count.root

    def drop_pieces(self) -> None:
        """They are not what was announced: it may come again."""
        with self.transaction() as db:
            db.execute("DELETE FROM pieces")
        self.cut_log()


class MixRound(BatchRound[IncomingBatch]):
    """A round at the mixing relay: what it received, opened, added, handed on and revealed."""

    own_count = MIX_COUNT
    own_reveal = MIX_REVEAL
    answers = ENTRY_REVEAL
    count_type = MixCount

    def __init__(
        self,
        plan: RoundPlan,
        keeping: RoundCustody,
        key: SigningKey,
        draw: DrawPart,
        sealer: BulkSealer,
        *,
        most_capsules: int,
    ) -> None:
        """``most_capsules``: n₁ beyond this is refused, as the relay's terms say."""
        super().__init__(plan, keeping, key, draw)
        self._sealer = sealer
        self._most_capsules = most_capsules

    # ── the batch comes in ───────────────────────────────────────────────────────────────────────────────────────────

    def announce(self, envelope: bytes, now: int) -> list[int]:
        """A batch will come: which pieces of it are here. The first that the entry relay signed is the one.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no count that the entry relay signed.
        RefusedError
            Not of this label, not an equation, more than our terms, too late, or another one came before.
        """
        count = EntryCount.read(envelope, self.plan.entry_key)
        if count.label != self.plan.label:
            raise RelayRefusalError("the entry relay's count is of another round", why="wrong-label")
        if not count.adds_up(budget=self.plan.budget, packages=self.plan.packages):
            raise RelayRefusalError("the entry relay's count is not B · M + D", why="garbage")
        if count.capsules > self._most_capsules:
            raise RelayRefusalError(
                f"{count.capsules} capsules are more than {self._most_capsules} of our terms", why="refused"
            )
        with self._lock:
            self._check_time(now)
            if EntryCount.enclosed(self._ledger.keep_paper(self.plan.label, ENTRY_COUNT, envelope)) != count:
                raise RelayRefusalError("another count of the entry relay came before", why="conflict")
            return [] if self._file is None else self._file.have()

    def put(self, index: int, data: bytes, now: int) -> None:
        """A piece, from the entry relay. Raises ``RelayRefusalError``."""
        with self._lock:
            self._check_time(now)
            count = self.entry_count
            if count is None:
                raise RelayRefusalError("a piece of a batch that was not announced", why="conflict")
            if self.marked is None and self._file is not None:
                self._file.put(index, data, count)

    def has_batch(self, have: list[int]) -> bool:
        """Whether the batch is whole, or would be with these pieces of it."""
        count = self.entry_count
        return self.marked is not None or (count is not None and have == list(range(piece_count(count.capsules))))

    def complete(self, envelope: bytes, now: int) -> None:
        """The batch is whole: it is checked, and is ours from now on. Raises as ``announce``."""
        have = self.announce(envelope, now)
        with self._lock:
            count = self.entry_count
            if self.marked is not None or count is None or self._file is None:
                return
            pieces = piece_count(count.capsules)
            if not self.has_batch(have):
                raise RelayRefusalError(f"{pieces - len(have)} pieces of the batch are missing", why="conflict")
            if not self._file.is_batch_of(count):
                self._file.drop_pieces()
                raise RelayRefusalError("the pieces are not the batch that the count announces", why="garbage")
            self._keeping.keep_leaves(self.plan.label, self._file.outer_digests(pieces))
            self._ledger.mark(self.plan.label, BATCH, count.root)

    @property
    def entry_count(self) -> EntryCount | None:
        """The count that announced the batch."""
        envelope = self._ledger.paper(self.plan.label, ENTRY_COUNT)
        return None if envelope is None else EntryCount.enclosed(envelope)

    # ── our batch ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _due_at(self) -> int:
        return self.plan.instants.mix_by

    def _open_file(self) -> IncomingBatch:
        return IncomingBatch(self._keeping.capsules(self.plan))

    def _is_closed(self, now: int) -> bool:  # noqa: ARG002  (the entry relay's batch comes when it comes)
        return self.marked is not None

    def _build(self, file: IncomingBatch) -> str | None:
        entry, secret = self.entry_count, self._keeping.secret(self.plan)
        if entry is None or secret is None:
            return None
        pieces = piece_count(entry.capsules)
        if self._fits is None:
            self._fits = file.have() == list(range(pieces)) and file.is_batch_of(entry) and self.marked == entry.root
        if not self._fits or not self._keeping.may_draw(self.plan, entry.root):
            return None
        drawn = RoundSecret(secret)
        for index in range(pieces):
            if file.done(f"piece {index}") is None:
                layer = outer_layer(self.plan.label)
                inside, opened = self._sealer.open_all(layer, drawn.mix_key, file.outers(index))
                inners = (inside[at * INNER_BYTES : (at + 1) * INNER_BYTES] for at, fate in enumerate(opened) if fate)
                file.add(inners, f"piece {index}")
                return f"opened-{index}"
        step = self._cover(file, drawn.part_seeds(self.plan.parts), entry.root)
        if step is not None:
            return step
        capsules = file.count()
        count = MixCount(
            label=self.plan.label,
            entry_count=entry.digest,
            refused=entry.capsules + self.plan.packages - capsules,
            capsules=capsules,
            root=file.root(),
        )
        self._ledger.keep_paper(self.plan.label, MIX_COUNT, count.signed(self._key))
        return "counted"

    def _forget(self) -> str | None:
        """The key, then the capsules: what could still be opened with the one, and what could be."""
        secret = self._keeping.secret(self.plan)
        if secret is not None and len(secret) == SEED_BYTES:
            seeds = b"".join(RoundSecret(secret).part_seeds(self.plan.parts))
            self._keeping.secrets.narrow(self.plan.experiment, self.plan.round_number, seeds)
            return "narrowed"
        return super()._forget()

    # ── the reveal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, envelope: bytes, now: int) -> None:
        """Take a reveal of the entry relay: the first valid one that names our own count is answered, by ``advance``.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no reveal that the entry relay signed.
        RefusedError
            Not of this round, not over our count, too late, or another one was taken.
        """
        reveal, own = EntryReveal.read(envelope, self.plan.entry_key), self.count
        if reveal.label != self.plan.label or own is None:
            raise RelayRefusalError("a reveal of another round, or of none that was handed on", why="wrong-label")
        faults = reveal.faults(
            label=self.plan.label,
            commitment=self.plan.entry_commitment,
            mix_count=MixCount.enclosed(own).digest,
            parts=self.plan.parts,
        )
        if faults:
            raise RelayRefusalError(f"the entry relay's reveal: {min(fault.value for fault in faults)}", why="conflict")
        self._take_answered(envelope, reveal.digest, now)

    def tells(self, now: int) -> tuple[str, ...]:
        """Our count is told when the batch is handed on, and not before."""
        return (MIX_COUNT, MIX_REVEAL) if now >= self._due_at else ()

    def _open_part(self, answered: bytes) -> MixReveal | None:
        own, seeds, reveal = self.count, self._seeds(), EntryReveal.enclosed(answered)
        if own is None or seeds is None or not self._keeping.may_answer(self.plan, reveal.digest):
            return None
        return MixReveal(
            label=self.plan.label,
            entry_reveal=reveal.digest,
            mix_count=own,
            part=reveal.part,
            seed=seeds[reveal.part],
            path=part_path(seeds, reveal.part),
        )

    def _seeds(self) -> tuple[bytes, ...] | None:
        """The seeds of all parts, from the secret or what is left of it."""
        kept = self._keeping.secret(self.plan)
        if kept is None:
            return None
        if len(kept) == SEED_BYTES:
            return RoundSecret(kept).part_seeds(self.plan.parts)
        return tuple(kept[at : at + SEED_BYTES] for at in range(0, len(kept), SEED_BYTES))


class MixDoors(RoleDoors[MixRound]):
    """The doors of a mixing relay."""

    def _role(self, request: HttpRequest, parts: list[str]) -> Answer | None:
        match request.method, parts:
            case "PUT", ["batch", label, "count"]:
                if len(request.body) > MOST_PAPER_BYTES:
                    return refusal(413)
                return self._count(self._round(label), request.body)
            case "PUT", ["batch", label, index]:
                return self._piece(self._round(label), read_index(index), request)
        return None

    async def _count(self, mix_round: MixRound, envelope: bytes) -> HttpResponse:
        """Announces the batch (202), and ends it where all pieces are there (200)."""
        have = await asyncio.to_thread(mix_round.announce, envelope, self.running.clock.now())
        if not mix_round.has_batch(have):
            return HttpResponse(202, have_json(have), "application/json")
        return await self._kept(lambda: mix_round.complete(envelope, self.running.clock.now()), mix_round)

    def _piece(self, mix_round: MixRound, index: int, request: HttpRequest) -> Answer:
        if request.headers.get("content-type", "") != MEDIA_TYPE:
            return refusal(415)

        def act() -> None:
            ticket, label, key = request.headers.get(FIELD, ""), mix_round.plan.label, mix_round.plan.entry_key
            check_ticket(ticket, key, label=label, piece=index, data=request.body)
            mix_round.put(index, request.body, self.running.clock.now())

        return self._kept(act, mix_round)

    def _take_paper(self, mix_round: MixRound, name: str, envelope: bytes, now: int) -> None:
        if name != ENTRY_REVEAL:
            raise RelayRefusalError("a mixing relay takes the entry relay's reveal", why="unknown")
        mix_round.answer(envelope, now)

    def _shown(self, mix_round: MixRound, name: str) -> bytes | None:
        # Our count is told when the batch is handed on, and not before.
        if name == MIX_COUNT and self.running.clock.now() < mix_round.plan.instants.mix_by:
            return None
        return super()._shown(mix_round, name)
