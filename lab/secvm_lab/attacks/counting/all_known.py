"""Attacks of somebody who knows all but one label.

A10: all others are known, or are the attacker's own devices (n - 1 Sybils).

Whoever knows what all others sent takes it off the counts; what is left is the target's. Plain summation has nothing to
say against it. Under two relays' cover what is left is the target's units and the cover of the honest relay, however
many devices are honest: none need be. The accountant's promise is about just this attacker: it is the strongest one.
Here it makes the likelihood-ratio test with the exact law of the noise, with weights (all zero) under which the target
sends whatever its label is.

The curve is of a relay that adds less than it should. Its last point is no cover at all: both relays are the
attacker's, and nothing is hidden.

A18: many experiments, each with its own small ε, on the same data.

What experiments tell adds up, whoever runs them and whatever they are called. The attacker is A10's, the strongest: it
knows all else. A device without a ledger agrees to each experiment by itself; with one it agrees until their ε together
reach its cap, and refuses the rest.
"""

from __future__ import annotations

import math
from dataclasses import replace

from secvm.participant.consent.ledger import Ledger, Spending
from secvm.participant.consent.policies import Budget, Consent
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import DELTA, Setting, goal_within, scores, spending_of
from secvm_lab.attacks.counting.likelihood import Floats, label_ratio
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc

# ── A10 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: The worst person has all bins; bins that a person does not have tell nothing where all else is known.
SETTING = Setting(people=10_000, bins=20, features=20, rounds=30)
#: Of the honest relay's cover, so much is there.
SHARES = (1.0, 0.6, 0.3, 0.1)


def play_sybil(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
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


SYBIL = Attack(
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
    play=play_sybil,
)


# ── A18 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: One of the experiments: ε = 1 over its rounds.
SHORT = Setting(people=10_000, bins=20, features=20, rounds=2)
EXPERIMENTS = 40
#: The cap of a device's ledger.
CAP = 4.0
_PLACES = (1, 4, 10, 20, 40)


def joined_within(cap: float, each: float) -> int:
    """Experiments that a device joins before its ledger refuses the next."""
    consent = Consent(budget=Budget(epsilon=cap, delta=1.0))
    joined: list[Spending] = []
    while len(joined) < EXPERIMENTS:
        after = [*joined, spending_of(f"experiment {len(joined)}", SHORT.rounds, each)]
        if Ledger(tuple(after)).fits(consent, after[-1].digest) is not None:
            break
        joined = after
    return len(joined)


def play_experiments(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """The value is the one after all experiments that were offered."""
    dice, each = generator(seed, 18, defended=defended), max(1, trials // 2)
    epsilon = SHORT.plan.achieved
    joined = joined_within(CAP, epsilon) if defended else EXPERIMENTS
    rounds = joined * SHORT.rounds
    no, yes = (scores(SHORT, label, each, dice, rounds=rounds)[:, SHORT.rounds - 1 :: SHORT.rounds] for label in (0, 1))
    advance(trials)
    points = [
        Point(str(count), *auc(yes[:, min(count, joined) - 1], no[:, min(count, joined) - 1])) for count in _PLACES
    ]
    composed = SHORT.mechanism(rounds).epsilon(delta=DELTA)
    return Measurement(
        points[-1].value,
        points[-1].ci95,
        2 * each,
        {
            "experiments_offered": EXPERIMENTS,
            "experiments_joined": joined,
            "epsilon_each": epsilon,
            "epsilon_total": joined * epsilon,
            "delta_total": joined * DELTA,
            "cap": CAP,
            # Were all of them planned at once, by somebody who looks at no result before the last.
            "epsilon_composed": composed if math.isfinite(composed) else None,
            "accountant_auc": SHORT.auc_bound(rounds=rounds),
        },
        Curve("experiments offered", tuple(points)),
    )


MANY_EXPERIMENTS = Attack(
    number=18,
    title="many experiments on the same data",
    slug="many-experiments",
    needs="Coordinators that act together, or one with many experiments; they know all but the target's label.",
    steps=("Run many experiments, each with a small ε.", "Add up what all of them say."),
    metric="AUC of the label over all experiments offered",
    chance=0.5,
    defence="One ledger over all experiments: a device refuses when their ε together would exceed its cap.",
    remains="The cap is what is told in the end: at a cap of 4 the label is told apart better than many would like. Who"
    " wipes a device has a new ledger.",
    goal=goal_within(0.9),
    trials=4_000,
    quick_trials=500,
    guess=label_ratio,
    play=play_experiments,
)
