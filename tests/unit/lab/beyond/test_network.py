"""One person's part of a network, its quick twin and its gradient; and a network over rounds: what the tallies decide,
what is counted, and what is learnt.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice
from secvm.learning.rows import BinnedRows
from secvm_lab.beyond import descent, problems, trial
from secvm_lab.beyond.crowds import Crowd, predict
from secvm_lab.beyond.methods import KINDS, LINEAR, NETWORK, ByPackages, losses, mean_update, passes, unit_rows
from secvm_lab.beyond.network import MOST, ONE, Bounds, Question, Shape, quantised
from secvm_lab.beyond.problems import InteractingPeople, Parts
from tests.rigs.network_device import entries, forward, packages

BINS = 12


def some_rows(rng: np.random.Generator, n: int, *, largest: int = 3, empty: bool = True) -> BinnedRows:
    """People with some bins each, values of both signs."""
    dense = rng.integers(-largest, largest + 1, (n, BINS)) * (rng.random((n, BINS)) < 0.5)
    if not empty:
        dense[:, 0] = 1
    people, bins = np.nonzero(dense)
    indptr = np.searchsorted(people, np.arange(n + 1)).astype(np.int64)
    return BinnedRows(indptr, bins.astype(np.int32), dense[people, bins].astype(np.int32), BINS)


def vector(rows: BinnedRows, i: int) -> BinnedVector:
    row = slice(rows.indptr[i], rows.indptr[i + 1])
    return BinnedVector(dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True)), rows.n_bins)


def some_question(n_labels: int, hidden: int = 4) -> Question:
    return Question(Shape(BINS, hidden, n_labels), Bounds(0.3, 0.8, 1.5, 2.0))


def some_weights(rng: np.random.Generator, question: Question, *, coarse: bool = False) -> NDArray[np.int32]:
    """Weights; coarse ones are multiples of a half, so that scores land exactly on margins and kinks."""
    drawn = rng.normal(0.0, 0.7, question.shape.n_parameters)
    return quantised(np.rint(2 * drawn) / 2 if coarse else drawn)


def package_by_package(
    question: Question,
    weights: NDArray[np.int32],
    rows: BinnedRows,
    labels: NDArray[np.int64],
    seed: bytes,
    round_: int,
) -> Tally:
    """A round as devices have it."""
    shape = question.shape
    tally = Tally.empty(n_models=1, n_bins=shape.n_parameters - 1, n_labels=shape.n_labels)
    for i, label in enumerate(labels.tolist()):
        dice = UnsafeSeededDice(seed, i)
        tally = tally.count(packages(question, weights, vector(rows, i), label, dice=dice, round_number=round_))
    return tally


# ── the quick twin ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 2**32), st.integers(2, 4), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_quick_twin_counts_what_devices_send_also_on_margins_and_kinks(
    seed: int, n_labels: int, coarse: bool
) -> None:
    rng = np.random.default_rng(seed)
    question = some_question(n_labels)
    rows, labels = some_rows(rng, 12, largest=2 if coarse else 9), rng.integers(0, n_labels, 12)
    weights = some_weights(rng, question, coarse=coarse)
    tally, _ = Crowd(question, rows, labels, seed=b"twins").tally(weights, 5, threads=1 + seed % 3)
    slow = package_by_package(question, weights, rows, labels, b"twins", 5)
    assert np.array_equal(tally.plus, slow.plus)
    assert np.array_equal(tally.minus, slow.minus)


def test_the_quick_twin_sees_the_same_scores_and_counts_clipped_entries() -> None:
    rng = np.random.default_rng(3)
    for n_labels in (2, 5):
        question = some_question(n_labels)
        rows, labels = some_rows(rng, 30), rng.integers(0, n_labels, 30)
        weights = some_weights(rng, question)
        slow = [forward(question, weights, vector(rows, i)).scores for i in range(30)]
        models = question.shape.models
        assert predict(question.shape, weights, rows).tolist() == models.predict(np.array(slow)).tolist()
        _, seen = Crowd(question, rows, labels, seed=b"").tally(weights, 1)
        every = [list(entries(question, weights, vector(rows, i), int(labels[i]))) for i in range(30)]
        assert seen.violators == sum(bool(mine) for mine in every)
        assert seen.entries == sum(map(len, every))
        assert seen.clipped == sum(entry.clipped for mine in every for entry in mine) > 0
        assert seen.people_clipped == sum(any(entry.clipped for entry in mine) for mine in every)


def test_exactly_on_margin_and_kink_nothing_is_sent() -> None:
    question = Question(Shape(1, 1), Bounds())
    person = BinnedVector({0: 1}, 1)
    weights = np.array([ONE, 0, ONE, 0], dtype=np.int32)  # z = 1, s = 1: on the margin
    assert list(entries(question, weights, person, 1)) == []
    weights[2] -= 1
    assert len(list(entries(question, weights, person, 1))) == 4
    weights[0] = 0  # z = 0: on the kink, only the output bias moves
    assert [entry.parameter for entry in entries(question, weights, person, 1)] == [3]


# ── ternarisation ────────────────────────────────────────────────────────────────────────────────────────────────────


class Enumerated:
    """Dice whose words are given, one for each (model, index)."""

    def __init__(self, words: dict[tuple[int, int], int]) -> None:
        self._words = words

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:
        return [self._words.get((model, i), 0) for i in range(count)]


def test_ternarised_entries_are_exactly_right_on_average() -> None:
    """All outcomes of coins with eight sides, in a network whose chances are multiples of an eighth."""
    question = Question(Shape(1, 1), Bounds(words=1.0, hidden_biases=2.0, outputs=4.0, output_biases=1.0))
    weights = quantised(np.array([1.5, 0.0, -0.5, 0.25]))  # z = 1.5, s = -0.5: violates as label 1
    person = BinnedVector({0: 1}, 1)
    meant = {entry.parameter: Fraction(entry.value) for entry in entries(question, weights, person, 1)}
    assert meant == {0: Fraction(-1, 2), 1: Fraction(-1, 2), 2: Fraction(3, 2), 3: Fraction(1)}
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    totals = dict.fromkeys(meant, 0)
    for sides in itertools.product(range(8), repeat=4):
        dice = Enumerated({place: side << 61 for place, side in zip(places, sides, strict=True)})
        for package in packages(question, weights, person, 1, dice=dice, round_number=1):
            totals[package.bin_index] += package.sign
    means = {p: Fraction(question.bounds.each[p]) * Fraction(total, 8**4) for p, total in totals.items()}
    assert means == meant


def test_a_person_names_a_parameter_once_at_most() -> None:
    rng = np.random.default_rng(8)
    question = some_question(3)
    rows, weights = some_rows(rng, 1, largest=9, empty=False), some_weights(rng, question)
    tally, _ = Crowd(question, rows, np.array([1]), seed=b"once").tally(weights, 1)
    both = tally.plus + tally.minus
    assert 0 < both.sum() <= question.shape.touched(len(rows.bins))
    assert both.max() == 1


# ── the gradient ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n_labels", [2, 4])
def test_the_update_is_minus_the_gradient_by_finite_differences(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    question = some_question(n_labels)
    rows, labels = some_rows(rng, 40, empty=False), rng.integers(0, n_labels, 40)
    x = unit_rows(rows)
    parameters = rng.normal(0.0, 0.7, question.shape.n_parameters)
    z, _ = passes(question.shape, parameters, x)
    nearest = np.sort(np.abs(losses(question, parameters, x, labels) - 0.0))
    assert np.abs(z).min() > 1e-4  # nobody near a kink …
    assert not np.any((nearest > 0) & (nearest < 1e-4))  # … or a margin
    found = mean_update(question, parameters, x, labels)
    for p in range(question.shape.n_parameters):
        moved = np.zeros_like(parameters)
        moved[p] = 1e-6
        above, below = (losses(question, parameters + side * moved, x, labels).sum() for side in (1, -1))
        assert found[p] == pytest.approx(-(above - below) / 2e-6 / 40, abs=1e-6)


@pytest.mark.parametrize("n_labels", [2, 4])
def test_a_device_in_integers_computes_that_update(n_labels: int) -> None:
    rng = np.random.default_rng(10 + n_labels)
    question = some_question(n_labels)
    rows, labels = some_rows(rng, 20, empty=False), rng.integers(0, n_labels, 20)
    weights = some_weights(rng, question)
    total = np.zeros(question.shape.n_parameters)
    for i in range(20):
        for entry in entries(question, weights, vector(rows, i), int(labels[i])):
            total[entry.parameter] += entry.value
    real = mean_update(question, weights / ONE, unit_rows(rows), labels)
    assert total / 20 == pytest.approx(real, abs=1e-4)  # activations are floored to 2^-16


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_parameter_has_one_number() -> None:
    shape = Shape(BINS, 3, 4)
    blocks = shape.blocks(np.arange(shape.n_parameters))
    assert [block.shape for block in blocks] == [(BINS, 3), (3,), (3, 4), (4,)]
    assert np.concatenate([block.ravel() for block in blocks]).tolist() == list(range(shape.n_parameters))
    assert Bounds(1.0, 2.0, 3.0, 4.0).per_parameter(shape).tolist() == [1.0] * 36 + [2.0] * 3 + [3.0] * 12 + [4.0] * 4


def test_served_weights_stay_in_range_and_round_half_to_even() -> None:
    assert quantised(np.array([99.0, -99.0, 0.5 / ONE, 1.5 / ONE])).tolist() == [MOST, -MOST, 0, 2]


def test_dice_name_so_many_units_and_outputs_and_no_more() -> None:
    assert Shape(10, 16, 4_080).n_parameters > 0
    with pytest.raises(BadExperimentError, match="no dice"):
        Shape(10, 16, 4_081)


def test_the_quick_twin_refuses_what_64_bits_cannot_hold_and_is_right_just_below() -> None:
    question = some_question(2)
    weights = some_weights(np.random.default_rng(1), question)

    def person(value: int) -> BinnedRows:
        return BinnedRows(np.array([0, 1]), np.array([3], np.int32), np.array([value], np.int32), BINS)

    with pytest.raises(BadInputError, match="too large"):
        Crowd(question, person(1 << 15), np.array([1]), seed=b"")
    large = person((1 << 15) - 1)
    tally, _ = Crowd(question, large, np.array([1]), seed=b"").tally(weights, 1)
    slow = package_by_package(question, weights, large, np.array([1]), b"", 1)
    assert np.array_equal(tally.plus, slow.plus)
    assert np.array_equal(tally.minus, slow.minus)


ROUNDS = 4


def trained() -> tuple[ByPackages, list[int]]:
    rows, labels = InteractingPeople(n_people=60).made(1)
    way = ByPackages(rows, labels, 2, 4, b"seed", bound=0.5)
    return way, [way.advance() for _ in range(ROUNDS)]


def test_replaying_the_tallies_gives_the_same_bytes() -> None:
    way, _ = trained()
    again = descent.replay(way.question, way.rule, b"seed", way.tallies)
    assert again.to_bytes() == way.state.to_bytes()
    for seed, tallies in ((b"seed", way.tallies[:-1]), (b"other", way.tallies)):
        assert descent.replay(way.question, way.rule, seed, tallies).to_bytes() != way.state.to_bytes()


def test_packages_counted_are_the_sum_of_the_tallies_and_participants_are_everybody() -> None:
    way, sent = trained()
    assert sent == [int(tally.plus.sum() + tally.minus.sum()) for tally in way.tallies]
    assert min(sent) > 0
    assert all(tally.participants.sum() == 60 for tally in way.tallies)


def test_a_direction_is_over_everybody_who_took_part() -> None:
    question = some_question(2)
    n = question.shape.n_parameters
    nobody = Tally.empty(n_models=1, n_bins=n - 1, n_labels=2)
    with pytest.raises(BadInputError, match="nobody"):
        descent.direction(question, nobody)
    tally = replace(nobody, plus=np.full((1, n), 12), participants=np.array([4, 4]))
    assert descent.direction(question, tally) == pytest.approx(12 * question.bounds.per_parameter(question.shape) / 8)


STEPS = """
import hashlib
import numpy as np
from secvm_lab.beyond import descent
from secvm_lab.beyond.network import Question, Shape
question, rule = Question(Shape(50, 7)), descent.Step()
state = descent.start(question, rule, b"cpu")
for t in range(30):
    state = descent.step(rule, state, np.sin(np.arange(question.shape.n_parameters) * (t + 1.0)).round(3))
