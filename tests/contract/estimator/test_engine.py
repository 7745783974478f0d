"""The engine against OfflineTraining: the same bytes for every model, whatever is shared, skipped or guessed."""

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
from secvm.learning.aggregate.descent import Pegasos, State, Swift
from secvm.learning.arithmetic import to_fixed
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm_lab._kernels import lane_steps
from secvm_lab._kernels.lanes import lines
from secvm_lab.engine import LANES, Engine, sweep
from secvm_lab.engine.people import LaidOutPeople
from tests.unit.learning.helpers import rows_of


def some_people(
    seed: int, n: int, words: int, bins: int, values: tuple[int, ...] = (1,)
) -> tuple[BinnedRows, NDArray[np.int64]]:
    """People whose words lean a little to their label; popular bins come first."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    lean = rng.random(bins) < 0.5
    rows = []
    for label in labels:
        drawn = np.unique((bins ** rng.random(3 * words)).astype(int) - 1)
        kept = drawn[rng.random(len(drawn)) < np.where(lean[drawn] == bool(label), 0.7, 0.4)]
        rows.append(kept[:words])
    people = rows_of(rows, bins)
    return replace(people, values=rng.choice(values, len(people.bins)).astype(np.int32)), labels.astype(np.int64)


def ask(rows: BinnedRows, lambda_: Fraction | str = "1e-3", **more: Any) -> Experiment:
    rule = Pegasos(lambda_=Fraction(lambda_), averaging=more.pop("averaging", 2))
    return Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=rule, **more)


def alone(
    experiment: Experiment, rows: BinnedRows, labels: NDArray[np.int64], train: NDArray[np.bool_], rounds: int
) -> tuple[State, list[NDArray[np.int64]]]:
    """One model by OfflineTraining: its last state, and the test people's confusion after each round."""
    training = OfflineTraining(experiment, kernel="fast")
    people = Population(rows=rows, labels=labels, train=train)
    test = np.flatnonzero(~train)
    evaluator = Evaluator(experiment, rows.take(test), kernel="fast")
    cells = []
    for _ in range(rounds):
        training.advance(people)
        cells.append(evaluator.cells(aggregate.evaluation_weights(experiment, training.state), labels[test]))
    return training.state, cells


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_model_has_the_bytes_it_would_have_alone(data: st.DataObject) -> None:
    seed, n = data.draw(st.integers(0, 2**32)), data.draw(st.integers(6, 60))
    values = data.draw(st.sampled_from([(1,), (1, 2, 3), (1, 4, 900), (-2, -1, 1, 5)]))
    rows, labels = some_people(seed, n, words=12, bins=40, values=values)
    rng = np.random.default_rng(seed)
    train = rng.random((n, 5)) < 0.7
    train[:2] = True
    lambdas = data.draw(st.lists(st.sampled_from(["1e-6", "1e-3", "1/2", "7", "1/3"]), min_size=5, max_size=5))
    weights = data.draw(st.sampled_from([(), (Fraction(1), Fraction(4)), (Fraction(1, 3), Fraction(5, 7))]))
    loss = data.draw(st.sampled_from(["hinge", "perceptron"]))
    experiments = [ask(rows, lam, class_weights=weights, loss=Loss(loss)) for lam in lambdas]
    engine = Engine(rows, labels, experiments, train=train, lazy=data.draw(st.booleans()), threads=2)
    seen = []
    for _ in range(9):
        engine.advance()
        seen.append(engine.cells())
    for model, experiment in enumerate(experiments):
        state, cells = alone(experiment, rows, labels, train[:, model], 9)
        assert engine.state(model).to_bytes() == state.to_bytes()
        assert all(np.array_equal(mine[model], theirs) for mine, theirs in zip(seen, cells, strict=True))


def test_sixteen_splits_skip_most_of_the_scoring_and_have_the_same_bytes() -> None:
    rows, labels = some_people(1, n=1500, words=60, bins=700)
    train = np.random.default_rng(2).random((1500, LANES)) < 0.9
    experiments = [ask(rows)] * LANES
    engine = Engine(rows, labels, experiments, train=train)
    thorough = Engine(rows, labels, experiments, train=train, lazy=False)
    for _ in range(40):
        assert engine.advance().violators == thorough.advance().violators
        assert np.array_equal(engine.cells(), thorough.cells())
    assert all(engine.state(k).to_bytes() == thorough.state(k).to_bytes() for k in range(LANES))
    assert engine.score_passes < thorough.score_passes / 2
    assert engine.count_passes < 20
    state, cells = alone(experiments[7], rows, labels, train[:, 7], 40)
    assert engine.state(7).to_bytes() == state.to_bytes()
    assert np.array_equal(engine.cells()[7], cells[-1])


