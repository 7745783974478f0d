"""Attacks on the rules of two relays: each succeeds without its rule and not with it, and words say so.

Few of them throw dice. Those fail by chance with at most 1e-6: limits are five standard errors and more away.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from secvm_lab.attacks.attack import Attack, Measurement, Row, measure
from secvm_lab.attacks.registry import attacks, find
from secvm_lab.attacks.relayed.trap import SUCCEEDS, Tried, trap
from secvm_lab.cli.attack import as_table
from tests.seeds import seed_for

TRAPS = [attack for attack in attacks().values() if attack.number >= 20]
#: Decided by dice, or against everybody.
OTHERS = {"cover-that-leans-in-one-part", "packages-of-a-cell-dropped", "isolated-device", "both-relays-together"}
SURE = [attack for attack in TRAPS if attack.slug not in OTHERS]


@pytest.mark.parametrize("attack", SURE, ids=lambda attack: attack.slug)
def test_an_attack_on_a_rule_succeeds_without_it_and_not_with_it(attack: Attack[Any, Any, Any]) -> None:
    row = measure(attack, trials=1, seed=seed_for(attack.slug))
    assert (row.undefended.value, row.undefended.said) == (1, SUCCEEDS)
    assert row.defended.value == 0
    assert row.defended.said.split()[0] in {"refused", "seen", "foiled", "unopened", "not"}
    assert row.met is True


def test_both_relays_together_succeed_and_the_report_says_so() -> None:
    row = measure(find("both-relays-together"), trials=1, seed=seed_for("both"))
    assert (row.undefended.value, row.defended.value, row.met) == (1, 1, True)
    names, line = as_table([row]).splitlines()
    assert re.split(r"  +", names) == ["attack", "metric", "without", "with the defence", "goal"]
    cells = ["A49 both relays together", row.attack.metric, SUCCEEDS, SUCCEEDS, "met", row.wanted]
    assert re.split(r"  +", line) == cells
    assert "nothing is promised" in row.attack.defence
    # Were it ever held off, the report would have to say something else.
    assert not Row(row.attack, row.undefended, Measurement(0.0, (0.0, 0.5), 1)).met


def test_a_part_that_leans_is_unseen_eight_times_of_nine_and_dropped_packages_hardly_ever() -> None:
    leaning = find("cover-that-leans-in-one-part").measure(200, seed_for("leaning"), defended=True)
    assert 0.75 < leaning.value < 1.0  # 8/9 of 200: missed by chance in 8e-8 of all runs
    dropped = find("packages-of-a-cell-dropped").measure(200, seed_for("dropped"), defended=True)
    assert dropped.value < 0.07  # .01 of 200: missed by chance in 3e-8 of all runs


def test_a_trap_that_a_rule_does_not_catch_is_told() -> None:
    said: dict[str, Any] = {"needs": "Nobody.", "steps": ("Try.",), "defence": "None."}
    broken = trap(99, "broken", **said)(lambda *_, **_kind: Tried(True))
    assert measure(broken, trials=2).met is False
    half = trap(99, "half", **said)(lambda dice, _, *, defended: Tried(not defended or dice.random() < 0.5, "seen"))
    assert measure(half, trials=60).defended.said.startswith("succeeds in 0.")
    assert measure(half, trials=60).met is False


def test_numbers_have_no_gap_and_faults_of_the_review_are_all_there() -> None:
    assert [attack.number for attack in attacks().values()] == list(range(len(attacks())))
    needs = " ".join(attack.needs for attack in TRAPS)
    assert [name for name in (f"(F{n})" for n in range(1, 10)) if name not in needs] == []
