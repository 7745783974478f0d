"""Rough cover: near the plan that it stands for while somebody chooses."""

from fractions import Fraction
from typing import Any

import pytest

from secvm.errors import BadExperimentError
from secvm.learning.thinning import Thinning
from secvm.privacy.rough_cover import rough_cover
from secvm.privacy.shuffle_dp import asked_for, plan
from secvm.privacy.statement import guarantee

ASKED: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "rounds": 10,
    "features": 20,
    "bins": 500,
    "participants": 10_000,
    "gamma": Fraction(1, 2),
    "labels": 2,
    "train_share": Fraction(7, 10),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"epsilon": 0.3, "rounds": 3},
        {"epsilon": 4.0, "labels": 3, "models": 3},
        {"thinning": Thinning(rho=Fraction(2))},
        {"thinning": Thinning(q=Fraction(1, 4)), "participants": 2_000},
        {"thinning": Thinning(rho=Fraction(1)), "rounds": 5, "epsilon": 2.0},
    ],
    ids=str,
)
def test_rough_cover_is_near_the_plan(change: dict[str, Any]) -> None:
    asked = ASKED | change
    rough, made = rough_cover(asked_for(**asked)), plan(**asked)
    assert rough.budget == pytest.approx(made.budget, rel=0.1)
    assert rough.cover_mean == pytest.approx(float(made.cover.mean_packages), rel=0.2)
    told = guarantee(made.mechanism, made.honest, made.delta, curve=True)
    assert told.auc_curve is not None
    assert rough.auc == pytest.approx(told.auc_curve, abs=0.04)


def test_what_no_cover_keeps_is_refused() -> None:
    with pytest.raises(BadExperimentError):
        rough_cover(asked_for(**ASKED | {"epsilon": 1e-4, "participants": 10, "rounds": 1000}))


def test_a_rough_cover_needs_labels() -> None:
    with pytest.raises(BadExperimentError, match="labels"):
        rough_cover(asked_for(**ASKED | {"labels": None}))
