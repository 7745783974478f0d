"""Random questions to the Python device and to the browser's: both give the same bytes."""

import random
from collections import Counter

from tests.contract.parity import pinning
from tests.contract.parity.channel import compare
from tests.contract.parity.rounds import answer_round, draw_question
from tests.effort import scaled
from tests.seeds import seed_for

ROUNDS = scaled(50, 2_000)
PEOPLE = scaled(50, 500)


def test_rounds_are_the_same_bytes() -> None:
    dice = random.Random(seed_for("parity of rounds"))
    answers = compare("round", (draw_question(dice) for _ in range(ROUNDS)), answer_round)
    # The questions are worth their while: most can be answered, and they differ in what matters.
    given = [answer for answer in answers if "error" not in answer]
    assert len(given) > 0.8 * len(answers)
    steps = Counter("error" in model for answer in given for model in answer["models"])
    assert min(steps[True], steps[False]) > 0
    assert len({answer["digest"] for answer in given}) == len(given)
    assert {answer["cohort"] for answer in given} == {"train", "test"}


def test_people_are_pinned_and_predicted_alike() -> None:
    dice = random.Random(seed_for("parity of pinning"))
    answers = compare("pinning", (pinning.draw_question(dice) for _ in range(PEOPLE)), pinning.answer_pinning)
    assert len([answer for answer in answers if "error" not in answer]) > 0.4 * len(answers)
    sentences = " ".join(answer["error"][1] for answer in answers if "error" in answer)
    assert all(said in sentences for said in ("no features of", "no label for", "none of this experiment's"))
