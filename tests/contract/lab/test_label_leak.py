"""Longer cases of ``tests.unit.lab.privacy.test_label_leak.py``."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings

from secvm.learning.thinning import Thinning
from secvm_lab.privacy.label_leak import LabelGame, label_leak
from tests.unit.lab.privacy.test_label_leak import GAMES


@settings(max_examples=30, deadline=None)
@given(GAMES)
def test_what_helps_the_attacker_raises_every_number(game: LabelGame) -> None:
    thinner = replace(game, thinning=Thinning(q=Fraction(1, 50)), rounds=1)
    noisy = replace(game, cover_variance=10.0)
    assert game.negative is not None
    crowd = replace(game, positive=3 * game.positive, negative=3 * game.negative)
    longer = replace(game, rounds=2 * game.rounds)
    found = label_leak(game)
    for weaker in (thinner, noisy, crowd):
        less = label_leak(weaker)
        assert 0.5 <= less.auc <= found.auc + 1e-6
        assert less.total_variation <= found.total_variation + 1e-6
        assert less.d_squared <= found.d_squared
    more = label_leak(longer)
    assert found.auc - 1e-6 <= more.auc <= 1
    assert more.d_squared == pytest.approx(2 * found.d_squared)
