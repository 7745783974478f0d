"""EntryRound: one label at the entry relay, from its first submission to its one reveal (docs/protocol.md §28 to §31).

Its steps before ``part-J``: ``closed``, when no more submissions are taken and the root over all of them is marked.

``EntryDoors`` are the entry relay's doors, beside those of both roles (§24, §28):

    POST R/submit/LABEL    a device's request of a round → its receipt
    POST R/tokens/LABEL    where the experiment has tokens: a client's one token for the round
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SigningKey
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE, REQUEST_MEDIA_TYPE, TokenKey, issue, redeem, tokens_wanted
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.commitments import RoundSecret
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal, entry_reveal
from secvm.protocol.relays.submission import Receipt
from secvm.relay.admission import Identify, Identity
from secvm.relay.batches.doors import Answer, RoleDoors
from secvm.relay.batches.ledger import ENTRY_COUNT, ENTRY_REVEAL, MIX_COUNT, MIX_REVEAL
from secvm.relay.batches.round_custody import BATCH, DrawPart, RoundCustody, RoundPlan
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.entry.intake import IncomingSubmission, Intake, IntakeLimits, IntakeVerdict, read_submission
from secvm.relay.refusals import RelayRefusalError, answer_to, refusal
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.server import HttpRequest, HttpResponse

SUBMISSION_MEDIA_TYPE = "application/vnd.secvm.submission"
#: A durable commit takes about as long.
_COMMIT_TICK_MS = 2.0
_LARGEST_GROUP = 200
#: Requests for tokens at a time: each is a commit and some milliseconds of a core.
_MOST_AT_ONCE = 64


class EntryRound(BatchRound[Intake]):
    """A round at the entry relay: what it took in, added, handed on and revealed."""

    own_count = ENTRY_COUNT
    own_reveal = ENTRY_REVEAL
    answers = MIX_COUNT
    count_type = EntryCount

    def __init__(
        self, plan: RoundPlan, keeping: RoundCustody, key: SigningKey, draw: DrawPart, dice: RandomBytes
    ) -> None:
        self._dice = dice
        super().__init__(plan, keeping, key, draw)
        #: In memory: every request asks.
        self._takes = self._file is not None and self.marked is None and not self.is_lost
        #: Of the round's tokens, while submissions are taken; None: the experiment has none, or they are of no use.
        secret = keeping.secret(plan) if self._takes and plan.token_bytes else None
        self._token_key = None if secret is None else TokenKey.of_round(RoundSecret(secret).token_seed)

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
            return file.grant(client, request, limits, lambda asked: issue(key, asked, self._dice))

    def knows(self, root: bytes) -> bool:
        """Whether this submission was taken."""
        file = self._file
        return file is not None and file.knows(root)

    def receipt(self, root: bytes) -> bytes:
        """The receipt for a submission that was taken: always the same bytes."""
        return Receipt(label=self.plan.label, root=root, capsules=self.plan.budget).signed(self._key)

    # ── the batch ────────────────────────────────────────────────────────────────────────────────────────────────────

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
        self._take_answered(envelope, count.digest, now)

    def keep_answer(self, envelope: bytes) -> None:
        """Keep the mixing relay's reveal that answers ours, to show it. Raises as ``answer``."""
        reveal, own = MixReveal.read(envelope, self.plan.mix_key), self._ledger.paper(self.plan.label, ENTRY_REVEAL)
        if reveal.label != self.plan.label or own is None:
            raise RelayRefusalError("a reveal of another round, or an answer to none", why="wrong-label")
        if reveal.entry_reveal != EntryReveal.enclosed(own).digest:
            raise RelayRefusalError("the mixing relay's reveal answers another one than ours", why="conflict")
        if self._ledger.keep_paper(self.plan.label, MIX_REVEAL, envelope) != envelope:
            raise RelayRefusalError("another reveal of the mixing relay came before", why="conflict")

    def tells(self, now: int) -> tuple[str, ...]:  # noqa: ARG002  (whenever it is there)
        return (ENTRY_REVEAL,)

    def _open_part(self, answered: bytes) -> EntryReveal | None:
        secret = self._keeping.secret(self.plan)
        if secret is None or not self._keeping.may_answer(self.plan, MixCount.enclosed(answered).digest):
            return None
        return entry_reveal(RoundSecret(secret), answered, parts=self.plan.parts)


@dataclass(frozen=True, slots=True, repr=False)
class _Waiting:
    """A submission that waits for its commit."""

    round: EntryRound
    submission: IncomingSubmission


