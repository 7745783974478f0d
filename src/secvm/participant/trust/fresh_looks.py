"""Fresh looks at the log while the window is open: the check that the paper itself proposes (docs/protocol.md §22, 8).

A server that singles a device out must go on doing so whenever that device asks, and it does not see who asks. So in
each window the device fetches the log's checkpoint again, at a few uniform random moments that are drawn afresh for the
round, each over a connection of its own and another relay where there are several, as every fetch is. What comes back
is the checkpoint that is believed, or one to which the log has grown since by entries of other experiments: the lines
in between are fetched, and lead to it. Anything else is wrong, and no further package leaves.

**No answer** is no difference. It is asked again, each time at another moment of what is left of the window; and if
nobody answers at all, that is noted and the round goes on: networks fail. But a relay carries these looks, and one that
drops a device's packages would drop the looks too. So after a few rounds in a row without one answer
(``TrustPolicy.most_unseen``) the device takes no part any more until its person resumes; that is remembered over
restarts. Whoever holds up its packets can stop it; that is better than to be watched by nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.errors import CheatingError, OverLimitError, RemoteProtocolError
from secvm.participant.storage.trust_book import REFETCHED, UNANSWERED
from secvm.participant.trust.log_lines import LogLines
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.plain.session import GRACE_MS
from secvm.protocol.plain.session_events import Abstain, Distrusted, Reason
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.schedule import Window, redraw, spread

#: More lines than this, 16 tiles, are not fetched for a look: it counts as not answered.
MOST_NEW_LINES = 4096
#: So often one look is asked for. A server that is started again is back by the last time; a relay that drops looks
#: drops them all.
MOST_TRIES = 5
#: With so many tries in vain, a look that the end of the window has overtaken counts as not answered.
_TRIED = 2


class BelievedLog(Protocol):
    """The log as a device believes it, for one experiment."""

    @property
    def seen_size(self) -> int:
        """So many lines of it were read."""
        ...

    def missing_lines(self, checkpoint: bytes) -> int:
        """See ``TrustedLog.missing``."""
        ...

    def compare(self, checkpoint: bytes, lines: Sequence[bytes]) -> None:
        """See ``TrustedLog.compare``."""
        ...


class LookSchedule:
    """The fresh looks of one round."""

    def __init__(self, words: Iterator[int], count: int) -> None:
        self._words, self._count = words, count
        self._window: Window | None = None
        #: (when, how often it was asked for in vain)
        self._moments: list[tuple[int, int]] = []
        self.answered = self.unanswered = 0

    def plan(self, window: Window, *, now: int) -> None:
        """Draw the moments of this window. Those that have passed already are left out: the rest stays uniform."""
        self._window = window
        self._moments = sorted((at, 0) for at in spread(self._count, window, self._words) if at >= now)
        self.answered = self.unanswered = 0

    def stop(self) -> None:
        """No more looks in this round."""
        self._moments = []

    @property
    def at(self) -> int:
        """When the next look is due."""
        return self._moments[0][0] if self._moments else NEVER

    @property
    def blind(self) -> bool:
        """Whether all looks of the round are over, and nobody has answered one."""
        return not self._moments and self.unanswered > 0 and self.answered == 0

    async def look(self, around: Surroundings, log: BelievedLog, experiment: str, now: Now) -> bool | None:
        """Take the look that is due, and say whether it was answered; None where it was put off instead.

        Raises
        ------
        CheatingError
            The log was forked; with evidence.
        RemoteProtocolError
            Something else than what is believed was shown.
        """
        moment, window = now(), self._window
        if window is None or moment >= window.closes_at:
            self.unanswered += any(tries >= _TRIED for _, tries in self._moments)
            self._moments = []
            return False if self.blind else None
        at, tries = self._moments.pop(0)
        if at + GRACE_MS < moment:
            # This device slept or was paused: a look right after waking would tell when.
            self._put(redraw([at], window, self._words, now=moment)[0], tries)
            return None
        fetched = await around.fetch(f"/v1/experiment/{experiment}/checkpoint", now, most=MAX_NOTE_BYTES)
        lines = None if fetched is None else await self._new_lines(fetched.content, around, log, now)
        if fetched is not None and lines is not None:
            self.answered += 1
            log.compare(fetched.content, lines)
            return True
        if tries + 1 < MOST_TRIES and now() < window.closes_at:
            left = Window(opens_at=now(), closes_at=window.closes_at)
            self._put(spread(1, left, self._words)[0], tries + 1)
        else:
            self.unanswered += 1
        return False

    async def _new_lines(
        self, checkpoint: bytes, around: Surroundings, log: BelievedLog, now: Now
    ) -> tuple[bytes, ...] | None:
        """What the log has appended since the believed checkpoint; None where it cannot be had."""
        count, since = log.missing_lines(checkpoint), log.seen_size
        if count > MOST_NEW_LINES:
            return None
        try:
            return await LogLines(around).fetch(since, since + count, now)
        except OverLimitError:
            return None

    def _put(self, at: int, tries: int) -> None:
        self._moments = sorted([*self._moments, (at, tries)])


_UNSEEN = (
    "in {} rounds in a row no fresh look at the log was answered, so nobody can tell whether this device is singled out"
)


class FreshLooks:
    """The looks of one experiment that has a log."""

    def __init__(self, around: Surroundings, experiment: str, log: BelievedLog) -> None:
        self._around, self._experiment, self._log = around, experiment, log
        self._refetching = LookSchedule(around.words, around.policy.refetches)
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
