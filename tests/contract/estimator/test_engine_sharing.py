"""Models that share a lane until they part: the same results as each on its own lane, and fewer lanes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm_lab.engine import Engine, Swept, sweep
from secvm_lab.engine.collapsed import collapse
from secvm_lab.engine.company import Company
from tests.unit.learning.helpers import rows_of

#: Thresholds are dense where margins are: 1/2 and 1/4 put people exactly on the margin.
LAMBDAS = ("1e-9", "1e-6", "1/50", "1/10", "1/8", "1/4", "499/1000", "1/2", "501/1000", "1", "8")


def crowd(seed: int, n: int, words: int = 8, bins: int = 30) -> tuple[BinnedRows, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    return rows_of([rng.integers(0, bins - 5 * label, words) for label in labels], bins), labels


def ask(rows: BinnedRows, lambda_: str, averaging: int = 2, weight: int = 1, loss: str = "hinge") -> Experiment:
    rule = Pegasos(lambda_=Fraction(lambda_), averaging=averaging)
    weights = (Fraction(1), Fraction(weight))
    return Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=rule, class_weights=weights, loss=Loss(loss))


def same(one: Swept, other: Swept) -> bool:
    return (
        one.model == other.model
        and one.state.to_bytes() == other.state.to_bytes()
        and np.array_equal(one.cells, other.cells)
        and one.evaluated == other.evaluated
        and one.two_cycle_spells == other.two_cycle_spells
    )


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_sharing_does_not_show_in_any_result(data: st.DataObject) -> None:
    seed, n = data.draw(st.integers(0, 2**32)), data.draw(st.integers(6, 60))
    rows, labels = crowd(seed, n)
    halves = np.random.default_rng(seed).random((n, 2)) < 0.7
    halves[:2] = True
    models = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(LAMBDAS),
                st.sampled_from([1, 2, 5]),
                st.sampled_from([1, 4]),
                st.sampled_from(["hinge", "perceptron"]),
                st.integers(0, 1),
            ),
            min_size=1,
            max_size=24,
        )
    )
    experiments = [ask(rows, *given[:4]) for given in models]
    train = halves[:, [given[4] for given in models]]
    people = collapse(rows) if data.draw(st.booleans()) else rows
    shared, apart = (
        list(sweep(people, labels, experiments, train=train, rounds=12, states=True, share=share))
        for share in (True, False)
    )
    assert len(shared) == len(apart) == len(models)
    assert all(same(a, b) for a, b in zip(shared, apart, strict=True))
    assert all(one.shared_rounds == 0 for one in apart)


def test_models_on_the_margin_part_in_the_round_in_which_their_violators_differ() -> None:
    # Two people with a word each: after round 1 both margins are 1 / (2 λ); at λ = 1/2 nobody violates.
    rows = rows_of([[0], [1]], 2)
    lambdas = ("1/2", "499999/1000000", "500001/1000000", "1/4")
    engine = Engine(rows, np.array([0, 1]), [ask(rows, lam) for lam in lambdas], share=True)
    assert engine.advance().lanes == 1
    report = engine.advance()
    assert report.violators == ((0, 0), (0, 0), (1, 1), (0, 0))
    assert report.lanes == 2
    assert [engine.shared_rounds(k) for k in range(4)] == [0, 2, 1, 2]


def test_a_sweep_over_lambda_and_averaging_costs_few_lanes() -> None:
    rows, labels = crowd(4, 400, words=20, bins=80)
    experiments = [ask(rows, f"1e-{e}", k) for e in range(1, 10) for k in (1, 2, 5)]
    train = np.tile((np.arange(400) % 4 != 0)[:, None], (1, len(experiments)))
    engine = Engine(rows, labels, experiments, train=train, share=True)
    lanes = sum(engine.advance().lanes for _ in range(30))
    assert lanes < 30 * len(experiments) / 5
    assert sum(engine.shared_rounds(k) for k in range(len(experiments))) == 30 * len(experiments) - lanes
    # The smallest λ agree to the end.
    assert engine.state(26).to_bytes() == engine.state(23).to_bytes()


def test_models_that_find_no_room_when_they_part_come_later_and_in_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, labels = crowd(5, 80)
    experiments = [ask(rows, lam) for lam in ("8", "1", "1/2", "1/4", "1/10", "1e-2", "1e-6", "1e-7")]
    apart = list(sweep(rows, labels, experiments, rounds=10, share=False))
    assert len({one.state.to_bytes() for one in apart}) > 4
    engine = Engine(rows, labels, experiments, share=True, room=4)
    reports = [engine.advance() for _ in range(10)]
    assert engine.put_off
    assert reports[-1].lanes == 4
    assert reports[-1].violators[engine.put_off[0]] == (0, 0)
    with pytest.raises(BadInputError, match="put off"):
        engine.state(engine.put_off[0])
    monkeypatch.setattr("secvm_lab.engine.sweeping._MEMORY", 0)
    told: list[tuple[int, int, int]] = []
    narrow = list(sweep(rows, labels, experiments, rounds=10, progress=lambda *now: told.append(now)))
    assert all(same(a, b) for a, b in zip(narrow, apart, strict=True))
    assert told[-1][0] + told[-1][1] == len(experiments)


def test_parts_are_led_by_their_first_model_and_keep_to_the_room() -> None:
    company = Company(["a", "a", "a", "b"])
    rung_of, table, meant = company.rungs([7, 5, 9, 1])
    assert rung_of == [1, 0, 2, 0]
    assert table.tolist() == [[5, 1], [7, 1], [9, 1]]
    assert meant == [0b11, 0b01, 0b01]
    # Of three people the lowest threshold has the first on lane 0, the others all three.
    below, all_three = np.array([0b11, 0b10, 0b00], np.uint16), np.array([1, 1, 1], np.uint16)
    sources, now = company.part([below, all_three, all_three], rung_of, room=3)
    assert sources == [0, 1, 0]
    assert company.lane_of == [0, 2, 0, 1]
    assert now.tolist() == [0b111, 0b011, 0b001]
