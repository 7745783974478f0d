"""What every test can rely on: a fixed Hypothesis, a quiet environment, the repository's root."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The same examples on every run and machine: a red test is red for everyone. No deadline: machines are shared.
settings.register_profile("fixed", derandomize=True, deadline=None)
# For hunting: `./secvm test --hypothesis-profile=hunt` draws anew each time, and many.
settings.register_profile("hunt", derandomize=False, deadline=None, max_examples=2000)
settings.load_profile("fixed")


@pytest.fixture
def repository() -> Path:
    """The root of this checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own SECVM_… variables shall not decide what a test finds."""
    for name in list(os.environ):
        if name.startswith("SECVM_"):
            monkeypatch.delenv(name)
