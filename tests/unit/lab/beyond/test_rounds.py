"""A network over rounds: what the tallies decide, what is counted, and what is learnt."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.learning.aggregate.tally import Tally
from secvm_lab.beyond import descent, problems, trial
from secvm_lab.beyond.methods import KINDS, LINEAR, NETWORK, ByPackages
from secvm_lab.beyond.problems import InteractingPeople, Parts
from tests.unit.lab.beyond.networks import some_question

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
