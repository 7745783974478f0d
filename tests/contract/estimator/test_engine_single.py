"""Swift for one model without a layout: the same rounds, reports and states as OfflineTraining."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier, fitting
from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import fixed_norm
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm_lab.engine.single import EngineTraining, SingleRows, SingleTraining, fixed_norms
from tests.unit.learning.helpers import rows_of


def crowd(seed: int, n: int, bins: int, values: tuple[int, ...]) -> tuple[BinnedRows, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    rows = [np.unique((bins ** rng.random(9 + 4 * label)).astype(int) - 1) for label in labels]
    people = rows_of(rows, bins)
    return replace(people, values=rng.choice(values, len(people.bins)).astype(np.int32)), labels


def swift(rows: BinnedRows, *, weight: int = 1, loss: str = "hinge", step: int = 100) -> Experiment:
    return Experiment(
        n_bins=rows.n_bins,
        labels=("n", "p"),
        rule=Swift(step_size=Fraction(step)),
        fixed_point_rows=True,
        class_weights=(Fraction(1), Fraction(weight)),
        loss=Loss(loss),
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_single_training_has_the_bytes_of_an_offline_one(data: st.DataObject) -> None:
    seed, n = data.draw(st.integers(0, 2**32)), data.draw(st.integers(4, 80))
    values = data.draw(st.sampled_from([(1,), (1, 2, 3), (1, 4, 900), (-2, -1, 1, 5)]))
    rows, labels = crowd(seed, n, 30, values)
    train = None if data.draw(st.booleans()) else np.arange(n) % 4 != 1
    experiment = swift(
        rows,
        weight=data.draw(st.sampled_from([1, 4])),
        loss=data.draw(st.sampled_from(["hinge", "perceptron"])),
        step=data.draw(st.sampled_from([1, 100, 3000])),
    )
    people = Population(rows=rows, labels=labels, train=train)
    plain = OfflineTraining(experiment, kernel="fast")
    quick = SingleTraining(experiment, people, threads=data.draw(st.sampled_from([1, 2])))
    test = np.flatnonzero(np.arange(n) % 4 == 1)
    evaluator = Evaluator(experiment, rows.take(test), kernel="fast")
    for _ in range(14):
        assert quick.advance(people) == plain.advance(people)
        assert quick.state.to_bytes() == plain.state.to_bytes()
        expected = evaluator.cells(aggregate.evaluation_weights(experiment, plain.state), labels[test])
        assert np.array_equal(quick.cells(test), expected)
    assert quick.two_cycle.spells == plain.two_cycle.spells


def test_while_the_same_people_violate_nobody_is_scored_twice_or_counted_twice() -> None:
    rows, labels = crowd(2, 900, 300, (1,))
    experiment, people = swift(rows, step=3), Population(rows=rows, labels=labels)
    training = SingleTraining(experiment, people)
    reports = [training.advance(people) for _ in range(8)]
    assert reports[0].violators == reports[6].violators
    assert training.rows.score_passes < 2
    assert training.rows.count_passes < 1.5


def test_without_its_bound_a_single_training_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = crowd(3, 500, 200, (1,))
    experiment, people = swift(rows), Population(rows=rows, labels=labels)
    honest = SingleTraining(experiment, people)
    for _ in range(25):
        honest.advance(people)
    monkeypatch.setattr(SingleRows, "_guess", _careless)
    careless = SingleTraining(experiment, people)
    for _ in range(25):
        careless.advance(people)
    assert careless.state.to_bytes() != honest.state.to_bytes()


_honest_guess = SingleRows._guess


def _careless(self: SingleRows, *given: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    below, doubtful = _honest_guess(self, *given)
    return below, doubtful & (not self._known)


@given(squares=st.lists(st.one_of(st.integers(1, 2**30 - 1), st.integers(1, 2**40)), min_size=1, max_size=20))
def test_norms_of_many_are_the_norms_of_each(squares: list[int]) -> None:
    squares += [k * k for k in (1, 2, 300, 2**15 - 1)]
    assert fixed_norms(np.array(squares)).tolist() == [fixed_norm(square) for square in squares]


def test_repro_training_over_people_it_was_not_made_for_is_refused() -> None:
    rows, labels = crowd(4, 10, 20, (1,))
    people, others = (Population(rows=rows, labels=labels) for _ in range(2))
    engine = EngineTraining(Experiment(n_bins=20, labels=("n", "p"), rule=Pegasos(step_cap=None)), people)
    for training in (SingleTraining(swift(rows), people), engine):
        with pytest.raises(BadInputError, match="the people it was made for"):
            training.advance(others)
    with pytest.raises(BadInputError, match="the people it was made for"):
        engine.advance(people, lambda _: np.ones(10, bool))


def test_what_a_single_training_does_not_do_it_says() -> None:
    rows, labels = crowd(4, 10, 20, (1,))
    people = Population(rows=rows, labels=labels)
    with pytest.raises(BadInputError, match="use OfflineTraining"):
        SingleTraining(Experiment(n_bins=20, labels=("n", "p"), rule=Pegasos()), people)
    with pytest.raises(BadInputError, match="sample weights"):
        SingleTraining(swift(rows), Population(rows=rows, labels=labels, multiplicity=np.ones(10, np.int64)))
    with pytest.raises(BadInputError, match="another number of bins"):
        SingleTraining(Experiment(n_bins=21, labels=("n", "p"), rule=Swift(), fixed_point_rows=True), people)


def test_a_classifier_by_swift_has_the_same_model_by_a_single_training(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    X = rng.integers(0, 3, (90, 20))
    y = np.where(X[:, :5].sum(axis=1) + rng.integers(0, 4, 90) > 6, "up", "down")
    asked: dict[str, Any] = {"descent": "swift", "thinning": None, "rounds": 12, "random_state": 1}
    plain = SecVMClassifier(**asked).fit(X, y)
    monkeypatch.setattr(fitting, "ENOUGH", 0)
    quick = SecVMClassifier(**asked).fit(X, y)
    assert quick.state_.to_bytes() == plain.state_.to_bytes()
    assert quick.packages_per_person_ == plain.packages_per_person_
