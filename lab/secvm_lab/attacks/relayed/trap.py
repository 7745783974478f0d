"""Traps: attacks on a rule. Nobody's dice decide them, so that their outcome is a word: refused by a rule, or succeeds.

Without the rule a try is made against a party that lacks it, as real as it can be made; with it against the product's
own code. Where dice do decide, the share of tries that succeed is told with its interval, as of every attack.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from secvm.errors import SecVMError
from secvm_lab.attacks.attack import Advance, Attack, Goal, Measurement, goal
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import Nothing, View

SUCCEEDS = "succeeds"
METRIC = "share of tries that succeed"


@dataclass(frozen=True, slots=True)
class Tried(View):
    """What the attackers hold after one try: what they wanted, or a refusal."""

    succeeded: bool
    #: How it ended where it did not succeed: by whom or what it was refused, or seen.
    end: str = ""


class Try(Protocol):
    """One try, with dice of its own and an empty folder, against a party that has the rule or lacks it."""

    def __call__(self, dice: random.Random, folder: Path, /, *, defended: bool) -> Tried: ...


def guess(view: Tried, knowing: Nothing) -> bool:
    """Whether they have what they wanted."""
    del knowing
    return view.succeeded


def refused(rule: str, attempt: Callable[[], object]) -> Tried:
    """Refused by this rule if the attempt raises an error of ours; else it succeeded."""
    try:
        attempt()
    except SecVMError:
        return Tried(succeeded=False, end=f"refused by {rule}")
    return Tried(succeeded=True)


def held(end: str, *, succeeded: bool) -> Tried:
    """Succeeded, or ended so."""
    return Tried(succeeded, "" if succeeded else end)


def trap(
    number: int,
    title: str,
    *,
    needs: str,
    steps: tuple[str, ...],
    defence: str,
    remains: str = "",
    aim: Goal | None = None,
    tries: int = 5,
) -> Callable[[Try], Attack[Tried, Nothing, bool]]:
    """Makes a try into an attack: it is tried so often without the rule, and so often with it."""

    def attack(once: Try) -> Attack[Tried, Nothing, bool]:
        def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
            won, ends = 0, Counter[str]()
            for one in range(trials):
                with TemporaryDirectory(prefix="secvm-attack-") as folder:
                    dice = random.Random(f"{seed} {number} {defended} {one}")  # noqa: S311  (a figure that can be had again)
                    found = once(dice, Path(folder), defended=defended)
                if guess(found, Nothing()):
                    won += 1
                else:
                    ends[found.end] += 1
                advance(1)
            usual = SUCCEEDS if won == trials else ends.most_common(1)[0][0]
            outcome = usual if won in (0, trials) else f"succeeds in {won / trials:.3f}, else {usual}"
            return Measurement(won / trials, wilson(won, trials), trials, {"outcome": outcome})

        return Attack(
            number=number,
            title=title,
            slug=title.replace(" ", "-").replace("'", "").replace(",", ""),
            needs=needs,
            steps=steps,
            metric=METRIC,
            chance=0.0,
            defence=defence,
            remains=remains,
            goal=aim or goal(undefended_at_least=1.0, defended_at_most=0.0),
            trials=tries,
            quick_trials=max(1, tries // 10),
            guess=guess,
            play=play,
        )

    return attack
