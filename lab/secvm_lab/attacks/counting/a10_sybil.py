"""A10: all others are known, or are the attacker's own devices (n - 1 Sybils).

Whoever knows what all others sent takes it off the counts; what is left is the target's. Plain summation has nothing to
say against it. Under two relays' cover what is left is the target's units and the cover of the honest relay, however
many devices are honest: none need be. The accountant's promise is about just this attacker: it is the strongest one.
Here it makes the likelihood-ratio test with the exact law of the noise, with weights (all zero) under which the target
sends whatever its label is.

The curve is of a relay that adds less than it should. Its last point is no cover at all: both relays are the
attacker's, and nothing is hidden.
"""

from __future__ import annotations

import math
from dataclasses import replace

from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import Setting, goal_within, scores
from secvm_lab.attacks.counting.likelihood import Floats, label_ratio
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc

#: The worst person has all bins; bins that a person does not have tell nothing where all else is known.
SETTING = Setting(people=10_000, bins=20, features=20, rounds=30)
#: Of the honest relay's cover, so much is there.
SHARES = (1.0, 0.6, 0.3, 0.1)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Both labels, half of the trials each."""
    dice, each = generator(seed, 10, defended=defended), max(1, trials // 2)

    def found(setting: Setting, plays: int, *, share: float = 1.0, rounds: int | None = None) -> tuple[Floats, Floats]:
        """After the last round: of label yes, of label no."""
        no, yes = (scores(setting, label, plays, dice, share=share, rounds=rounds)[:, -1] for label in (0, 1))
        return yes, no

    if not defended:
        no, yes = (scores(SETTING, label, each, dice, share=0, rounds=1) for label in (0, 1))
        advance(trials)
        value, interval = auc(yes[:, -1], no[:, -1])
        return Measurement(value, interval, 2 * each, {"rounds": 1, "epsilon": None})
    yes, no = found(SETTING, each)
    advance(trials // 2)
    value, interval = auc(yes, no)
    detail: dict[str, int | float | str | bool | None] = {
        "accountant_auc": SETTING.auc_bound(),
        "epsilon": SETTING.plan.achieved,
        "rounds": SETTING.rounds,
    }
    for epsilon in (SETTING.epsilon, 4.0, 8.0):
        other = replace(SETTING, epsilon=epsilon)
        all_rounds = (yes, no) if other == SETTING else found(other, max(1, each // 2))
        # A single round is cheap, and says little: more of them.
        _over_rounds(detail, other, {SETTING.rounds: all_rounds, 1: found(other, 8 * each, rounds=1)})
    points = [Point("100%", value, interval)]
    for share in (*SHARES[1:], 0.0):
        place = f"{share:.0%}" if share else "both relays collude"
        after = found(SETTING, max(1, each // 8), share=share)
        points.append(Point(place, *auc(*after)))
        # JSON has no infinity.
        epsilon = SETTING.epsilon_with(share)
        detail[f"epsilon_if_covered_{share:g}"] = epsilon if math.isfinite(epsilon) else None
    advance(trials - trials // 2)
    return Measurement(
        value, interval, 2 * each, detail, Curve("cover of the honest relay, of what it should add", tuple(points))
    )


def _over_rounds(
    detail: dict[str, int | float | str | bool | None], setting: Setting, found: dict[int, tuple[Floats, Floats]]
) -> None:
    for rounds, both in found.items():
        value, (low, high) = auc(*both)
        place = f"epsilon_{setting.epsilon:g}_rounds_{rounds}"
        detail[f"auc_{place}"] = value
        detail[f"auc_error_{place}"] = (high - low) / 4
        detail[f"accountant_auc_{place}"] = setting.auc_bound(rounds=rounds)


ATTACK = Attack(
    number=10,
    title="Sybil n-1, all others known",
    slug="sybil",
    needs="The coordinator with one of the relays, which know every other participant, or run it; they know the"
    " target's bins and ask for the label.",
    steps=(
        "Publish weights under which the target sends whatever its label is.",
        "Take off what the others sent, and the colluding relay's cover.",
        "Add up the exact log-likelihood ratios of all cells and rounds, participation cells included.",
    ),
    metric="AUC of the label, others known",
    chance=0.5,
    defence="The cover of the other relay: it does not depend on how many others are honest, or there at all.",
    remains="ε = 8 is no protection. Where both relays are the attacker's there is none: a device joins only where it"
    " trusts one of them.",
    goal=goal_within(0.99),
    trials=20_000,
    quick_trials=1_000,
    guess=label_ratio,
    play=play,
)
