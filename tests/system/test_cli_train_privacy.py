"""secvm train --epsilon: what it costs is said before it starts, and what would look at people is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secvm.estimator import SecVMClassifier
from tests.conftest import ROOT
from tests.system.conftest import Program

EXAMPLE = ROOT / "examples" / "people.jsonl"
#: Few people: a plan that is quickly made, and protects nobody.
SMALL = "--bins 30 --epsilon 6 --delta 0.001 --contribution 8 --test-fraction 0.25 --seed 1"


def trained(secvm: Program, *more: object) -> dict[str, Any]:
    return secvm.json("train", EXAMPLE, SMALL, *more, quiet=False)


def test_the_cost_is_told_before_it_starts_and_in_the_result(secvm: Program, tmp_path: Path) -> None:
    model = tmp_path / "model.secvm"
    result = trained(secvm, "--out", model)
    privacy = result["privacy"]
    assert privacy["noise"] == "cover"
    assert privacy["epsilon"] == 6
    assert privacy["epsilon_achieved"] <= 6
    assert privacy["epsilon_label"] > privacy["epsilon_achieved"]
    assert privacy["rounds"] == result["rounds"]
    assert privacy["budget_per_device_round"] == 2 + 8 + 1
    assert privacy["relay_packages"] % privacy["parts"] == 0
    assert "gamma" not in privacy
    assert result["descent"] == "swift"
    assert f"each device sends {privacy['budget_per_device_round']} packages a round" in secvm.err
    assert f"each relay adds {privacy['relay_packages']:,} of cover" in secvm.err
    assert "of the length of one person's row" in secvm.err
    # All send alike, and nothing is told of the words that people have.
    assert result["packages_per_person"] == privacy["rounds"] * privacy["budget_per_device_round"]
    assert result["features"] is None
    assert "clipped_share" not in result
    # Cover takes dice of its own, and they are the seed's: the same seed is the same model.
    assert trained(secvm)["accuracy"] == result["accuracy"]
    loaded = SecVMClassifier.load(model)
    assert loaded.values == "one-per-bin"
    assert loaded.experiment_.cover is not None
    assert loaded.experiment_.cover.packages == privacy["relay_packages"]
    assert secvm("evaluate", model, EXAMPLE) == 0


def test_a_trusted_server_runs_the_same_rule_and_rounds(secvm: Program) -> None:
    ours, central = trained(secvm, "--rounds 3 --thinning 2"), trained(secvm, "--rounds 3 --noise central")
    assert ours["rounds"] == central["rounds"] == 3
    assert ours["privacy"]["floor"] == central["privacy"]["floor"]
    assert ours["privacy"]["rho"] == 2
    assert central["privacy"]["noise"] == "central"
    assert "trusted with everybody's rows" in secvm.err
    assert central["thinning"] == "none"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("--descent pegasos", "swift"),
        ("--stop plateau", "plateau"),
        ("--decay 0.1", "leave --decay away"),
        ("--lambda 0.1", "leave --lambda away"),
        ("--class-weight balanced", "balanced"),
        ("--noise loud", "--noise"),
        ("--bins none", "not public"),
        ("--loss pinball", "classes"),
        ("--thinning q=0.5", "--thinning"),
        ("--delta 0", "delta must be a number, greater than 0"),
        ("--epsilon 33", "at most 32"),
        ("--epsilon lots", "--epsilon"),
    ],
)
def test_what_does_not_go_with_a_promise_is_one_sentence(secvm: Program, more: str, sentence: str) -> None:
    assert sentence in secvm.refused("train", EXAMPLE, SMALL, more)


@pytest.mark.parametrize("alone", ["--delta 1e-5", "--contribution 5", "--noise central"])
def test_repro_what_goes_with_epsilon_is_not_ignored_without_it(secvm: Program, alone: str) -> None:
    said = secvm.refused("train", EXAMPLE, "--bins 30 --rounds 1", alone)
    assert f"{alone.split(maxsplit=1)[0]} goes with --epsilon" in said


def test_bins_of_a_person_are_counted_with_all_their_hashes(secvm: Program) -> None:
    assert trained(secvm, "--hashes 2 --rounds 1")["privacy"]["contribution"] == 16
    assert "at most 16 bins of a person" in secvm.err


def test_repro_cover_came_from_a_seed_that_everybody_knows(secvm: Program) -> None:
    asked = "--bins 30 --epsilon 6 --delta 0.001 --contribution 8 --rounds 1"
    one, other = (secvm.json("train", EXAMPLE, asked, quiet=False) for _ in range(2))
    assert one["seed"] is other["seed"] is None
    assert one["salt"] != other["salt"]
    assert secvm.json("train", EXAMPLE, asked, "--seed 1", quiet=False)["seed"] == 1
    assert "whoever knows --seed can take the noise away" in secvm.err


def test_a_delta_above_one_in_all_people_is_said(secvm: Program) -> None:
    trained(secvm, "--delta 0.5 --rounds 1")
    assert "delta = 0.5 is more than one in" in secvm.err


def test_an_epsilon_that_is_no_protection_is_called_so(secvm: Program) -> None:
    trained(secvm, "--epsilon 12 --rounds 20")
    assert "no protection" in secvm.err
