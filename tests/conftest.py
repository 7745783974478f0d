"""What every test can rely on: a fixed or drawn Hypothesis, a quiet environment, the repository's root.

``./secvm test`` says in environment variables which tier it runs and with which seed; see ``secvm_lab.cli.dev.tiers``.
"""

import asyncio
import inspect
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import numpy as np
import pytest
import uvloop
from hypothesis import settings

from secvm.crypto.sealing.lanes import Lanes
from tests import connections
from tests.effort import DEEP
from tests.seeds import RUN_SEED, seed_for
from tests.slicing import Slice
from tests.unit.crypto.openers import lanes_here

ROOT = Path(__file__).resolve().parents[1]

# The same examples on every run and machine: a red test is red for everyone. They are few, because they are always the
# same. No deadline: machines are shared.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
# New examples on every run, from the run's seed alone: no database of earlier failures joins in.
settings.register_profile("drawn", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile("drawn" if DEEP else "fixed")


#: The default tier has more cases than this; parts of it have fewer.
_WHOLE_TIER = 5_000
#: How long a test that is a coroutine may take, on a machine that is shared.
_PATIENCE_S = 120.0


def pytest_configure(config: pytest.Config) -> None:
    connections.watch()
    minutes = os.environ.get("SECVM_TEST_MINUTES")
    if minutes:
        config.pluginmanager.register(Slice(float(minutes), RUN_SEED), "slice")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in the event loop of services. One that waits for what never comes has failed."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    factory: Any = pyfuncitem.funcargs.get("both_loops", uvloop.new_event_loop)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), _PATIENCE_S))
    return True


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def both_loops(request: pytest.FixtureRequest) -> object:
    """For tests that are coroutines: they run once in each kind of event loop."""
    return request.param


def pytest_sessionfinish() -> None:
    """Keep what was measured: a worker of a parallel run has no time for it once it has said that it is done."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        with warnings.catch_warnings():
            # A worker that was started for the last few tests may have measured nothing.
            warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)
            measuring.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note the slowest case of a whole default tier, for ``secvm dev house``."""
    reports = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    if not DEEP and len(reports) > _WHOLE_TIER and config.cache is not None:
        longest = max(reports, key=lambda report: report.duration)
        config.cache.set("secvm/longest", {"test": longest.nodeid, "seconds": round(longest.duration, 2)})


def pytest_report_header() -> str:
    return f"secvm: {'deep' if DEEP else 'default'} tier, seed {RUN_SEED}"


@pytest.fixture
def repository() -> Path:
    """The root of this checkout."""
    return ROOT


@pytest.fixture(scope="session", params=["one-by-one", "lanes"])
def lanes(request: pytest.FixtureRequest) -> Lanes | None:
    """Both ways to open capsules; None stands for the readable code, which is all there is on some machines.

    Names rather than lanes are the parameters: collecting tests compiles nothing and is the same for all workers.
    """
    return lanes_here() if request.param == "lanes" else None


@pytest.fixture(autouse=True)
def _own_dice(request: pytest.FixtureRequest) -> None:
    """Dice that a test did not ask for, numpy's shared ones, are thrown anew in each: no test hangs on another."""
    np.random.seed(seed_for(request.node.nodeid) % 2**32)  # noqa: NPY002  (that these are shared is the point)


@pytest.fixture(autouse=True)
def _every_connection_is_closed() -> Iterator[None]:
    """A test closes what it opens; else a later one would hear of it."""
    connections.left_open()
    yield
    assert connections.left_open() == []


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own SECVM_… variables shall not decide what a test finds."""
    for name in list(os.environ):
        if name.startswith("SECVM_"):
            monkeypatch.delenv(name)
    # Whichever test compiles first would have a line more on stderr.
    monkeypatch.setenv("SECVM_QUIET", "1")
