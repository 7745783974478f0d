"""EntryRound: one label at the entry relay, from its first submission to its one reveal (docs/protocol.md §28 to §31).

Its steps before ``part-J``: ``closed``, when no more submissions are taken and the root over all of them is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SigningKey
from secvm.crypto.tokens import TokenKey, issue, redeem, tokens_wanted
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.commitments import RoundSecret
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal, entry_reveal
from secvm.protocol.relays.sending.canary import Receipt
from secvm.relay.admission import Identity
from secvm.relay.batches.ledger import ENTRY_COUNT, ENTRY_REVEAL, MIX_COUNT, MIX_REVEAL
from secvm.relay.batches.round_custody import BATCH, DrawPart, RoundCustody, RoundPlan
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.entry.intake import IncomingSubmission, Intake, IntakeLimits, IntakeVerdict
from secvm.relay.refusals import RelayRefusalError


class EntryRound(BatchRound[Intake]):
    """A round at the entry relay: what it took in, added, handed on and revealed."""

    own_count = ENTRY_COUNT
    own_reveal = ENTRY_REVEAL

    def __init__(
        self, plan: RoundPlan, keeping: RoundCustody, key: SigningKey, draw: DrawPart, dice: RandomBytes
    ) -> None:
        self._dice = dice
        super().__init__(plan, keeping, key, draw)
        #: In memory: every request asks.
        self._takes = self._file is not None and self.marked is None and not self.is_lost
        #: Of the round's tokens, while submissions are taken; None: the experiment has none, or they are of no use.
        self._token_key = self._find_token_key() if self._takes and plan.token_bytes else None

    # ── submissions ──────────────────────────────────────────────────────────────────────────────────────────────────

    def check_window(self, now: int) -> None:
        """Raise ``RelayRefusalError`` outside of the time in which submissions are taken, or where they were lost."""
        if now < self.plan.instants.opens_at:
            raise RelayRefusalError("the window has not opened yet", why="too-early")
        if now >= self.plan.instants.accept_until or not self._takes:
            raise RelayRefusalError("the round takes no more submissions", why="stale")

    def take(self, group: Sequence[IncomingSubmission], limits: IntakeLimits, now: int) -> list[IntakeVerdict]:
        """A verdict on each, durable. Raises ``RelayRefusalError`` where the round has closed meanwhile."""
        with self._lock:
            self.check_window(now)
            if self._file is None:
                raise LocalProtocolError("the round's file is closed")
            key = self._token_key
            redeeming = None if key is None else partial(redeem, key)
            return self._file.take(group, limits, redeeming)

    def grant(self, client: Identity, request: bytes, limits: IntakeLimits, now: int) -> bytes | IntakeVerdict:
        """What is answered to a client's request for a token, from when the round is known until it closes.

        Raises
        ------
        MalformedMessageError
            It is no request for one token under this round's key.
        RefusedError
            The experiment has no tokens, or the round has closed.
        """
        if tokens_wanted(request) != 1:
            raise MalformedMessageError("a client is given one token at a time: one for each submission")
        with self._lock:
            if not self.plan.token_bytes:
                raise RelayRefusalError("this experiment has no tokens", why="unknown")
            key, file = self._token_key, self._file
            if now >= self.plan.instants.accept_until or key is None or file is None:
                raise RelayRefusalError("the round takes no more submissions", why="stale")
            return file.grant(client, request, limits, lambda told: issue(key, told, self._dice))

    def _find_token_key(self) -> TokenKey | None:
        secret = self._keeping.secret(self.plan)
        return None if secret is None else TokenKey.of_round(RoundSecret(secret).token_seed)

    def knows(self, root: bytes) -> bool:
        """Whether this submission was taken."""
        file = self._file
        return file is not None and file.knows(root)

    def receipt(self, root: bytes) -> bytes:
        """The receipt for a submission that was taken: always the same bytes."""
        return Receipt(label=self.plan.label, root=root, capsules=self.plan.budget).signed(self._key)

    # ── the batch ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def capsules(self) -> int:
        return 0 if self.count is None else EntryCount.enclosed(self.count).capsules

    @property
    def _due_at(self) -> int:
        return self.plan.instants.batch_by

    def _open_file(self) -> Intake:
        return Intake(self._keeping.capsules(self.plan), self._dice)

    def _is_closed(self, now: int) -> bool:
        return now >= self.plan.instants.accept_until

    def _build(self, file: Intake) -> str | None:
        plan, root = self.plan, self.marked
        if root is None:
            self._takes, self._token_key = False, None
            self._ledger.mark(plan.label, BATCH, file.root())
            return "closed"
        if self._fits is None:
            # Once a part is among them the submissions have been looked at, and nothing was added since.
            self._fits = file.done("part 0") is not None or file.root() == root
        secret = self._keeping.secret(plan)
        if not self._fits or secret is None or not self._keeping.may_draw(plan, root):
            return None
        step = self._cover(file, RoundSecret(secret).part_seeds(plan.parts), root)
        if step is not None:
            return step
        clients, capsules = file.submissions(), file.count()
        count = EntryCount(label=plan.label, clients=clients, received=root, capsules=capsules, root=file.root())
        if not count.adds_up(budget=plan.budget, packages=plan.packages):
            raise LocalProtocolError(f"{capsules} capsules are not those of {clients} submissions and the cover")
        self._keeping.keep_leaves(plan.label, file.digests())
        self._ledger.keep_paper(plan.label, ENTRY_COUNT, count.signed(self._key))
        return "counted"

    # ── the reveal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, envelope: bytes, now: int) -> None:
        """Take a count of the mixing relay: the first that names our own count is answered, by ``advance``.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no count that the mixing relay signed.
        RefusedError
            Not of this label, not over our count, too late, or another one was taken.
        """
        count, own = MixCount.read(envelope, self.plan.mix_key), self.count
        if count.label != self.plan.label or own is None:
            raise RelayRefusalError("a count of another round, or of none that was handed on", why="wrong-label")
        if count.entry_count != EntryCount.enclosed(own).digest:
            raise RelayRefusalError("the mixing relay's count is over another batch than ours", why="conflict")
        with self._lock:
            self._check_time(now)
            if not self._keeping.may_answer(self.plan, count.digest):
                raise RelayRefusalError("another count of the mixing relay was taken before", why="conflict")
            self._ledger.keep_paper(self.plan.label, MIX_COUNT, envelope)

    def keep_answer(self, envelope: bytes) -> None:
        """Keep the mixing relay's reveal that answers ours, to show it. Raises as ``answer``."""
        reveal, own = MixReveal.read(envelope, self.plan.mix_key), self._ledger.paper(self.plan.label, ENTRY_REVEAL)
        if reveal.label != self.plan.label or own is None:
            raise RelayRefusalError("a reveal of another round, or an answer to none", why="wrong-label")
        if reveal.entry_reveal != EntryReveal.enclosed(own).digest:
            raise RelayRefusalError("the mixing relay's reveal answers another one than ours", why="conflict")
        if self._ledger.keep_paper(self.plan.label, MIX_REVEAL, envelope) != envelope:
            raise RelayRefusalError("another reveal of the mixing relay came before", why="conflict")

    def _reveal(self) -> str | None:
        envelope, secret = self._ledger.paper(self.plan.label, MIX_COUNT), self._keeping.secret(self.plan)
        if envelope is None or secret is None:
            return None
        if not self._keeping.may_answer(self.plan, MixCount.enclosed(envelope).digest):
            return None
        reveal = entry_reveal(RoundSecret(secret), envelope, parts=self.plan.parts)
        self._ledger.keep_paper(self.plan.label, ENTRY_REVEAL, reveal.signed(self._key))
        return "revealed"
