"""Lines of a coordinator's log, fetched in tiles of entries (c2sp.org/tlog-tiles), for whoever has read the log so far.

A tile has 256 lines, the last one of a log fewer; a device fetches those with lines that it has not seen. Each fetch is
sealed like any other, and the same for everybody who asks at the same size. Nothing here is believed: lines are held to
a signed root by ``protocol.trust.trusted_log``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from secvm.errors import StaleRoundError
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.log.entries import MAX_LINE_BYTES
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle
from secvm.protocol.version import LOG_ORIGIN

MOST_TILE_BYTES = TILE_WIDTH * (2 + MAX_LINE_BYTES)
#: So many fetches at once for whoever has to catch up.
_AT_ONCE = 4
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
        missing = [number for number in numbers if number not in tiles]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            if len(missing) > 1:
                self._around.traffic.check(len(some) * MOST_TILE_BYTES, now())
            for number, lines in zip(
                some, await asyncio.gather(*(self._tile(number, size, now) for number in some)), strict=True
            ):
                if lines is None:
                    return None
                tiles[number] = lines
        lines = [line for number in numbers for line in tiles[number]]
        return tuple(lines[since - numbers.start * TILE_WIDTH :]) if numbers else ()

    def forget(self) -> None:
        """What was fetched did not fit, or is not needed any more."""
        self._full = {}

    async def _tile(self, number: int, size: int, now: Now) -> list[bytes] | None:
        tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
        fetched = await self._around.fetch(f"/{LOG_ORIGIN}/{tile.path}", now, most=MOST_TILE_BYTES)
        if fetched is None:
            return None
        lines = read_bundle(fetched.content, width=tile.width)
        if tile.width == TILE_WIDTH:
            self._full[number] = lines
        return lines
