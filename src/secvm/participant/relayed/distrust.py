"""Why a device takes no part in an experiment with two relays, until its person resumes (docs/protocol.md §32).

Four things make it stop: its canary is missing; two of any ten consecutive rounds for which it holds a receipt were
never opened; the coordinator signed what cannot be; the log is not what it was, or nobody answers looks at it. Each
follows from the canary and from public files, and from nothing else that this device knows. Evidence against the
coordinator or its log stops it for good: a person who resumes does not change what was signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from secvm.participant.membership import Distrust
from secvm.participant.relayed.canaries import CanaryLoss
from secvm.participant.storage.trust_book import MISSING
from secvm.participant.trust.evidence import convicts
from secvm.protocol.plain.session_events import Abstain, Reason
from secvm.protocol.trust.relayed_chain import Ended

#: Two unopened rounds among so many consecutive numbers are too many.
UNOPENED_AMONG = 10
_CONVICTED = "this device holds evidence against the coordinator or its log"
_UNOPENED = "rounds {} and {} had this device's request and were never opened"


class RelayedDistrust(Distrust):
    """What has made one experiment stop, or may."""

    def reread(self) -> None:
        """See whether the person has resumed, and whether that is enough."""
        super().reread()
        if self.why is None and self.convicted:
            self.why = _CONVICTED

    @property
    def convicted(self) -> bool:
        """Whether evidence is held that stops it for good."""
        return convicts(self._state, self._digest)

    def convict(self, round_number: int, sentence: str, evidence: bytes | None) -> None:
        """The same because of the log; with what shows it, in one transaction."""
        shows = () if evidence is None else (evidence,)
        self.why = sentence
        with self._state.writing(durable=True):
            self._state.put_abstention(self._digest, round_number, Abstain(Reason.DISTRUST, sentence, shows))
            self._state.trust.put_distrust(self._digest, sentence)

    def lose(self, loss: CanaryLoss) -> None:
        """The same because of a canary; with what shows it, in one transaction."""
        state, digest = self._state, self._digest
        evidence = () if loss.evidence is None else (loss.evidence,)
        self.why = loss.sentence
        with state.writing(durable=True):
            state.relayed.drop_canary(digest, loss.round_number)
            state.trust.count(digest, MISSING)
            state.put_abstention(digest, loss.round_number, Abstain(Reason.DISTRUST, loss.sentence, evidence))
            state.trust.put_distrust(digest, loss.sentence)

    def settle(self, ended: Sequence[Ended]) -> None:
        """How rounds ended, inside the transaction that stores what is believed; of those with a receipt."""
        book = self._state.relayed
        kept = {end.round_number for end in book.canaries(self._digest)}
        for end in ended:
            number = end.manifest.round_number
            if number in kept and end.opened:
                book.put_opening(self._digest, number, end.opening.data)
            elif number in kept:
                book.put_unopened(self._digest, number)

    def without_opening(self, number: int) -> None:
        """No opening of this round was served, as often as it was looked for."""
        book = self._state.relayed
        if any(canary.round_number == number and canary.opening is None for canary in book.canaries(self._digest)):
            with self._state.writing(durable=True):
                book.put_unopened(self._digest, number)

    def count_unopened(self) -> None:
        """Stop where two of any ten rounds with a receipt stayed unopened."""
        numbers = sorted(self._state.relayed.unopened(self._digest))
        near = [pair for pair in pairwise(numbers) if pair[1] - pair[0] < UNOPENED_AMONG]
        if self.why is None and near:
            self.put(_UNOPENED.format(*near[0]))
