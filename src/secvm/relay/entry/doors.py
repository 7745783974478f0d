"""The entry relay's doors, beside those of both roles (docs/protocol.md §24, §28).

POST R/submit/LABEL    a device's request of a round → its receipt
POST R/tokens/LABEL    where the experiment has tokens: a client's one token for the round
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from secvm.crypto.tokens import ANSWER_MEDIA_TYPE, REQUEST_MEDIA_TYPE
from secvm.errors import RemoteProtocolError
from secvm.relay.admission import Identify, Identity
from secvm.relay.batches.doors import Answer, RoleDoors
from secvm.relay.batches.ledger import MIX_COUNT, MIX_REVEAL
from secvm.relay.batches.round_custody import RoundPlan
from secvm.relay.entry.intake import IncomingSubmission, IntakeLimits, IntakeVerdict, read_submission
from secvm.relay.entry.rounds import EntryRound
from secvm.relay.refusals import RelayRefusalError, answer_to, refusal
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.server import HttpRequest, HttpResponse

SUBMISSION_MEDIA_TYPE = "application/vnd.secvm.submission"
#: A durable commit takes about as long.
_COMMIT_TICK_MS = 2.0
_LARGEST_GROUP = 200
#: Requests for tokens at a time: each is a commit and some milliseconds of a core.
_MOST_AT_ONCE = 64

#: What a round takes.
LimitsOf = Callable[[RoundPlan], IntakeLimits]


@dataclass(frozen=True, slots=True, repr=False)
class _Waiting:
    """A submission that waits for its commit."""

    round: EntryRound
    submission: IncomingSubmission


class EntryDoors(RoleDoors[EntryRound]):
    """The doors of an entry relay."""

    def __init__(self, *common: Any, identify: Identify, limits: LimitsOf, waiting: int, **named: Any) -> None:
        """``limits``: of each round. ``waiting``: submissions that may wait for a commit; the next one comes later."""
        super().__init__(*common, **named)
        self._identify = identify
        self._limits = limits
        #: Requests for tokens that are worked on.
        self._giving = 0
        self._group: GroupCommit[_Waiting, HttpResponse] = GroupCommit(
            self._commit_group,
            _COMMIT_TICK_MS,
            largest=_LARGEST_GROUP,
            waiting=waiting,
            failed=lambda _error: refusal(503, retry_after_s=self._retry_after_s),
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
        client = self._identify(request)
        if client is None:
            return refusal(401)
        if self._giving >= _MOST_AT_ONCE:
            return refusal(503, retry_after_s=self._retry_after_s)
        self._giving += 1
        return self._given(entry_round, client, request.body)

    async def _given(self, entry_round: EntryRound, client: Identity, request_body: bytes) -> HttpResponse:
        try:
            given = await asyncio.to_thread(
                entry_round.grant, client, request_body, self._limits(entry_round.plan), self._clock.now()
            )
        except RemoteProtocolError as error:
            return answer_to(error, retry_after_s=self._retry_after_s)
        except sqlite3.Error:
            return refusal(503, retry_after_s=self._retry_after_s)
        finally:
            self._giving -= 1
        if isinstance(given, IntakeVerdict):
            return self._refused(given)
        self._meter.gave()
        return HttpResponse(200, given, ANSWER_MEDIA_TYPE)

    def _submit(self, request: HttpRequest, entry_round: EntryRound) -> Answer:
        if _media_type(request) != SUBMISSION_MEDIA_TYPE:
            return refusal(415)
        # Whoever has a token is not asked who they are.
        identity = None if entry_round.plan.token_bytes else self._identify(request)
        if identity is None and not entry_round.plan.token_bytes:
            return refusal(401)
        submission = read_submission(
            identity, request.body, budget=entry_round.plan.budget, token_bytes=entry_round.plan.token_bytes
        )
        entry_round.check_window(self._clock.now())
        if entry_round.knows(submission.root):
            self._meter.took(again=True)
            return HttpResponse(200, entry_round.receipt(submission.root), "application/octet-stream")
        if self._group.full:
            return refusal(503, retry_after_s=self._retry_after_s)
        added: Awaitable[HttpResponse] = self._group.add(_Waiting(entry_round, submission))
        return added

    def _commit_group(self, group: list[_Waiting]) -> list[HttpResponse]:
        answers: list[HttpResponse] = [refusal(503, retry_after_s=self._retry_after_s)] * len(group)
        by_round: dict[bytes, list[int]] = {}
        for number, waiting in enumerate(group):
            by_round.setdefault(waiting.round.plan.label, []).append(number)
        for numbers in by_round.values():
            entry_round = group[numbers[0]].round
            try:
                verdicts = entry_round.take(
                    [group[number].submission for number in numbers], self._limits(entry_round.plan), self._clock.now()
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
            self._meter.took(again=False)
            return HttpResponse(200, entry_round.receipt(submission.root), "application/octet-stream")
        return self._refused(verdict)

    def _refused(self, verdict: IntakeVerdict) -> HttpResponse:
        return refusal(verdict.value, retry_after_s=self._retry_after_s if verdict is IntakeVerdict.FULL else None)

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
