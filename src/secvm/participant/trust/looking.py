"""Looking: fresh looks at the log while a window is open, and what comes of them (docs/protocol.md §22, step 8).

A look that shows something else than what is believed is a ``Distrusted`` for the session. Too many rounds in a row in
which nobody answered a look are one too; that is remembered over restarts, and until the person resumes the device
joins no further round.
"""

from __future__ import annotations

from collections import Counter

from secvm.errors import CheatingError, RemoteProtocolError
from secvm.participant.storage.trust_book import REFETCHED, UNANSWERED
from secvm.participant.trust.refetching import BelievedLog, Refetching
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.plain.session_events import Abstain, Distrusted, Reason
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.schedule import Window

_UNSEEN = (
    "in {} rounds in a row no fresh look at the log was answered, so nobody can tell whether this device is singled out"
)


class Looking:
    """The looks of one experiment that has a log."""

    def __init__(self, around: Surroundings, experiment: str, log: BelievedLog) -> None:
        self._around, self._experiment, self._log = around, experiment, log
        self._refetching = Refetching(around.words, around.policy.refetches)
        #: Fresh looks by what became of them, not written yet.
        self._counted = Counter[str]()
        #: The round that was joined last.
        self._round = 0
        self.reread()

    def reread(self) -> None:
        """See whether the person has resumed."""
        #: Rounds without an answered look, since there was one.
        self._unseen = self._around.state.trust.unseen(self._experiment)

    def joined(self, round_number: int, window: Window, now: int) -> None:
        """A round is joined, or was before a restart."""
        self._round = round_number
        self._refetching.plan(window, now=now)

    @property
    def at(self) -> int:
        """When the log is looked at again."""
        return self._refetching.at

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return bool(self._counted)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        for name, count in self._counted.items():
            self._around.state.trust.count(self._experiment, name, count)
        self._counted.clear()

    async def look(self, now: Now) -> Distrusted | Abstain | None:
        """Look at the log again."""
        refetching = self._refetching
        before = (refetching.answered, refetching.unanswered)
        found: Distrusted | Abstain | None = None
        seen: bool | None = True
        try:
            seen = await refetching.look(self._around, self._log, self._experiment, now)
        except CheatingError as fault:
            found = Distrusted(str(fault), fault.evidence)
        except RemoteProtocolError as fault:
            found = Distrusted(str(fault))
        if found is not None:
            refetching.stop()
        answered, unanswered = refetching.answered - before[0], refetching.unanswered - before[1]
        if answered or unanswered:
            self._counted[REFETCHED if answered else UNANSWERED] += 1
        self._note(seen)
        if found is None and unanswered and refetching.blind:
            blind = self.too_many_unseen()
            found = Abstain(Reason.UNSEEN, Reason.UNSEEN.value) if blind is None else Distrusted(blind)
        return found

    def _note(self, seen: bool | None) -> None:
        """Remember a round in which no look was answered, until one is; at once, for a restart must not undo it."""
        book, digest = self._around.state.trust, self._experiment
        if seen and self._unseen:
            with self._around.state.writing(durable=False):
                book.clear_unseen(digest)
            self._unseen = set()
        elif seen is False and self._refetching.blind and self._round not in self._unseen:
            with self._around.state.writing(durable=False):
                book.put_unseen(digest, self._round)
            self._unseen.add(self._round)

    def too_many_unseen(self) -> str | None:
        """Why no part is taken from now on, where too many rounds in a row were without an answered look.

        A round whose looks are not over yet does not count.
        """
        unseen = self._unseen - ({self._round} if self._refetching.at < NEVER else set())
        return None if len(unseen) < self._around.policy.most_unseen else _UNSEEN.format(len(unseen))
