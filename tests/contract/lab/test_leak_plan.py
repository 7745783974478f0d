"""Longer cases of ``tests/unit/lab/privacy/test_leak_plan.py``."""

from dataclasses import replace

from secvm_lab.privacy.label_leak import fewest_participants, most_q, plan
from tests.unit.lab.privacy.test_leak_plan import GAME


def test_numbers_without_limit_have_none() -> None:
    noisy = replace(GAME, cover_variance=1e12)
    found = plan(noisy)
    assert found.most_bins is None
    assert found.fewest_participants == 2
    assert found.most_q == 1
    assert most_q(replace(GAME, positive=1, negative=1, rounds=10**6)) is None
    assert fewest_participants(replace(GAME, rounds=10**12, features=5)) is None
