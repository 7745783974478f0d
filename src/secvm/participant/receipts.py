"""Was what I sent counted? A device looks for a few of its own capsules under the received root (§22, step 11).

When a round's packages are sealed, a few of its capsules are chosen at random. Of those that are acknowledged nothing
is kept but SHA-256. When a manifest or an ending is believed that tells the round's received root, each of them gets a
random moment of its own in the time that follows, and is looked for by separate sealed fetches over fresh paths. What
such a fetch tells is said in ``protocol.receipts``. Three things can come of it:

- the digest is under the root: it is forgotten;
- the bucket in which it belongs is under the root, and does not hold it: **it was acknowledged and left out**;
- nothing that verifies came back. The same is asked again at other moments. After three times, although other fetches
  were answered in between, that is no accident either.

In the last two cases the device takes no part from then on and tells its person, who may resume. It is no evidence for
others: nobody signs acknowledgements, so nobody else can know that the capsule was ever sent.

Rounds that were abandoned are not looked at: of them no tally is told. Buckets are kept by the coordinator until the
round after the next is concluded, or for two periods after the end; who was away for longer forgets, and counts that.
Nobody says how far the rounds have come meanwhile to a device that has not asked yet, so this goes by the clock: no
window is shorter than the experiment's. It forgets too where asking would tell too much: many buckets, and no relay's
count that says how many capsules there were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.participant.surroundings import Now, Surroundings
from secvm.participant.trust_book import MISSING, RECEIPTS, UNCHECKED, Owed, TrustBook
from secvm.protocol.ending import Ending
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import LastRound, RoundManifest, read_relay_count
from secvm.protocol.receipts import MAX_RECEIPT_BYTES, UNCOUNTED_BITS, check_bits, decode_bits, decode_receipt
from secvm.protocol.received import bucket_of, check_bucket
from secvm.protocol.schedule import Window, below, shuffle, spread
from secvm.protocol.session import GRACE_MS, WaitingRow
from secvm.protocol.session_memory import NEVER
from secvm.protocol.version import LOG_ORIGIN

#: So often something that does not verify may come back.
MAX_TRIES = 3
#: Buckets are kept until the round after the next is concluded.
_ROUNDS_KEPT = 2
_LEFT_OUT = "a capsule of this device was acknowledged in round {}, and is not under the received root"
_WITHHELD = "for a capsule of round {} no receipt can be had, although other files are served"


class _TellsTooMuchError(Exception):
    """Nobody has counted the capsules, and the buckets may be too small to ask for one. That accuses nobody."""


class Receipts:
    """The capsules of one experiment that this device looks for."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, *, spread_ms: int) -> None:
        self._around, self._document = around, document
        self._book: TrustBook = around.state.trust
        #: The time over which moments are spread when no window lies ahead.
        self._spread = spread_ms
        #: Digests that were chosen and are not acknowledged yet; and those that are, but not written yet.
        self._chosen = self._book.chosen(document.digest)
        self._acknowledged: set[bytes] = set()
        #: What was looked for and need not be any more, not written yet.
        self._settled: dict[bytes, tuple[Owed, str]] = {}
        self._moments: dict[bytes, int] = {}
        #: The newest manifest that is believed.
        self._last: RoundManifest | None = None

    # ── while a round runs ───────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, round_number: int, rows: Sequence[WaitingRow]) -> None:
        """Some of these capsules, inside a transaction: they are sealed, and none has left."""
        some = shuffle(rows, self._around.words)[: self._around.policy.receipts]
        self._chosen = {hashlib.sha256(row.capsule).digest() for row in some}
        self._book.put_chosen(self._document.digest, round_number, self._chosen)

    def acknowledged(self, capsule: bytes) -> None:
        """A capsule was acknowledged."""
        digest = hashlib.sha256(capsule).digest()
        if digest in self._chosen:
            self._chosen.remove(digest)
            self._acknowledged.add(digest)

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return bool(self._acknowledged or self._settled)

    def write(self) -> None:
        """Write what was acknowledged and what was found, inside a transaction. Lost, it is only looked for again."""
        experiment = self._document.digest
        if self._acknowledged:
            self._book.put_acknowledged(experiment, self._acknowledged)
        for owed, name in self._settled.values():
            self._book.drop(experiment, owed)
            self._book.count(experiment, name)
        self._acknowledged, self._settled = set(), {}

    def settle(self, documents: Sequence[RoundManifest | Ending]) -> None:
        """What is believed now tells how rounds ended; in their order, inside a transaction."""
        self.write()
        digest, newest = self._document.digest, 0
        for told in documents:
            ends = isinstance(told, Ending)
            newest = told.round_number + ends
            last = told.last
            if last is not None:
                root = None if last.tally is None else last.received_root
                self._book.settle(digest, newest - 1, root=root, capsules=_capsules(last, self._document))
        late = self._book.drop_before(digest, newest - _ROUNDS_KEPT)
        if late:
            self._book.count(digest, UNCHECKED, late)

    # ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, last: RoundManifest | None, *, now: int) -> None:
        """Give everything that can be looked for a moment in the window of this manifest, or soon where it is over."""
        self._last = last
        owed = self._owed()
        self._moments = {digest: at for digest, at in self._moments.items() if digest in owed}
        for digest in sorted(set(owed) - set(self._moments)):
            self._draw(digest, now)

    @property
    def at(self) -> int:
        """When the next one is looked for."""
        return min(self._moments.values(), default=NEVER)

    async def look(self, now: Now) -> str | None:
        """Look for the one that is due. A sentence comes back where this device should take no part any more."""
        digest = min(self._moments, key=lambda one: self._moments[one])
        at = self._moments.pop(digest)
        owed = self._owed().get(digest)
        if owed is None or self._too_late(owed, now()):
            return None
        if at + GRACE_MS < now():
            # This device slept or was paused: asking right after waking would tell when.
            self._draw(digest, now())
            return None
        try:
            bucket = await self._bucket(owed, now)
        except _TellsTooMuchError:
            self._settled[digest] = (owed, UNCHECKED)
            return None
        except RemoteProtocolError:
            return self._tried(owed, now())
        if bucket is None:
            # Nobody answers, or somebody withholds just this: another file tells which.
            path = f"/{LOG_ORIGIN}/{self._document.digest}/checkpoint"
            if await self._around.fetch(path, now, fresh=True) is None:
                self._draw(digest, now())
                return None
            return self._tried(owed, now())
        if digest in bucket:
            self._settled[digest] = (owed, RECEIPTS)
            return None
        return self._missing(owed, _LEFT_OUT)

    async def _bucket(self, owed: Owed, now: Now) -> list[bytes] | None:
        """All digests of the bucket in which this one belongs, verified; None where nobody answered."""
        path = f"/v1/experiment/{self._document.digest}/received/{owed.round_number}"
        told = await self._around.fetch(path, now, fresh=True)
        if told is None:
            return None
        bits = decode_bits(told.content)
        if owed.capsules is None and bits > UNCOUNTED_BITS:
            raise _TellsTooMuchError
        check_bits(bits, capsules=owed.capsules)
        index = bucket_of(owed.digest, bits)
        found = await self._around.fetch(f"{path}/{index}", now, most=MAX_RECEIPT_BYTES, fresh=True)
        if found is None:
            return None
        receipt = decode_receipt(found.content)
        if len(receipt.path) != bits:
            raise MalformedMessageError("the receipt is of another number of buckets")
        return check_bucket(bytes.fromhex(owed.root), index, receipt.bucket, receipt.path)

    def _owed(self) -> dict[bytes, Owed]:
        found = self._book.owed(self._document.digest)
        return {one.digest: one for one in found if one.digest not in self._settled}

    def _draw(self, digest: bytes, now: int) -> None:
        # Never crowded into what little is left: who is not answered would ask ever more often.
        until = max(0 if self._last is None else self._last.closes_at, now + self._spread)
        (self._moments[digest],) = spread(1, Window(opens_at=now, closes_at=until), self._around.words)

    def _too_late(self, owed: Owed, now: int) -> bool:
        """Whether an honest coordinator may have dropped the round's buckets by now; then it is forgotten here too.

        So long it has them at least: the rounds until the one after the next take their time.
        """
        last, windows = self._last, self._document.windows
        left = 0 if last is None else owed.round_number + _ROUNDS_KEPT - last.round_number
        if last is None or now < last.accept_until + left * 1000 * (windows.length_s + windows.grace_s):
            return False
        self._settled[owed.digest] = (owed, UNCHECKED)
        return True

    def _tried(self, owed: Owed, now: int) -> str | None:
        if self._too_late(owed, now):
            return None
        if owed.tries + 1 >= MAX_TRIES:
            return self._missing(owed, _WITHHELD)
        with self._around.state.writing(durable=False):
            self._book.put_tries(self._document.digest, owed, owed.tries + 1)
        # Over time, not at once: whatever it is may pass.
        self._draw(owed.digest, now + below(self._spread, self._around.words))
        return None

    def _missing(self, owed: Owed, sentence: str) -> str:
        told = sentence.format(owed.round_number)
        with self._around.state.writing(durable=True):
            self._book.put_distrust(self._document.digest, told)
            self._book.drop(self._document.digest, owed)
            self._book.count(self._document.digest, MISSING)
        return told


def _capsules(last: LastRound, document: ExperimentDocument) -> int | None:
    """The relay's count of capsules. Only where there is one relay does it cover all of them."""
    if last.relay_count is None or len(document.relays) != 1:
        return None
    return read_relay_count(last.relay_count, document).capsules


__all__ = ["MAX_TRIES", "Receipts"]