def test_without_its_bound_lazy_scoring_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = some_people(1, n=1500, words=60, bins=700)
    train = np.random.default_rng(2).random((1500, LANES)) < 0.9
    honest = Engine(rows, labels, [ask(rows)] * LANES, train=train)
    true_bound = LaidOutPeople.remainders
    monkeypatch.setattr(LaidOutPeople, "remainders", lambda *given: 0 * true_bound(*given))
    careless = Engine(rows, labels, [ask(rows)] * LANES, train=train)
    for _ in range(40):
        careless.advance()
    monkeypatch.undo()
    for _ in range(40):
        honest.advance()
    assert any(careless.state(k).to_bytes() != honest.state(k).to_bytes() for k in range(LANES))


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)), min_size=1, max_size=20),
    weights=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    q=st.one_of(st.integers(1, 2**45), st.integers(1, 64)),
    start=st.integers(-(2**50), 2**50),
)
def test_the_quick_step_rounds_as_the_one_arithmetic_does(
    counts: list[tuple[int, int]], weights: tuple[int, int], q: int, start: int
) -> None:
    up, down = weights
    n = len(counts)
    numerators = np.array([up * a - down * b for a, b in counts], np.int64)
    if int(np.abs(numerators).max()) * 2**32 // q >= 2**49:
        q += 2**9
    table, older, newer = lines(2 * n, 1, np.int32), lines(n, 1, np.int64), lines(n, 1, np.int64)
    table[:n], table[n:] = zip(*counts, strict=True)
    older[:] = start
    largest = np.zeros(1, np.int64)
    factors = np.array([up, down, 1, q], np.int64)
    lane_steps.step(table, n, older, newer, factors, 2.0**32 / factors[3:], largest, 0, n, (0,))
    expected = start + to_fixed(numerators, Fraction(1, q))
    assert np.array_equal(newer, expected)
    assert largest[0] == np.abs(expected).max()


def test_what_the_engine_does_not_do_it_says() -> None:
    rows, labels = some_people(3, n=10, words=5, bins=20)
    swift = Experiment(n_bins=20, labels=("n", "p"), rule=Swift(), fixed_point_rows=True)
    thinned = ask(rows, thinning=Thinning(q=Fraction(1, 2)))
    for experiment in (swift, thinned, ask(rows, loss=Loss("logistic"))):
        with pytest.raises(BadInputError, match="use OfflineTraining"):
            Engine(rows, labels, [experiment])
    with pytest.raises(BadInputError, match="1 to 16 models"):
        Engine(rows, labels, [ask(rows)] * 17)
    with pytest.raises(BadInputError, match="nobody"):
        Engine(rows, labels, [ask(rows)], train=np.zeros((10, 1), np.bool_))
    with pytest.raises(BadInputError, match="another number of bins"):
        Engine(rows, labels, [Experiment(n_bins=21, labels=("n", "p"), rule=Pegasos())])
    with pytest.raises(BadInputError, match="before the first round"):
        Engine(rows, labels, [ask(rows)]).cells()


def test_a_sweep_of_more_models_than_a_line_holds_gives_each_its_own_curve() -> None:
    rows, labels = some_people(11, n=120, words=15, bins=60)
    train = np.random.default_rng(4).random((120, 19)) < 0.8
    experiments = [ask(rows, Fraction(1, 10 + k)) for k in range(19)]
    told: list[tuple[int, int, int]] = []
    swept = list(
        sweep(rows, labels, experiments, train=train, rounds=6, progress=lambda *told_now: told.append(told_now))
    )
    assert [one.model for one in swept] == list(range(19))
    assert told[5:7] == [(0, 16, 6), (16, 3, 1)]
    for k in (3, 17):
        state, cells = alone(experiments[k], rows, labels, train[:, k], 6)
        assert swept[k].state.to_bytes() == state.to_bytes()
        assert np.array_equal(swept[k].cells, np.stack(cells))
        right = [np.trace(c) / c.sum() for c in cells]
        assert swept[k].accuracy.tolist() == right
    (last,) = sweep(rows, labels, experiments[:1], train=train[:, :1], rounds=6, evaluate=[6])
    assert np.array_equal(last.cells, swept[0].cells[-1:])


def test_people_who_belong_to_neither_half_are_neither_counted_nor_predicted() -> None:
    rows, labels = some_people(12, n=150, words=15, bins=60)
    part = np.random.default_rng(5).integers(0, 3, (150, 3))  # train, test, neither
    experiments = [ask(rows, lam) for lam in ("1e-3", "1e-2", "1/10")]
    swept = list(sweep(rows, labels, experiments, train=part == 0, test=part == 1, rounds=6))
    for k, one in enumerate(swept):
        inside = part[:, k] < 2
        state, cells = alone(
            experiments[k], rows.take(np.flatnonzero(inside)), labels[inside], part[inside, k] == 0, rounds=6
        )
        assert one.state.to_bytes() == state.to_bytes()
        assert np.array_equal(one.cells, np.stack(cells))
    with pytest.raises(BadInputError, match="test must say"):
        next(sweep(rows, labels, experiments, test=part[:, :2] == 1, rounds=1))
    with pytest.raises(BadInputError, match="test must say"):
        Engine(rows, labels, experiments, test=part[:, :2] == 1)


def test_a_classifier_has_the_same_model_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    X = rng.integers(0, 3, (90, 20))
    y = np.where(X[:, :5].sum(axis=1) + rng.integers(0, 4, 90) > 6, "up", "down")
    plain = SecVMClassifier(descent="pegasos", rounds=25, lambda_=1e-2, random_state=1, stop="plateau").fit(X, y)
    monkeypatch.setattr(fitting, "ENOUGH", 0)
    quick = SecVMClassifier(descent="pegasos", rounds=25, lambda_=1e-2, random_state=1, stop="plateau").fit(X, y)
    assert quick.state_.to_bytes() == plain.state_.to_bytes()
    assert (quick.n_iter_, quick.kept_round_, quick.two_cycle_) == (plain.n_iter_, plain.kept_round_, plain.two_cycle_)
    assert quick.packages_per_person_ == plain.packages_per_person_
