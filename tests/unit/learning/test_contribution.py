"""Everything one person sends in one round, and that secrets do not print."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute, train_packages
from secvm.learning.individual.dice import KeptOnDevice, Purpose, UnsafeSeededDice
from secvm.learning.individual.update import Update
from secvm.learning.losses import ONE, Loss
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from tests.unit.learning.helpers import some_weights

N_BINS = 6
VECTOR = BinnedVector(values={0: 3, 2: 1, 5: -2}, n_bins=N_BINS)
ZERO = some_weights([[0] * (N_BINS + 1)])
DICE = UnsafeSeededDice(b"contribution", 11)


def sent(experiment: Experiment, person: Individual, weights: Weights = ZERO, round_number: int = 1) -> list[Package]:
    return contribute(
        person, experiment=experiment, training=weights, evaluation=weights, dice=DICE, round_number=round_number
    )


def experiment(**change: Any) -> Experiment:
    return Experiment(**{"n_bins": N_BINS, "labels": ("a", "b"), "rule": Pegasos(), **change})


def units(packages: list[Package]) -> Counter[tuple[int, int, int]]:
    return Counter((p.model, p.bin_index, p.sign) for p in packages if isinstance(p, TrainPackage))


def test_violator_sends_its_participation_and_each_unit() -> None:
    packages = sent(experiment(), Individual(VECTOR, label=0))
    assert packages[0] == ParticipationPackage(cohort=Cohort.TRAIN, class_index=0)
    assert units(packages) == {(0, 0, -1): 3, (0, 2, -1): 1, (0, 5, 1): 2, (0, N_BINS, -1): 1}
    assert len(packages) == 1 + 7


def test_who_is_beyond_the_margin_sends_only_its_participation() -> None:
    strong = some_weights([[0] * N_BINS + [1]])
    assert sent(experiment(), Individual(VECTOR, label=1), strong) == [
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=1)
    ]


def test_test_person_sends_one_cell_and_no_unit() -> None:
    packages = sent(experiment(), Individual(VECTOR, label=0, cohort=Cohort.TEST))
    assert packages == [
        ParticipationPackage(cohort=Cohort.TEST, class_index=0),
        TestPackage(true_class=0, predicted_class=1),
    ]


def test_test_person_of_a_regression_has_no_cell() -> None:
    numbers = experiment(labels=("n",), loss=Loss("epsilon-insensitive"))
    packages = sent(numbers, Individual(VECTOR, label=0, target=ONE, cohort=Cohort.TEST))
    assert packages == [ParticipationPackage(cohort=Cohort.TEST, class_index=0)]


@given(
    st.dictionaries(st.integers(0, N_BINS - 1), st.integers(-9, 9).filter(bool), max_size=N_BINS),
    st.integers(0, 2),
    st.sampled_from(Cohort),
    st.integers(2, 25),
    st.booleans(),
    st.integers(1, 9),
)
def test_everybody_sends_exactly_the_budget(
    values: dict[int, int],
    label: int,
    cohort: Cohort,
    budget: int,
    strong: bool,
    round_number: int,
) -> None:
    three = experiment(labels=("a", "b", "c"), budget=budget)
    weights = some_weights([[9 * strong] * (N_BINS + 1)] * 3)
    person = Individual(BinnedVector(dict(sorted(values.items())), N_BINS), label=label, cohort=cohort)
    packages = sent(three, person, weights, round_number)
    assert len(packages) == budget
    kinds = Counter(type(p) for p in packages)
    assert kinds[ParticipationPackage] == 1
    assert kinds[TestPackage] == (cohort is Cohort.TEST)
    assert kinds[TrainPackage] == len(
        train_packages(person, experiment=three, training=weights, dice=DICE, round_number=round_number)
    ) * (cohort is Cohort.TRAIN)
    assert sum(kinds.values()) - kinds[NullPackage] <= budget


def test_one_vs_one_person_trains_only_in_the_models_of_its_class() -> None:
    pairs = experiment(labels=("a", "b", "c"), multiclass="ovo")
    packages = sent(pairs, Individual(VECTOR, label=1), some_weights([[0] * (N_BINS + 1)] * 3))
    assert {(m, s) for (m, b, s) in units(packages) if b == N_BINS} == {(0, 1), (2, -1)}


def test_coin_decides_anew_in_every_round_and_model() -> None:
    coins = experiment(labels=("a", "b", "c"), loss=Loss("logistic"))
    weights = some_weights([[0] * (N_BINS + 1)] * 3)
    for number in range(1, 12):
        violated = {m for (m, _, _) in units(sent(coins, Individual(VECTOR, label=1), weights, number))}
        # At score 0 the threshold ln((1-p)/p) is above 0 when p < 1/2.
        expected = {
            m
            for m in range(3)
            if Loss("logistic").thresholds(np.array([DICE.words(Purpose.COIN, number, m, 1)[0] >> 11], dtype=np.int64))[
                0
            ]
            > 0
        }
        assert violated == expected


# ── secrets stay quiet ───────────────────────────────────────────────────────────────────────────────────────────────

ROWS = BinnedRows(
    indptr=np.array([0, 2], dtype=np.int64),
    bins=np.array([4711, 8888], dtype=np.int32),
    values=np.array([4711, 8888], dtype=np.int32),
    n_bins=10_000,
)
SECRET = BinnedVector(values={4711: 8888}, n_bins=9999)


@pytest.mark.parametrize(
    "secret",
    [
        SECRET,
        Update(values={4711: 8888}),
        Individual(SECRET, label=4711, target=8888),
        KeptOnDevice("4711 8888"),
        ROWS,
    ],
)
def test_secret_does_not_print_itself(secret: object) -> None:
    for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}", "%s" % (secret,)):  # noqa: UP031
        assert "4711" not in shown
        assert "8888" not in shown
        assert type(secret).__name__ in shown


def test_rows_know_their_units_norms_and_parts() -> None:
    rows = BinnedRows(
        indptr=np.array([0, 2, 2, 3], dtype=np.int64),
        bins=np.array([0, 3, 1], dtype=np.int32),
        values=np.array([-2, 1, 5], dtype=np.int32),
        n_bins=4,
    )
    assert rows.units.tolist() == [4, 1, 6]
    assert rows.squared_norms.tolist() == [6, 1, 26]
    taken = rows.take(np.array([2, 0, 2, 1]))
    assert taken.units.tolist() == [6, 4, 6, 1]
    assert taken.bins.tolist() == [1, 0, 3, 1]