print(hashlib.sha256(state.to_bytes()).hexdigest())
"""


def test_steps_do_not_depend_on_what_the_cpu_can_do() -> None:
    found = set()
    for disabled in ("", "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NPY_DISABLE_CPU_FEATURES": disabled}
        code = [sys.executable, "-P", "-W", "ignore", "-c", STEPS]
        found.add(subprocess.run(code, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1
    assert len(found.pop().strip()) == 2 * hashlib.sha256().digest_size


def test_a_network_learns_an_interaction_that_no_linear_model_can() -> None:
    problem = problems.interactions(1500, 3)
    linear, network = trial.compare(problem, splits=1, rounds=40, seed=2, kinds=(LINEAR, NETWORK))
    assert linear.accuracy.value < 0.58
    assert network.accuracy.value > 0.8
    assert network.packages is not None
    assert network.packages.value == network.runs[0].packages[network.runs[0].chosen - 1] > 0


def test_a_trial_tells_every_way_beside_the_linear_one() -> None:
    problem = problems.words(200, 1)
    done: list[int] = []
    outcomes = trial.compare(problem, splits=2, rounds=3, seed=1, advance=done.append)
    told = trial.told(problem, outcomes)
    assert sum(done) == 2 * len(KINDS)
    ways = told["ways"]
    assert isinstance(ways, dict)
    assert list(ways) == [kind.name for kind in KINDS]
    assert ways["linear"]["ahead_of_linear"] is None
    assert ways["network, real-valued"]["packages_per_person"] is None
    assert len(ways["network, packages"]["curve"]) == 3


def test_nobody_who_chooses_or_tests_trains() -> None:
    parts = Parts.drawn(100, b"parts")
    everybody = np.concatenate([parts.train, parts.choose, parts.test])
    assert [len(parts.train), len(parts.choose), len(parts.test)] == [60, 20, 20]
    assert sorted(everybody.tolist()) == list(range(100))


def test_interacting_people_say_nothing_with_one_word_alone() -> None:
    """False-alarm rate 1e-3: of 120 words the largest difference of shares stays below 4.3 standard deviations."""
    people = InteractingPeople(n_people=4000, label_noise=0.0)
    rows, labels = people.made(4)
    dense = np.zeros((4000, people.n_words))
    dense[np.repeat(np.arange(4000), np.diff(rows.indptr)), rows.bins] = 1
    telling = dense[:, : 4 * people.half]
    gap = telling[labels == 1].mean(axis=0) - telling[labels == 0].mean(axis=0)
    share = telling.mean(axis=0)
    limit = 4.3 * np.sqrt(share * (1 - share) * (1 / (labels == 1).sum() + 1 / (labels == 0).sum()))
    assert np.all(np.abs(gap) < limit)
    first, second = dense[:, : people.half].any(axis=1), dense[:, 2 * people.half : 3 * people.half].any(axis=1)
    assert np.array_equal(first ^ second, labels == 1)
