"""A18: many experiments, each with its own small ε, on the same data.

What experiments tell adds up, whoever runs them and whatever they are called. The attacker is A10's, the strongest: it
knows all else. A device without a ledger agrees to each experiment by itself; with one it agrees until their ε together
reach its cap, and refuses the rest.
"""

from __future__ import annotations

import math

from secvm.participant.consent.ledger import Ledger, Spending
from secvm.participant.consent.policies import Budget, Consent
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import DELTA, Setting, goal_within, scores, spending_of
from secvm_lab.attacks.counting.likelihood import label_ratio
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc

#: One of the experiments: ε = 1 over its rounds.
SETTING = Setting(people=10_000, bins=20, features=20, rounds=2)
EXPERIMENTS = 40
#: The cap of a device's ledger.
CAP = 4.0
_PLACES = (1, 4, 10, 20, 40)


def joined_within(cap: float, each: float) -> int:
    """Experiments that a device joins before its ledger refuses the next."""
    consent = Consent(budget=Budget(epsilon=cap, delta=1.0))
    joined: list[Spending] = []
    while len(joined) < EXPERIMENTS:
        after = [*joined, spending_of(f"experiment {len(joined)}", SETTING.rounds, each)]
        if Ledger(tuple(after)).fits(consent, after[-1].digest) is not None:
            break
        joined = after
    return len(joined)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """The value is the one after all experiments that were offered."""
    dice, each = generator(seed, 18, defended=defended), max(1, trials // 2)
    epsilon = SETTING.plan.achieved
    joined = joined_within(CAP, epsilon) if defended else EXPERIMENTS
    rounds = joined * SETTING.rounds
    no, yes = (
        scores(SETTING, label, each, dice, rounds=rounds)[:, SETTING.rounds - 1 :: SETTING.rounds] for label in (0, 1)
    )
    advance(trials)
    points = [
        Point(str(count), *auc(yes[:, min(count, joined) - 1], no[:, min(count, joined) - 1])) for count in _PLACES
    ]
    composed = SETTING.mechanism(rounds).epsilon(delta=DELTA)
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
            "accountant_auc": SETTING.auc_bound(rounds=rounds),
        },
        Curve("experiments offered", tuple(points)),
    )


ATTACK = Attack(
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
    play=play,
)