@dataclass(kw_only=True, eq=False, repr=False)
class EntryDoors(RoleDoors[EntryRound]):
    """The doors of an entry relay."""

    identify: Identify
    #: What a round takes.
    limits: Callable[[RoundPlan], IntakeLimits]
    #: Submissions that may wait for a commit; the next one comes later.
    waiting: int
    #: Requests for tokens that are worked on.
    _giving: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._group: GroupCommit[_Waiting, HttpResponse] = GroupCommit(
            self._commit_group,
            _COMMIT_TICK_MS,
            largest=_LARGEST_GROUP,
            waiting=self.waiting,
            failed=lambda _error: self._try_later(),
        )

    async def close(self) -> None:
        """What waits is committed and answered."""
        await self._group.close()

    def _role(self, request: HttpRequest, parts: list[str]) -> Answer | None:
        match request.method, parts:
            case "POST", ["submit", label]:
                return self._submit(request, self._round(label))
            case "POST", ["tokens", label]:
                return self._token(request, self._round(label))
        return None

    def _token(self, request: HttpRequest, entry_round: EntryRound) -> Answer:
        if _media_type(request) != REQUEST_MEDIA_TYPE:
            return refusal(415)
        client = self.identify(request)
        if client is None:
            return refusal(401)
        if self._giving >= _MOST_AT_ONCE:
            return self._try_later()
        self._giving += 1
        return self._given(entry_round, client, request.body)

    async def _given(self, entry_round: EntryRound, client: Identity, request_body: bytes) -> HttpResponse:
        limits = self.limits(entry_round.plan)
        try:
            given = await asyncio.to_thread(entry_round.grant, client, request_body, limits, self.running.clock.now())
        finally:
            self._giving -= 1
        if isinstance(given, IntakeVerdict):
            return self._refused(given)
        self.running.meter.tokens.add()
        return HttpResponse(200, given, ANSWER_MEDIA_TYPE)

    def _submit(self, request: HttpRequest, entry_round: EntryRound) -> Answer:
        if _media_type(request) != SUBMISSION_MEDIA_TYPE:
            return refusal(415)
        # Whoever has a token is not asked who they are.
        identity = None if entry_round.plan.token_bytes else self.identify(request)
        if identity is None and not entry_round.plan.token_bytes:
            return refusal(401)
        submission = read_submission(
            identity, request.body, budget=entry_round.plan.budget, token_bytes=entry_round.plan.token_bytes
        )
        entry_round.check_window(self.running.clock.now())
        if entry_round.knows(submission.root):
            self.running.meter.submissions.add(came="again")
            return HttpResponse(200, entry_round.receipt(submission.root), "application/octet-stream")
        if self._group.full:
            return self._try_later()
        added: Awaitable[HttpResponse] = self._group.add(_Waiting(entry_round, submission))
        return added

    def _commit_group(self, group: list[_Waiting]) -> list[HttpResponse]:
        answers: list[HttpResponse] = [self._try_later()] * len(group)
        by_round: dict[bytes, list[int]] = {}
        for number, waiting in enumerate(group):
            by_round.setdefault(waiting.round.plan.label, []).append(number)
        for numbers in by_round.values():
            entry_round = group[numbers[0]].round
            try:
                verdicts = entry_round.take(
                    [group[number].submission for number in numbers],
                    self.limits(entry_round.plan),
                    self.running.clock.now(),
                )
            except RelayRefusalError as error:
                for number in numbers:
                    answers[number] = answer_to(error)
                continue
            except sqlite3.Error:
                # A full disk, most likely: nothing of this round's group is kept.
                continue
            for number, verdict in zip(numbers, verdicts, strict=True):
                answers[number] = self._answer(entry_round, group[number].submission, verdict)
        return answers

    def _answer(self, entry_round: EntryRound, submission: IncomingSubmission, verdict: IntakeVerdict) -> HttpResponse:
        if verdict is IntakeVerdict.TAKEN:
            self.running.meter.submissions.add(came="first")
            return HttpResponse(200, entry_round.receipt(submission.root), "application/octet-stream")
        return self._refused(verdict)

    def _refused(self, verdict: IntakeVerdict) -> HttpResponse:
        return refusal(verdict.value, retry_after_s=self.retry_after_s if verdict is IntakeVerdict.FULL else None)

    def _take_paper(self, entry_round: EntryRound, name: str, envelope: bytes, now: int) -> None:
        match name:
            case _ if name == MIX_COUNT:
                entry_round.answer(envelope, now)
            case _ if name == MIX_REVEAL:
                entry_round.keep_answer(envelope)
            case _:
                raise RelayRefusalError("an entry relay takes the mixing relay's count and reveal", why="unknown")


def _media_type(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
