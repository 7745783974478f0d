"""A8: a bin that hardly anybody visits, and one who does.

Whether the target has a rare feature (it visited a page that nobody else visits) is read from one cell: a count above
0. The attacker does not know the label, so it looks at both signs. With cover the cell holds the cover's count in any
case, and one unit more in each round of the experiment is all that presence adds.
"""

from __future__ import annotations

import numpy as np

from secvm.privacy.accounting.accountant import Adjacency, delta_of
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import Setting, draw_cover_counts, goal_within, largest_auc, sent_by
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownHabits, look, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

SETTING = Setting(people=10_000, bins=1_000, features=100, rounds=30)
RARE = 0
#: Of people who have the rare bin: one in a million.
SHARE = 1e-6


def guess(view: CoordinatorView, knowing: KnownHabits) -> Floats:
    """How much all rounds speak for the target having the bin, under one label or the other."""
    (place,) = knowing.bins
    share = float(knowing.shares[0])
    told: list[Floats] = []
    for sign, senders in enumerate(knowing.senders):
        table = unit_table(knowing.cover, senders, share)
        said = [look(table, seen.counts[..., 0, place, sign]) for seen in view.rounds]
        told.append(np.sum(said, axis=0))
    found: Floats = np.logaddexp(told[0], told[1])
    return found


def scores(dice: np.random.Generator, setting: Setting, trials: int, *, there: bool, cover: CoverLaw | None) -> Floats:
    """What the attacker makes of many plays, with the target's unit in its cell or without; no other bin is drawn."""
    rounds = setting.rounds if cover is not None else 1
    senders = setting.people // 2
    knowing = KnownHabits((0,), (senders, senders), np.array([SHARE]), cover)
    scored = []
    for label in (0, 1):
        # With the bin, or with another in its place.
        own = sent_by(setting, [RARE if there else RARE + 1], label)[:, RARE : RARE + 1]
        size = (max(1, trials // 2), *own.shape)
        seen = []
        for _ in range(rounds):
            counts = own + dice.binomial(senders, SHARE, size=size)
            if cover is not None:
                counts += draw_cover_counts(dice, cover, size)
            seen.append(RoundSeen(counts=counts))
        scored.append(guess(CoordinatorView(tuple(seen)), knowing))
    return np.concatenate(scored)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Half of the trials with the feature, half without; both labels."""
    dice, each = generator(seed, 8, defended=defended), max(2, trials // 2)
    cover = SETTING.laws[0] if defended else None
    value, interval = auc(*(scores(dice, SETTING, each, there=there, cover=cover) for there in (True, False)))
    advance(trials)
    detail: dict[str, int | float | str | bool | None] = {"people": SETTING.people, "share_of_people": SHARE}
    if defended:
        one = SETTING.mechanism().train.sight(1.0, SETTING.rounds)
        detail |= {
            "accountant_auc": SETTING.auc_bound(Adjacency.ZERO_OUT),
            "accountant_auc_one_cell": largest_auc(lambda e: delta_of([one], e, Adjacency.ZERO_OUT)),
            "epsilon": SETTING.plan.achieved,
            "rounds": SETTING.rounds,
        }
    return Measurement(value, interval, 2 * each, detail)


ATTACK = Attack(
    number=8,
    title="rare bin, sole visitor",
    slug="rare-bin",
    needs="Anybody who reads tallies, and knows a bin that nobody but perhaps the target has.",
    steps=("Look at the two cells of the bin, in every round.",),
    metric="AUC of presence",
    chance=0.5,
    defence="Cover puts hundreds or thousands of packages into every cell.",
    goal=goal_within(0.99, bound="accountant_auc_one_cell"),
    trials=20_000,
    quick_trials=2_000,
    guess=guess,
    play=play,
)
