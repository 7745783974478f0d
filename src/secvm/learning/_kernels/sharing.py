"""Threads that take pieces of work one by one. What a piece writes is its own, so their number never shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

#: Pieces of work per thread when the pieces can be chosen: a slow thread then holds up the rest less.
PIECES_PER_THREAD = 4


def share_out(
    pieces: Iterable[Any],
    work: Callable[[Iterable[Any]], None],
    threads: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Let ``threads`` workers take pieces from one iterator until none is left.

    Who shares out often brings a pool of as many threads; else they are started and ended here.
    """
    if threads <= 1:
        work(pieces)
        return
    lock, iterator = threading.Lock(), iter(pieces)

    def take() -> Iterable[Any]:
        while True:
            with lock:
                try:
                    piece = next(iterator)
                except StopIteration:
                    return
            yield piece

    with nullcontext(pool) if pool is not None else ThreadPoolExecutor(threads) as workers:
        for future in [workers.submit(work, take()) for _ in range(threads)]:
            future.result()


def cut_range(n: int, pieces: int) -> list[tuple[int, int]]:
    """0 to n cut into at most so many ranges of nearly one size, none of them empty."""
    pieces = max(1, min(pieces, n))
    return [(a, b) for a, b in pairwise(n * k // pieces for k in range(pieces + 1)) if b > a]
