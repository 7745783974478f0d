"""The page of attacks and the lab have the same attacks."""

from __future__ import annotations

import re
from pathlib import Path

from secvm_lab.attacks.registry import attacks

PAGE = (Path(__file__).parents[2] / "docs/attacks.md").read_text(encoding="utf-8")
ROWS = {int(number): rest for number, rest in re.findall(r"^\| A(\d+) \|(.*)$", PAGE, re.MULTILINE)}


def test_every_attack_has_one_row_and_every_row_an_attack() -> None:
    numbers = [int(number) for number in re.findall(r"^\| A(\d+) \|", PAGE, re.MULTILINE)]
    assert numbers == [attack.number for attack in attacks().values()]


def test_the_row_of_both_relays_says_that_they_succeed() -> None:
    _attack, _who, _metric, without, within, defence = (cell.strip() for cell in ROWS[49].strip(" |").split("|"))
    assert (without, within) == ("succeeds", "**succeeds**")
    assert "nothing is promised" in defence


def test_faults_that_an_attack_is_about_stand_in_its_row() -> None:
    for attack in attacks().values():
        for fault in re.findall(r"\(F\d\)", attack.needs):
            assert fault in ROWS[attack.number], attack.name
