"""A slice of the tests: as many as fit into some minutes, in an order drawn by a seed.

Files are shuffled, and each file begins at a drawn place and goes round: so each case is among the first now and then,
and over many seeds everything is run. What a file sets up once still serves its neighbours. A case that says how long
it takes (``@pytest.mark.takes(minutes=5)``) is left out when less time is left; one that belongs to every slice
(``@pytest.mark.in_every_slice``) comes first.
"""

import random
import time
from itertools import groupby
from typing import Any

import pytest


class Slice:
    """A plugin for pytest: orders the cases, starts none after the time is up, and says how many were left out."""

    def __init__(self, minutes: float, seed: str) -> None:
        self._minutes = minutes
        self._seed = seed
        self._end = time.monotonic() + 60 * minutes
        self._begun = self._left_out = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        dice = random.Random(self._seed)
        files = [list(cases) for _, cases in groupby(items, key=lambda item: item.path)]
        dice.shuffle(files)
        items[:] = [case for cases in files for case in _turned(cases, dice.randrange(len(cases)))]
        items.sort(key=lambda item: item.get_closest_marker("in_every_slice") is None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        mark = item.get_closest_marker("takes")
        takes_s = 60 * mark.kwargs["minutes"] if mark else 0.0
        if time.monotonic() + takes_s < self._end:
            self._begun += 1
            return None
        self._left_out += 1
        # What earlier cases set up and later ones do not need is taken down, as after a case that was run.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["slice"] = (self._begun, self._left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        begun, left_out = getattr(node, "workeroutput", {}).get("slice", (0, 0))
        self._begun += begun
        self._left_out += left_out

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"a slice of {self._minutes:g} minutes drawn by {self._seed}: "
            f"{self._begun} cases were begun, {self._left_out} left for other seeds"
        )


def _turned(cases: list[pytest.Item], first: int) -> list[pytest.Item]:
    return cases[first:] + cases[:first]
