"""``secvm privacy labels`` and ``secvm privacy plan`` as they are typed."""

import json
import shlex
from typing import Any

import pytest

from secvm.cli.main import run

GAME = "privacy labels --positive 1000 --negative 9000 --features 50 --bins 1000 --zipf 1.1"
PLAN = "privacy plan --participants 100000 --share 0.2 --features 100 --bins 1000 --rounds 10"


def told(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run([*shlex.split(command), "--format", "json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_the_papers_two_worlds_and_its_lemma_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    command = "privacy labels --participants 34615 --features 1826 --bins 95880 --rounds 1"
    content = told(command, capsys)
    assert round(content["lemma3_printed_log10"], 1) == -111188.6
    assert round(content["lemma3_exact_log10"], 1) == -173415.0
    assert content["auc"] == pytest.approx(0.88, abs=0.01)
    assert content["tv"] == pytest.approx(0.60, abs=0.01)
    assert run(shlex.split(command)) == 0
    assert "no protection by itself" in capsys.readouterr().out


def test_the_label_game_is_told_with_the_law_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    content = told(GAME, capsys)
    assert (content["positive"], content["negative"], content["q"]) == (1000, 9000, 1.0)
    assert 0.5 < content["auc"] < 1
    assert content["law_d_prime"] == pytest.approx((1000 / 1000 + 1000 / 9000) ** 0.5)
    assert told(f"{GAME} --thinning q=0.1", capsys)["auc"] < content["auc"]
    assert told(f"{GAME} --cover-variance 50", capsys)["auc"] < content["auc"]
    assert told(f"{GAME} --rounds 3", capsys)["auc"] > told(f"{GAME} --rounds 3 --same-people", capsys)["auc"]


def test_a_plan_goes_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    content = told(PLAN, capsys)
    assert content["auc"] > content["wanted_auc"] == 0.55
    assert content["most_rounds"] < 10
    enough = told(PLAN.replace("100000", str(content["fewest_participants"] * 101 // 100)), capsys)
    assert enough["auc"] <= 0.55
    assert told(f"{PLAN} --thinning q={content['most_q']}", capsys)["auc"] <= 0.55
    assert told(f"{PLAN} --auc 0.9", capsys)["most_rounds"] >= 10


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (PLAN, ["above the wanted 0.55", "not even one round", "no protection by itself", "Only cover"]),
        (PLAN.replace("100000", "100000000"), ["within the wanted 0.55", "all packages may be sent", "at most"]),
        (f"{PLAN} --cover-variance 1e12", ["any number of bins", "2 people at least"]),
        (PLAN.replace("100000", "10"), ["no number of bins is small enough"]),
    ],
)
def test_people_read_what_would_have_to_change(
    command: str, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(command)) == 0
    out = capsys.readouterr().out
    assert [one for one in said if one not in out] == []


@pytest.mark.parametrize(
    "command",
    [
        "privacy labels --features 3 --bins 10",
        "privacy labels --features 3 --bins 10 --positive 5",
        "privacy labels --features 3 --bins 10 --positive 5 --negative 5 --participants 5",
        "privacy labels --features 3 --bins 10 --positive 5 --participants 5",
        "privacy labels --features 3 --bins 10 --participants 5 --zipf 1",
        "privacy labels --features 3 --bins 10 --positive 5 --negative 5 --thinning some",
        "privacy labels --features 30 --bins 10 --positive 5 --negative 5",
        f"{PLAN} --auc 0.3",
        PLAN.replace("0.2", "1"),
    ],
)
def test_what_makes_no_game_is_one_sentence(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)) == 2
    assert capsys.readouterr().err.startswith("secvm: ")
