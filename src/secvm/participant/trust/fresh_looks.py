"""The log as a device reads it: its lines, and fresh looks at it while the window is open (docs/protocol.md §22, 8).

Fresh looks are the check that the paper itself proposes. A server that singles a device out must go on doing so
whenever that device asks, and it does not see who asks. So in each window the device fetches the log's checkpoint
again, at a few uniform random moments that are drawn afresh for the round, each over a connection of its own and
another relay where there are several, as every fetch is. What comes back is the checkpoint that is believed, or one to
which the log has grown since by entries of other experiments: the lines in between are fetched, and lead to it.
Anything else is wrong, and no further package leaves.

**No answer** is no difference. It is asked again, each time at another moment of what is left of the window; and if
nobody answers at all, that is noted and the round goes on: networks fail. But a relay carries these looks, and one that
drops a device's packages would drop the looks too. So after a few rounds in a row without one answer
(``TrustPolicy.most_unseen``) the device takes no part any more until its person resumes; that is remembered over
restarts. Whoever holds up its packets can stop it; that is better than to be watched by nobody.

**Lines of the log** are fetched in tiles of entries (c2sp.org/tlog-tiles), for whoever has read the log so far.
A tile has 256 lines, the last one of a log fewer; a device fetches those with lines that it has not seen. Each fetch is
sealed like any other, and the same for everybody who asks at the same size. Nothing here is believed: lines are held to
a signed root by ``protocol.trust.trusted_log``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.errors import CheatingError, OverLimitError, RemoteProtocolError, StaleRoundError
from secvm.participant.storage.books import REFETCHED, UNANSWERED
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.log.entries import MAX_LINE_BYTES
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle
from secvm.protocol.plain.session_events import Abstain, Distrusted, Reason
from secvm.protocol.plain.session_memory import GRACE_MS, NEVER
from secvm.protocol.schedule import Window, redraw, spread
from secvm.protocol.trust.trusted_log import TrustedLog
from secvm.protocol.version import LOG_ORIGIN

MOST_TILE_BYTES = TILE_WIDTH * (2 + MAX_LINE_BYTES)
#: So often an asking begins again when the log has grown meanwhile.
_ATTEMPTS = 3
News = TypeVar("News")


class LogGrewError(Exception):
    """What was fetched is of two moments: the log has grown in between."""


async def ask_while_log_grows(
    ask: Callable[[Now], Awaitable[News]], now: Now, *, give_up: Callable[[], None] = lambda: None
) -> News:
    """What ``ask`` brings; begun again, a few times, where the log has grown meanwhile.

    Then it calls ``give_up`` and raises ``StaleRoundError``: a log does not grow that often, so something that was
    fetched is not what it should be.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(LogGrewError):
            return await ask(now)
    try:
        return await ask(now)
    except LogGrewError as grew:
        give_up()
        raise StaleRoundError(str(grew)) from None


