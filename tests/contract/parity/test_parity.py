"""Random questions to the Python device and to the browser's: both give the same bytes."""

from collections import Counter

import pytest

from tests.contract.parity import pinning
from tests.contract.parity.channel import JSON, Channel
from tests.contract.parity.consent import answer_consent, draw_consent
from tests.contract.parity.margins import answer_margin, draw_margin, on_edge
from tests.contract.parity.numbers import answer_numbers, draw_numbers
from tests.contract.parity.rounds import answer_round, draw_question
from tests.contract.parity.sentences import answer_sentences, draw_sentences
from tests.effort import scaled

ROUNDS = scaled(50, 2_000)
MARGINS = scaled(300, 10_000)
NUMBERS = scaled(40, 2_000)
PEOPLE = scaled(40, 500)
SENTENCES = scaled(4, 50)
CONSENTS = scaled(15, 2_000)


def test_rounds_are_the_same_bytes(channel: Channel) -> None:
    answers = channel.compare("round", ROUNDS, draw_question, answer_round)
    # The questions are worth their while: most can be answered, and they differ in what matters.
    given = [answer for answer in answers if "error" not in answer]
    assert len(given) > 0.8 * len(answers)
    steps = Counter("error" in model for answer in given for model in answer["models"])
    assert min(steps[True], steps[False]) > 0
    assert len({answer["digest"] for answer in given}) == len(given)
    assert {answer["cohort"] for answer in given} == {"train", "test"}
    assert {bool(answer["faults"]) for answer in given} == {True, False}


def test_people_are_pinned_and_predicted_alike(channel: Channel) -> None:
    answers = channel.compare("pinning", PEOPLE, pinning.draw_question, pinning.answer_pinning)
    assert len([answer for answer in answers if "error" not in answer]) > 0.4 * len(answers)
    sentences = " ".join(answer["error"][1] for answer in answers if "error" in answer)
    assert all(said in sentences for said in ("no features of", "no label for", "none of this experiment's"))


def test_margins_have_the_same_verdict(channel: Channel) -> None:
    edges = Counter[bool]()

    def answer(question: dict[str, object]) -> dict[str, object]:
        answered = answer_margin(question)
        edges[on_edge(question, answered)] += 1
        return answered

    answers = channel.compare("margin", MARGINS, draw_margin, answer)
    assert edges[True] > 0.1 * len(answers)
    assert any(abs(answer["score"]) > 2**52 for answer in answers)
    sent = Counter(answer["update"] is not None for answer in answers)
    assert min(sent[True], sent[False]) > 0.1 * len(answers)


def test_numbers_are_the_same(channel: Channel) -> None:
    answers = channel.compare("numbers", NUMBERS, draw_numbers, answer_numbers)
    for name in ("loss", "thinning", "fixed", "divided"):
        refused = Counter("error" in answer[name] for answer in answers)
        assert min(refused[True], refused[False]) > 0, name


def test_sentences_are_said_alike(channel: Channel) -> None:
    channel.compare("sentences", SENTENCES, draw_sentences, answer_sentences)


@pytest.mark.takes(minutes=25)
def test_what_is_told_agreed_to_and_counted_is_the_same(channel: Channel) -> None:
    answers = channel.compare("consent", CONSENTS, draw_consent, answer_consent)
    told = [each for answer in answers for each in answer["told"]]
    # Guarantees of every kind: none by the operators, none by the noise, and real ones.
    worth = Counter(_worth(each["statement"]["own"]) for each in told if "statement" in each)
    assert min(worth[kind] for kind in ("none", "faint", "guarantee")) > 0.05 * worth.total()
    verdicts = Counter(each["check"] is None for each in told)
    assert min(verdicts[True], verdicts[False]) > 0.1 * verdicts.total()
    rounds = Counter(verdict is None for answer in answers for verdict in answer["counted"])
    assert min(rounds[True], rounds[False]) > 0.1 * rounds.total()


def _worth(own: JSON | None) -> str:
    return "none" if own is None else "faint" if own["epsilon"] is None else "guarantee"
