"""People's own words counted together: the same verdicts, and the same bytes once they are told apart again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.layout import PEOPLE
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels import lanes as kernels
from secvm_lab.engine import Engine, collapse, sweep
from secvm_lab.engine.collapsed import Collapser, Owners
from tests.unit.learning.helpers import rows_of


def strangers(
    seed: int, n: int, shared: int, own: int, values: tuple[int, ...]
) -> tuple[BinnedRows, NDArray[np.int64]]:
    """People with a few words of a small common stock and up to ``own`` of a large one, where most are alone."""
    rng = np.random.default_rng(seed)
    stock = max(1, 3 * n * own)
    rows = []
    for _ in range(n):
        common = rng.choice(shared, rng.integers(0, shared + 1), replace=False)
        rare = shared + rng.choice(stock, rng.integers(0, own + 1), replace=False)
        rows.append(np.concatenate([common, rare]))
    people, labels = rows_of(rows, shared + stock), rng.integers(0, 2, n)
    return replace(people, values=rng.choice(values, len(people.bins)).astype(np.int32)), labels


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_collapsed_people_give_the_bytes_of_an_unhashed_training(data: st.DataObject) -> None:
    seed, n = data.draw(st.integers(0, 2**32)), data.draw(st.integers(4, 40))
    values = data.draw(st.sampled_from([(1,), (1, 1, 2, 3), (1, 1, 5, 70), (-1, 1)]))
    shared, own = data.draw(st.sampled_from([(6, 5), (1, 9), (8, 0), (3, 40)]))
    rows, labels = strangers(seed, n, shared, own, values)
    train = np.random.default_rng(seed).random((n, 3)) < 0.7
    train[:2] = True
    weights = data.draw(st.sampled_from([(), (Fraction(1), Fraction(4)), (Fraction(1, 3), Fraction(5, 7))]))
    loss = Loss(data.draw(st.sampled_from(["hinge", "perceptron"])))
    experiments = [
        Experiment(
            n_bins=rows.n_bins,
            labels=("n", "p"),
            rule=Pegasos(lambda_=Fraction(lam), averaging=averaging),
            class_weights=weights,
            loss=loss,
        )
        for lam, averaging in zip(("1e-3", "1/2", "7"), (2, 1, 3), strict=True)
    ]
    people, lazy = collapse(rows), data.draw(st.booleans())
    engine = Engine(people, labels, experiments, train=train, lazy=lazy, threads=2)
    seen = []
    for _ in range(8):
        engine.advance()
        seen.append(engine.cells())
    for model, experiment in enumerate(experiments):
        training = OfflineTraining(experiment, kernel="fast")
        test = np.flatnonzero(~train[:, model])
        evaluator = Evaluator(experiment, rows.take(test), kernel="fast")
        for t in range(8):
            training.advance(Population(rows=rows, labels=labels, train=train[:, model]))
            cells = evaluator.cells(aggregate.evaluation_weights(experiment, training.state), labels[test])
            assert np.array_equal(seen[t][model], cells)
        assert engine.state(model).to_bytes() == training.state.to_bytes()


def test_a_word_is_somebodys_own_if_nobody_else_has_it_and_it_counts_one() -> None:
    # Word 1 is shared, 2 is the first person's, 3 too but counts 2, 4 is the second's, 0 and 5 are nobody's.
    people = collapse(rows_of([{1: 1, 2: 1, 3: 2}, {1: 1, 4: 1}, {}], 6))
    assert people.kept.tolist() == [1, 3]
    assert people.own.tolist() == [1, 1, 0]
    assert people.expand(np.array([10, 30]), np.array([20, 40, 99]), 7).tolist() == [0, 10, 20, 30, 40, 0, 7]


def test_people_who_share_nothing_are_trained_all_the_same() -> None:
    rows = rows_of([[0, 1], [2], [3, 4]], 9)
    labels = np.array([0, 1, 0])
    experiment = Experiment(n_bins=9, labels=("n", "p"), rule=Pegasos(lambda_=Fraction(1, 10)))
    engine, training = Engine(collapse(rows), labels, [experiment]), OfflineTraining(experiment)
    for _ in range(6):
        engine.advance()
        training.advance(Population(rows=rows, labels=labels))
    assert engine.state(0).to_bytes() == training.state.to_bytes()


def test_people_who_come_in_chunks_of_any_length_are_the_same_people() -> None:
    rows, labels = strangers(3, PEOPLE + 700, 20, 6, (1, 1, 1, 2))
    experiment = Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=Pegasos())
    owners = Owners(rows.n_bins)
    chunks = [rows.take(np.arange(low, min(low + 300, len(rows)))) for low in range(0, len(rows), 300)]
    for chunk in chunks:
        owners.see(chunk.bins, chunk.values)
    collapser = Collapser(owners, len(rows), (chunks[0].indptr, chunks[0].bins, chunks[0].values))
    for chunk in chunks:
        collapser.add(chunk.indptr, chunk.bins, chunk.values)
    swept = [
        next(sweep(people, labels, [experiment], rounds=5, states=True))
        for people in (collapser.finish(), collapse(rows), rows)
    ]
    assert len({one.state.to_bytes() for one in swept}) == 1


def test_a_counter_that_counted_every_own_word_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = strangers(5, 40, 4, 30, (1,))
    experiment = Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=Pegasos(lambda_=Fraction(1, 10)))
    people = collapse(rows)
    (honest,) = sweep(people, labels, [experiment], rounds=6, states=True)
    true_count = kernels.count_own
    monkeypatch.setattr(kernels, "count_own", lambda *given: [true_count(*given) for _ in range(2)])
    (careless,) = sweep(people, labels, [experiment], rounds=6, states=True)
    assert honest.state.to_bytes() != careless.state.to_bytes()


def test_states_of_collapsed_people_come_when_they_are_asked_for() -> None:
    rows, labels = strangers(6, 30, 4, 5, (1,))
    experiment = Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=Pegasos())
    owners = Owners(rows.n_bins)
    owners.see(rows.bins)
    collapser = Collapser(owners, 30, (rows.indptr, rows.bins, None), write_own=False)
    collapser.add(rows.indptr, rows.bins)
    unnamed = collapser.finish()
    (one,) = sweep(unnamed, labels, [experiment], rounds=2)
    assert one.state.vectors == {}
    with pytest.raises(BadInputError, match="not written down"):
        next(sweep(unnamed, labels, [experiment], rounds=2, states=True))
    with pytest.raises(BadInputError, match="outside the number of bins"):
        owners.see(np.array([rows.n_bins], np.int32))
