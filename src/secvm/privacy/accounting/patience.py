"""Patience: whoever asks for a guarantee that a stranger made up says how long is enough.

A few numbers of a form or of a document can ask for hours: a million rounds, a tiny ε. Inside of ``patience`` the
accountant looks now and then whether that is enough, and gives up by refusing the experiment. Outside it takes its
time. It holds for the thread, or the task, that has asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from secvm.errors import BadInputError

TOO_LONG = "its guarantee takes longer to reckon than anybody waits here"

_enough: ContextVar[Callable[[], bool] | None] = ContextVar("enough", default=None)


@contextmanager
def patience(enough: Callable[[], bool]) -> Iterator[None]:
    """Reckonings within give up when ``enough`` says so."""
    before = _enough.set(enough)
    try:
        yield
    finally:
        _enough.reset(before)


def until(now: Callable[[], int], seconds: float) -> Callable[[], bool]:
    """Enough is when so many seconds are over, by a clock in milliseconds that nobody sets."""
    end = now() + int(1000 * seconds)
    return lambda: now() >= end


def keep_patience() -> None:
    """Raise ``BadInputError`` where it has lasted long enough."""
    enough = _enough.get()
    if enough is not None and enough():
        # Not ``BadExperimentError``: who tries many plans would take it for one that does not fit.
        raise BadInputError(TOO_LONG)
