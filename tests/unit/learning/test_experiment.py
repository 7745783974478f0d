"""Experiments that contradict themselves are refused; rules come back from what is published of them."""

from fractions import Fraction
from typing import Any

import pytest

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.aggregate.descent import Pegasos, Swift, rule_by_name
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning

GOOD: dict[str, Any] = {"n_bins": 10, "labels": ("a", "b"), "rule": Pegasos()}
SWIFT = Swift().parameters()
RHO, HALF = Thinning(rho=Fraction(3)), Thinning(q=Fraction(1, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"n_bins": 0},
        {"labels": ()},
        {"labels": ("a",)},
        {"labels": ("a", "a")},
        {"labels": ("a", "b"), "loss": Loss("pinball")},
        {"labels": ("a", "b", "c"), "multiclass": "all"},
        {"labels": tuple(map(str, range(5000)))},
        {"class_weights": (Fraction(1),)},
        {"class_weights": (Fraction(1), Fraction(-1))},
        {"class_weights": (Fraction(0), Fraction(0))},
        {"labels": ("n",), "loss": Loss("pinball"), "class_weights": (Fraction(2),)},
        {"target_spread": Fraction(0)},
        {"thinning": RHO},
        {"rule": Swift(), "thinning": HALF},
        {"rule": Swift()},
        {"rule": Swift(), "thinning": RHO, "fixed_point_rows": True},
        {"fixed_point_rows": True},
        {"rule": Swift(), "fixed_point_rows": True, "budget": 50},
        {"features_per_person": 0},
        {"budget": 1},
    ],
)
def test_experiment_that_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    Experiment(**GOOD)
    with pytest.raises(BadExperimentError):
        Experiment(**{**GOOD, **change})


@pytest.mark.parametrize(
    "rule",
    [Pegasos(), Pegasos(lambda_=Fraction(1, 3), averaging=5, step_cap=Fraction(1, 2)), Swift(floor=Fraction(1, 5))],
)
def test_rule_comes_back_from_its_published_parameters(rule: Pegasos | Swift) -> None:
    assert rule_by_name(rule.name, rule.parameters()) == rule


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("adam", {}),
        ("pegasos", {}),
        ("pegasos", {"lambda": "0"}),
        ("pegasos", {"lambda": "1/0"}),
        ("pegasos", {"lambda": "nan"}),
        ("pegasos", {"lambda": "1e-99999999"}),
        ("pegasos", {"lambda": "1/10", "averaging": "5/2"}),
        *(("pegasos", {"lambda": value}) for value in ("-1", "1e-13", "1000001")),
        *(("pegasos", {"lambda": "1/10", "averaging": value}) for value in ("0", "-1", "65")),
        *(("pegasos", {"lambda": "1/10", "step_cap": value}) for value in ("0", "1", "-1/2")),
        ("pegasos", {"lambda": "1/10", "momentum": "1/2"}),
        ("swift", {"lambda": "1/10"}),
        *(("swift", SWIFT | {"step_size": value}) for value in ("0", "1000001")),
        *(("swift", SWIFT | {"momentum": value}) for value in ("1", "-1/10")),
        *(("swift", SWIFT | {"floor": value}) for value in ("0", "some")),
        *(("swift", SWIFT | {name: value}) for name, value in (("decay", "1"), ("mean_move", "-1"), ("speed", "1"))),
    ],
)
def test_published_rule_that_is_none_is_refused(name: str, parameters: dict[str, str]) -> None:
    with pytest.raises(BadInputError):
        rule_by_name(name, parameters)


def test_train_budget_leaves_room_for_the_participation_package() -> None:
    assert Experiment(**GOOD, budget=9).train_budget == 8
    assert Experiment(**GOOD).train_budget is None
