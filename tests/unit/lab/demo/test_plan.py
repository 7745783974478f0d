"""What a demonstration is asked for, and its people."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm_lab.demo.crowd import binned, from_file, made_up
from secvm_lab.demo.plan import EPSILON, Plan


def test_without_numbers_there_are_those_that_go_with_cover_or_without() -> None:
    plain, covered = Plan(), Plan(epsilon=EPSILON)
    assert (plain.participants, plain.rounds, plain.bins, plain.vocabulary_size) == (340, 8, 400, 0)
    assert (covered.participants, covered.rounds, covered.bins, covered.vocabulary_size) == (2_000, 1, 40, 40)
    assert (plain.train_share, covered.train_share) == (Fraction(7, 10), Fraction(9, 10))
    assert Plan(epsilon=1.0, participants=50, rounds=3, bins=8).vocabulary_size == 8


def test_the_papers_rule_goes_with_plain_alone() -> None:
    assert Plan(descent="pegasos").descent == "pegasos"
    with pytest.raises(BadInputError, match="--descent pegasos goes with --plain"):
        Plan(descent="pegasos", epsilon=1.0)


def test_with_cover_the_coordinator_plans_all_that_depends_on_noise() -> None:
    plan, crowd = Plan(epsilon=1.0, participants=30, bins=5), made_up(30, seed=1, further=5, vocabulary_size=5)
    assert crowd.vocabulary is not None
    told = plan.specification(crowd)
    assert told["descent"] == {"rule": "swift"}
    assert "budget" not in told
    assert told["binning"] == {"bins": 5, "vocabulary": crowd.vocabulary.digest}
    assert told["privacy"] == {"epsilon": "1.0", "delta": "1e-05"}
    assert (told["people"], told["features"]["per_participant"]) == (30, 12)


def test_a_plain_one_is_hashed_and_brings_its_own_budget() -> None:
    plan, crowd = Plan(participants=30), made_up(30, seed=1, further=5)
    assert crowd.vocabulary is None
    told = plan.specification(crowd)
    assert (told["budget"], told["binning"]["bins"]) == (plan.experiment(crowd).budget, 400)
    assert told["descent"] == {"rule": "swift", "thinning": "3/2", "step_size": "5"}
    assert "privacy" not in told


def test_the_vocabulary_has_hosts_and_people_have_nothing_else() -> None:
    crowd, everything = made_up(20, seed=2, further=3, vocabulary_size=6), made_up(20, seed=2, further=3)
    assert crowd.vocabulary is not None
    assert crowd.vocabulary.n_bins == 6
    assert all(word.startswith("host:") for word in crowd.vocabulary.words)
    for person, whole in zip(crowd.features, everything.features, strict=True):
        on_it = {name for name in whole if name in crowd.vocabulary.index}
        # Who has nothing of it keeps what is in no bin.
        assert set(person) == (on_it or set(whole))
    rows = binned(crowd.features, crowd.vocabulary, one_per_bin=True)
    assert rows.n_bins == 6


def test_a_files_vocabulary_comes_from_people_who_neither_take_part_nor_measure(tmp_path: Path) -> None:
    lines = [json.dumps({"label": "ab"[n % 2], "features": ["everybody", f"own-{n}"]}) for n in range(100)]
    (tmp_path / "people.jsonl").write_text("\n".join(lines) + "\n")
    crowd, plain = (from_file(tmp_path / "people.jsonl", 50, seed=3, vocabulary_size=size) for size in (3, 0))
    assert crowd.vocabulary is not None
    first, *others = crowd.vocabulary.words
    assert first == "everybody"
    assert len(crowd.further_features) == len(plain.further_features) - 4
    had = {name for person in [*crowd.features, *crowd.further_features] for name in person}
    assert not had & set(others)


def test_a_file_with_too_few_people_for_a_vocabulary_is_refused(tmp_path: Path) -> None:
    lines = [json.dumps({"label": "ab"[n % 2], "features": ["x"]}) for n in range(10)]
    (tmp_path / "people.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInputError, match="2 people are held out, too few to rank a vocabulary by"):
        from_file(tmp_path / "people.jsonl", 5, seed=3, vocabulary_size=3)
