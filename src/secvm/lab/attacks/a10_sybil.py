"""A10: all others are known, or are the attacker's own devices (n - 1 Sybils).

Whoever knows what all others sent takes it off the counts; what is left is the target's. Plain summation has nothing to
say against it. Under cover what is left is the target's units and the cover of all *honest* devices: known people whose
devices are honest still cover, Sybils do not. So cover is made for a share γ of honest devices, and the accountant's
promise is about just this attacker: it is the strongest one. Here it makes the likelihood-ratio test with the exact law
of the noise, with weights (all zero) under which the target sends whatever its label is.

The last point of the curve is a device that is alone among Sybils: there no parameter helps. A device cannot count
honest others; it can only refuse experiments whose ε under its *own* floor of honest participants is above its limit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from secvm.lab.attacks.all_else_known import drawn_scores, scores
from secvm.lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm.lab.attacks.covered import Setting, goal_within
from secvm.lab.attacks.dice import generator
from secvm.lab.attacks.knowledge import KnownRest
from secvm.lab.attacks.likelihood import Floats, label_ratio
from secvm.lab.attacks.statistics import auc
from secvm.lab.attacks.views import CoordinatorView

#: The worst person has all bins; bins that a person does not have tell nothing where all else is known.
SETTING = Setting(people=10_000, bins=20, features=20, rounds=30, gamma=Fraction(1, 2))
#: A world small enough to draw every package of every device.
SMALL = Setting(people=8, bins=3, features=3, rounds=1, epsilon=2.0, shape=30)
#: Honest devices, as shares of those the cover was made for.
SHARES = (1.0, 0.6, 0.3, 0.1)


def guess(view: CoordinatorView, knowing: KnownRest) -> Floats:
    """How much the counts speak for the second label: the logarithm of the likelihood ratio."""
    return label_ratio(view, knowing)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Both labels, half of the trials each."""
    dice, each = generator(seed, 10, defended=defended), max(1, trials // 2)

    def found(setting: Setting, plays: int, *, honest: int, rounds: int | None = None) -> tuple[Floats, Floats]:
        """After the last round: of label yes, of label no."""
        no, yes = (scores(setting, label, plays, dice, honest=honest, rounds=rounds)[:, -1] for label in (0, 1))
        return yes, no

    if not defended:
        no, yes = (scores(SETTING, label, each, dice, honest=0, covered=False, rounds=1) for label in (0, 1))
        advance(trials)
        value, interval = auc(yes[:, -1], no[:, -1])
        return Measurement(value, interval, 2 * each, {"rounds": 1, "epsilon": None})
    yes, no = found(SETTING, each, honest=SETTING.honest)
    advance(trials // 2)
    value, interval = auc(yes, no)
    detail: dict[str, int | float | str | bool | None] = {
        "accountant_auc": SETTING.auc_bound(),
        "epsilon": SETTING.plan.achieved,
        "rounds": SETTING.rounds,
    }
    for epsilon in (SETTING.epsilon, 4.0, 8.0):
        other = replace(SETTING, epsilon=epsilon)
        all_rounds = (yes, no) if other == SETTING else found(other, max(1, each // 2), honest=other.honest)
        # A single round is cheap, and says little: more of them.
        _over_rounds(
            detail, other, {SETTING.rounds: all_rounds, 1: found(other, 8 * each, honest=other.honest, rounds=1)}
        )
    points = [Point("100%", value, interval)]
    for share in (*SHARES[1:], 0.0):
        honest = max(1, math.floor(share * SETTING.honest))
        place = f"{share:.0%}" if share else "the target alone"
        after = found(SETTING, max(1, each // 8), honest=honest)
        points.append(Point(place, *auc(*after)))
        # JSON has no infinity.
        epsilon = SETTING.epsilon_with(honest)
        detail[f"epsilon_if_honest_{share:g}"] = epsilon if math.isfinite(epsilon) else None
    _all_drawn(detail, max(1, each // 8), dice)
    advance(trials - trials // 2)
    return Measurement(value, interval, 2 * each, detail, Curve("honest devices, of those assumed", tuple(points)))


def _over_rounds(
    detail: dict[str, int | float | str | bool | None], setting: Setting, found: dict[int, tuple[Floats, Floats]]
) -> None:
    for rounds, both in found.items():
        value, (low, high) = auc(*both)
        place = f"epsilon_{setting.epsilon:g}_rounds_{rounds}"
        detail[f"auc_{place}"] = value
        detail[f"auc_error_{place}"] = (high - low) / 4
        detail[f"accountant_auc_{place}"] = setting.auc_bound(rounds=rounds)


def _all_drawn(detail: dict[str, int | float | str | bool | None], each: int, dice: np.random.Generator) -> None:
    value, (low, high) = auc(drawn_scores(SMALL, 1, each, dice), drawn_scores(SMALL, 0, each, dice))
    summed, _ = auc(*(scores(SMALL, label, 8 * each, dice, honest=SMALL.people)[:, 0] for label in (1, 0)))
    detail |= {
        "auc_all_packages_drawn": value,
        "auc_error_all_packages_drawn": (high - low) / 4,
        "auc_cover_drawn_at_once": summed,
        "accountant_auc_all_packages_drawn": SMALL.auc_bound(),
    }


ATTACK = Attack(
    number=10,
    title="Sybil n-1, all others known",
    slug="sybil",
    needs="The coordinator, which knows every other participant, or runs it; it knows the target's bins and asks for"
    " the label.",
    steps=(
        "Publish weights under which the target sends whatever its label is.",
        "Take off what the others sent.",
        "Add up the exact log-likelihood ratios of all cells and rounds, participation cells included.",
    ),
    metric="AUC of the label, others known",
    chance=0.5,
    defence="Cover, made for the share γ of honest devices; a device computes ε under its own floor of honest"
    " participants and refuses what is above its limit.",
    remains="ε = 8 is no protection, nor is any ε where fewer are honest than was assumed: a device alone among Sybils"
    " is known. Tokens bind outsiders, not a coordinator that mints them.",
    goal=goal_within(0.99),
    trials=20_000,
    quick_trials=1_000,
    guess=guess,
    play=play,
)
