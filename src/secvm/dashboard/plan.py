"""``POST /api/plan``: what an experiment would tell, cost and learn, while somebody still fills the form.

Needs no key: it tells nothing of this coordinator. Quick parts are answered as they come. Guarantees take seconds of a
processor to plan, so that one is made at a time, a few may wait, and whoever comes then is told to ask again; plans are
kept, and asking for one again costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.dashboard.facts import BYTES_PER_PACKAGE
from secvm.dashboard.form import UnfinishedError, read_request
from secvm.errors import BadInputError
from secvm.pages.guarding import RefusedRequestError
from secvm.privacy.accounting.accountant import patience, until
from secvm.privacy.planning.accuracy_cost import AccuracyTable
from secvm.privacy.planning.planner import guaranteed, quick
from secvm.privacy.planning.wish import Remark

#: A form is some kilobytes; nobody reads more.
MOST_BYTES = 2**16
#: Those who wait for a guarantee's plan, the one that is made included.
MOST_WAITING = 4
#: Nobody waits for a plan any longer; what takes so long are numbers that nobody means.
PATIENCE_S = 60.0
CAVEAT = "Measured on made-up people (Zipf words, two labels); yours will differ."


@cache
def accuracy_table() -> AccuracyTable:
    """The table that ``./secvm bench planner --write`` made."""
    return AccuracyTable(orjson.loads((files("secvm.dashboard") / "accuracy_cost.json").read_bytes()))


class Planner:
    """Answers forms. May be asked by several threads."""

    def __init__(
        self, *, most_waiting: int = MOST_WAITING, now: Callable[[], int] | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        """``now``: milliseconds of a clock that nobody sets, by which plans are given up; None: they are not."""
        self._now, self._patience_s = now, patience_s
        self._one_at_a_time = threading.Lock()
        self._places = threading.BoundedSemaphore(most_waiting)

    def __call__(self, content: dict[str, Any]) -> dict[str, Any]:
        """The answer to one form.

        Raises
        ------
        BadInputError
            Where it is no form of ours.
        RefusedError
            Where it is too long, or too many wait already.
        """
        data = orjson.dumps(content)
        if len(data) > MOST_BYTES:
            raise RefusedRequestError(413, "a form to be planned is shorter than this")
        try:
            return self._planned(data)
        except UnfinishedError as fault:
            return unfinished(fault.remarks)
        except (ArithmeticError, MemoryError, ValueError) as fault:
            if isinstance(fault, BadInputError):
                raise
            # Numbers that no float holds, from somebody who plays with the form.
            return unfinished((Remark("", "These numbers are too large or too small to be planned with."),))

    def _planned(self, data: bytes) -> dict[str, Any]:
        wish, part = read_request(data)
        each = BYTES_PER_PACKAGE if wish.guarantee is None else OUTER_BYTES
        if part == "quick" or wish.guarantee is None:
            plan = quick(wish, accuracy_table(), bytes_per_package=each)
        elif not self._places.acquire(blocking=False):
            raise RefusedRequestError(503, "other plans are being made: ask again in a moment")
        else:
            try:
                with self._one_at_a_time, patience(self._enough()):
                    plan = guaranteed(wish, accuracy_table(), bytes_per_package=each)
            finally:
                self._places.release()
        return {**plan.content(bytes_per_package=each), "caveat": CAVEAT}

    def _enough(self) -> Callable[[], bool]:
        return (lambda: False) if self._now is None else until(self._now, self._patience_s)


def unfinished(remarks: tuple[Remark, ...]) -> dict[str, Any]:
    """The answer to a form that cannot be read yet: remarks, and no number."""
    numbers = ("attacker", "packages", "accuracy", "hashing", "guarantee", "rests_on", "plan")
    return {
        "kind": None,
        "formal": False,
        "exact": True,
        "refusals": [remark.content() for remark in remarks],
        "warnings": [],
        **dict.fromkeys(numbers),
        "statement": [],
        "curve": [],
        "caveat": CAVEAT,
    }