class LogLines:
    """Fetches lines, and keeps full tiles until they are forgotten: those never change."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._full: dict[int, list[bytes]] = {}

    async def fetch(self, since: int, size: int, now: Now) -> tuple[bytes, ...] | None:
        """The lines from index ``since`` up to ``size``; None where a tile could not be had.

        Raises
        ------
        MalformedMessageError
            What was served is no tile.
        OverLimitError
            They are more than the person's limit of traffic for a day.
        """
        numbers = range(since // TILE_WIDTH, -(-size // TILE_WIDTH)) if since < size else range(0)
        tiles: dict[int, list[bytes]] = {number: self._full[number] for number in numbers if number in self._full}

        async def fetch(number: int) -> list[bytes] | None:
            return await self._tile(number, size, now)

        if not await self._around.fetch_missing(tiles, numbers, fetch, most=MOST_TILE_BYTES, now=now):
            return None
        lines = [line for number in numbers for line in tiles[number]]
        return tuple(lines[since - numbers.start * TILE_WIDTH :]) if numbers else ()

    def forget(self) -> None:
        """What was fetched did not fit, or is not needed any more."""
        self._full = {}

    async def _tile(self, number: int, size: int, now: Now) -> list[bytes] | None:
        tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
        served = await self._around.content(f"/{LOG_ORIGIN}/{tile.path}", now, most=MOST_TILE_BYTES)
        if served is None:
            return None
        lines = read_bundle(served, width=tile.width)
        if tile.width == TILE_WIDTH:
            self._full[number] = lines
        return lines


#: More lines than this, 16 tiles, are not fetched for a look: it counts as not answered.
MOST_NEW_LINES = 4096
#: So often one look is asked for. A server that is started again is back by the last time; a relay that drops looks
#: drops them all.
MOST_TRIES = 5
#: With so many tries in vain, a look that the end of the window has overtaken counts as not answered.
_TRIED = 2


_UNSEEN = (
    "in {} rounds in a row no fresh look at the log was answered, so nobody can tell whether this device is singled out"
)


class FreshLooks:
    """The looks of one experiment that has a log."""

    def __init__(self, around: Surroundings, experiment: str, log: TrustedLog) -> None:
        self._around, self._experiment, self._log = around, experiment, log
        #: The round that was joined last, and its window.
        self._round = 0
        self._window: Window | None = None
        #: Its looks still to come: when, and how often each was asked for in vain.
        self._moments: list[tuple[int, int]] = []
        #: Its looks by what became of them; and those of all rounds that are not written yet.
        self._of_round, self._unwritten = Counter[str](), Counter[str]()
        self.reread()

    def reread(self) -> None:
        """See whether the person has resumed."""
        #: Rounds without an answered look, since there was one.
        self._unseen = self._around.state.trust.unseen(self._experiment)

    def joined(self, round_number: int, window: Window, now: int) -> None:
        """A round is joined, or was before a restart: draw its moments. Those that have passed already are left out:
        the rest stays uniform.
        """
        self._round, self._window = round_number, window
        drawn = spread(self._around.policy.refetches, window, self._around.words)
        self._moments = sorted((at, 0) for at in drawn if at >= now)
        self._of_round.clear()

    @property
    def at(self) -> int:
        """When the log is looked at again."""
        return self._moments[0][0] if self._moments else NEVER

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return bool(self._unwritten)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        for name, count in self._unwritten.items():
            self._around.state.trust.count(self._experiment, name, count)
        self._unwritten.clear()

    async def look(self, now: Now) -> Distrusted | Abstain | None:
        """Look at the log again."""
        before = self._of_round[UNANSWERED]
        finding: Distrusted | Abstain | None = None
        seen: bool | None = True
        try:
            seen = await self._fetch(now)
        except CheatingError as fault:
            finding = Distrusted(str(fault), fault.evidence)
        except RemoteProtocolError as fault:
            finding = Distrusted(str(fault))
        if finding is not None:
            self._moments = []
        self._note(seen)
        if finding is None and self._of_round[UNANSWERED] > before and self._blind:
            blind = self.too_many_unseen()
            finding = Abstain(Reason.UNSEEN, Reason.UNSEEN.value) if blind is None else Distrusted(blind)
        return finding

    async def _fetch(self, now: Now) -> bool | None:
        """Take the look that is due, and say whether it was answered; None where it was put off instead.

        Raises
        ------
        CheatingError
            The log was forked; with evidence.
        RemoteProtocolError
            Something else than what is believed was shown.
        """
        moment, window, words = now(), self._window, self._around.words
        if window is None or moment >= window.closes_at:
            if any(tries >= _TRIED for _, tries in self._moments):
                self._count(UNANSWERED)
            self._moments = []
            return False if self._blind else None
        at, tries = self._moments.pop(0)
        if at + GRACE_MS < moment:
            # This device slept or was paused: a look right after waking would tell when.
            self._put(redraw([at], window, words, now=moment)[0], tries)
            return None
        path = f"/v1/experiment/{self._experiment}/checkpoint"
        checkpoint = await self._around.content(path, now, most=MAX_NOTE_BYTES)
        lines = None if checkpoint is None else await self._new_lines(checkpoint, now)
        if checkpoint is not None and lines is not None:
            self._count(REFETCHED)
            self._log.compare(checkpoint, lines)
            return True
        if tries + 1 < MOST_TRIES and now() < window.closes_at:
            left = Window(opens_at=now(), closes_at=window.closes_at)
            self._put(spread(1, left, words)[0], tries + 1)
        else:
            self._count(UNANSWERED)
        return False

    async def _new_lines(self, checkpoint: bytes, now: Now) -> tuple[bytes, ...] | None:
        """What the log has appended since the believed checkpoint; None where it cannot be had."""
        count, since = self._log.missing_lines(checkpoint), self._log.seen_size
        if count > MOST_NEW_LINES:
            return None
        try:
            return await LogLines(self._around).fetch(since, since + count, now)
        except OverLimitError:
            return None

    def _put(self, at: int, tries: int) -> None:
        self._moments = sorted([*self._moments, (at, tries)])

    def _count(self, name: str) -> None:
        self._of_round[name] += 1
        self._unwritten[name] += 1

    @property
    def _blind(self) -> bool:
        """Whether all looks of the round are over, and nobody has answered one."""
        return not self._moments and self._of_round[UNANSWERED] > 0 and self._of_round[REFETCHED] == 0

    def _note(self, seen: bool | None) -> None:
        """Remember a round in which no look was answered, until one is; at once, for a restart must not undo it."""
        book, digest = self._around.state.trust, self._experiment
        if seen and self._unseen:
            with self._around.state.writing(durable=False):
                book.clear_unseen(digest)
            self._unseen = set()
        elif seen is False and self._blind and self._round not in self._unseen:
            with self._around.state.writing(durable=False):
                book.put_unseen(digest, self._round)
            self._unseen.add(self._round)

    def too_many_unseen(self) -> str | None:
        """Why no part is taken from now on, where too many rounds in a row were without an answered look.

        A round whose looks are not over yet does not count.
        """
        unseen = self._unseen - ({self._round} if self.at < NEVER else set())
        return None if len(unseen) < self._around.policy.most_unseen else _UNSEEN.format(len(unseen))
