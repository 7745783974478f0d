"""``secvm_lab.simulate``: what comes back, and that the same seed comes to the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

import secvm_lab
from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier
from secvm.testing.result import Estimate
from secvm_lab import simulate

PEOPLE = [(["rain", "tea", f"word-{i % 7}"], "north") for i in range(30)] + [
    (["sea", "sand", f"word-{i % 5}"], "south") for i in range(30)
]
PLAIN: dict[str, Any] = {"binning": {"bins": 40}, "budget": 8, "rounds": 6, "privacy": "none"}


def test_result_has_rounds_model_packages_and_privacy(tmp_path: Path) -> None:
    result = simulate(PLAIN, PEOPLE)
    assert [one.number for one in result.rounds] == [1, 2, 3, 4, 5, 6]
    assert all(one.learnt and 30 < sum(one.people.values()) < 60 for one in result.rounds)
    last = result.rounds[-1]
    assert isinstance(last.accuracy, Estimate)
    assert last.accuracy.low <= (last.accuracy.value or 0) <= last.accuracy.high
    assert list(last.recall) == list(last.precision) == list(last.baseline) == ["north", "south"]
    assert result.accuracy == last.accuracy
    assert result.packages == {"per_device_and_round": 8, "sent": 8 * 60 * 6, "cover_per_relay_and_round": 0}
    assert (result.privacy["guarantee"], result.privacy["epsilon"], result.privacy["risk"]) == ("none", None, 1)
    assert result.model.predict([["rain"], ["sand"]]).tolist() == ["north", "south"]
    result.save(tmp_path / "model.secvm")
    assert SecVMClassifier.load(tmp_path / "model.secvm").predict([["tea"]]).tolist() == ["north"]
    assert json.loads(json.dumps(result.to_dict()))["rounds"] == result.rows()
    assert "6 of 6 rounds" in str(result)
    assert "rain" not in repr(result)
    assert repr(result).startswith("<Result: 6 of 6 rounds, 60 devices, accuracy ")


def test_same_seed_same_bytes_and_another_seed_another_model() -> None:
    first, again, other = (simulate(PLAIN, PEOPLE, seed=seed).model_file.to_bytes() for seed in ("a", "a", "b"))
    assert first == again != other


def test_first_rounds_alone_are_those_of_the_whole() -> None:
    assert simulate(PLAIN, PEOPLE, rounds=2).rows() == simulate(PLAIN, PEOPLE).rows()[:2]
    with pytest.raises(BadInputError, match="rounds must be at least 1"):
        simulate(PLAIN, PEOPLE, rounds=0)


@pytest.mark.parametrize(
    ("experiment", "people", "rounds", "sentence"),
    [
        (None, PEOPLE, None, "the experiment is a specification"),
        (3, PEOPLE, None, "the experiment is a specification"),
        (PLAIN, None, None, "the people are a file of people"),
        (PLAIN, {"words": []}, None, "the people are a file of people"),
        (PLAIN, PEOPLE, "all", "rounds must be at least 1, a whole number"),
    ],
)
def test_repro_what_is_no_experiment_or_nobody_was_a_traceback(
    experiment: Any, people: Any, rounds: Any, sentence: str
) -> None:
    with pytest.raises(BadInputError, match=sentence):
        simulate(experiment, people, rounds=rounds)


def test_guarantee_is_planned_and_said() -> None:
    asked = {"binning": {"bins": 6}, "features": {"per_participant": 3}, "rounds": 1}
    result = simulate({**asked, "privacy": {"epsilon": 4}}, PEOPLE)
    privacy = result.privacy
    assert (privacy["guarantee"], privacy["epsilon"], privacy["delta"]) == ("formal", 4, 1e-6)
    assert 0.5 < privacy["risk"] < 1
    assert result.packages["cover_per_relay_and_round"] > 0
    assert "epsilon 4 at delta 1e-06 over all rounds" in str(result)


def test_too_few_leave_the_round_and_the_model_as_they_were() -> None:
    result = simulate({**PLAIN, "floor": 61, "people": 1000}, PEOPLE)
    assert not any(one.learnt or one.people for one in result.rounds)
    assert result.accuracy is None
    assert "not counted" in str(result)
    with pytest.raises(BadInputError, match="learnt nothing"):
        _ = result.model


def test_plateau_ends_it_early_as_a_coordinator_would() -> None:
    result = simulate({**PLAIN, "rounds": 40, "early_stopping": {"patience": 2, "at_least": 4}}, PEOPLE)
    assert 4 <= len(result.rounds) < 40
    assert result.notes == ("test results no longer got better: finished early",)


def test_laboratory_has_no_other_names() -> None:
    with pytest.raises(AttributeError):
        secvm_lab.simulated_annealing  # noqa: B018
