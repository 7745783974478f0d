"""Fresh looks at the log while the window is open: the check that the paper itself proposes (docs/protocol.md §22, 8).

A server that singles a device out must go on doing so whenever that device asks, and it does not see who asks. So in
each window the device fetches the log's checkpoint again, at a few uniform random moments that are drawn afresh for the
round, each over a path of its own: another connection, another relay where there are several. What comes back is the
checkpoint that is believed, or something is wrong, and no further package leaves.

**No answer** is no difference. It is asked once more at another moment; and if nobody answers at all, that is noted and
the round goes on. A network that fails is not a liar, and a device that stopped then could be stopped by anybody who
holds up its packets. That a server withholds just these answers remains possible; it cannot tell them from those that
others ask for.
"""

from __future__ import annotations

from collections.abc import Iterator

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.participant.surroundings import Now, Surroundings
from secvm.protocol.schedule import Window, redraw, spread
from secvm.protocol.session import GRACE_MS
from secvm.protocol.session_memory import NEVER
from secvm.protocol.trusted_rounds import TrustedRounds
from secvm.protocol.version import LOG_ORIGIN


class Refetching:
    """The fresh looks of one round."""

    def __init__(self, words: Iterator[int], count: int) -> None:
        self._words, self._count = words, count
        self._window: Window | None = None
        #: (when, whether it is the second attempt)
        self._moments: list[tuple[int, bool]] = []
        self.answered = self.unanswered = 0

    def plan(self, window: Window, *, now: int) -> None:
        """Draw the moments of this window. Those that have passed already are left out: the rest stays uniform."""
        self._window = window
        self._moments = sorted((at, False) for at in spread(self._count, window, self._words) if at >= now)
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

    async def look(self, around: Surroundings, rounds: TrustedRounds, experiment: str, now: Now) -> None:
        """Take the look that is due.

        Raises
        ------
        CheatingError
            The log was forked; with evidence.
        RemoteProtocolError
            Something else than what is believed was shown.
        """
        moment, window = now(), self._window
        if window is None or moment >= window.closes_at:
            self._moments = []
            return
        at, second = self._moments.pop(0)
        if at + GRACE_MS < moment:
            # This device slept or was paused: a look right after waking would tell when.
            self._put(redraw([at], window, self._words, now=moment)[0], second)
            return
        path = f"/{LOG_ORIGIN}/{experiment}/checkpoint"
        fetched = await around.fetch(path, now, most=MAX_NOTE_BYTES, fresh=True)
        if fetched is not None:
            self.answered += 1
            rounds.compare(fetched.content)
        elif not second and now() < window.closes_at:
            left = Window(opens_at=now(), closes_at=window.closes_at)
            self._put(spread(1, left, self._words)[0], second=True)
        else:
            self.unanswered += 1

    def _put(self, at: int, second: bool) -> None:
        self._moments = sorted([*self._moments, (at, second)])
