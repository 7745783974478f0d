"""A12: the same round twice, once with the target and once without: the difference is the target.

The coordinator opens two rounds with the same weights and keeps the target from the second (it answers its fetch late,
or waits until the device is off). The same other people send the same packages. Plain tallies differ by just the
target's packages. With the defence every round has new cover, which does not go away by subtraction.

The attacker does not know the others, but knows that they are the same, and how popular bins are: the first round is
judged given the second, by normal laws with their exact means and variances. (Cover of thousands of packages in a cell
is close to normal; A10 has the exact law where all else is known.)
"""

from __future__ import annotations

import numpy as np

from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.a11_intersection import habits
from secvm_lab.attacks.counting.covered import Setting, batches, draw_cover_counts, goal_within
from secvm_lab.attacks.counting.likelihood import Counts, CoverLaw, Floats, KnownHabits, look, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

SETTING = Setting(people=5_000, bins=200, features=20, rounds=2)
_BATCH, _TARGETS = 500, 20


def guess(view: CoordinatorView, knowing: KnownHabits) -> Floats:
    """How much two rounds, with and without the target, speak for the second label."""
    first, second = (seen.counts[..., 0, :, :] for seen in view.rounds)
    places = [*knowing.bins, -1]
    if knowing.cover is None:
        told = look(unit_table(None), (first - second)[..., places, :]).sum(axis=-2)
    else:
        told = _given(first, second, knowing, knowing.cover, places)
    found: Floats = told[..., 1] - told[..., 0]
    return found


def _given(first: Counts, second: Counts, knowing: KnownHabits, cover: CoverLaw, places: list[int]) -> Floats:
    """The normal law's score of a unit more in the first round, the second being known."""
    mean, noise = cover.mean, cover.variance
    shares = np.append(knowing.shares, 1.0)[places][:, None]
    senders = np.array(knowing.senders)
    people = senders * shares * (1 - shares)
    expected, alike = mean + senders * shares, people / (noise + people)
    variance = (noise + people) * (1 - alike**2)
    beyond = (first[..., places, :] - expected) - alike * (second[..., places, :] - expected) - 0.5
    found: Floats = (beyond / variance).sum(axis=-2)
    return found


def scores(dice: np.random.Generator, setting: Setting, trials: int, *, covered: bool) -> tuple[Floats, Floats]:
    """Of label yes, of label no; several targets."""
    cover = setting.laws[0] if covered else None
    found: dict[int, list[Floats]] = {0: [], 1: []}
    each = max(1, trials // (2 * _TARGETS))
    for _ in range(_TARGETS):
        knowing = habits(dice, setting, cover)
        for label in (0, 1):
            own = np.zeros((1, setting.bins + 1, 2), dtype=np.int64)
            own[0, [*knowing.bins, -1], label] = 1
            for plays in batches(each, _BATCH):
                size = (plays, *own.shape)
                others = np.empty(size, dtype=np.int64)
                for sign, senders in enumerate(knowing.senders):
                    others[:, 0, :-1, sign] = dice.binomial(senders, knowing.shares, size=(plays, setting.bins))
                    others[:, 0, -1, sign] = senders
                seen = [others + own, others]
                if cover is not None:
                    seen = [counts + draw_cover_counts(dice, cover, size) for counts in seen]
                view = CoordinatorView(tuple(RoundSeen(counts=counts) for counts in seen))
                found[label].append(guess(view, knowing))
    return np.concatenate(found[1]), np.concatenate(found[0])


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Pairs of rounds."""
    yes, no = scores(generator(seed, 12, defended=defended), SETTING, trials, covered=defended)
    advance(trials)
    detail: dict[str, int | float | str | bool | None] = {"rounds": 2}
    if defended:
        # In the second round the target sends nothing in either world: one round's promise is the sharper one.
        detail |= {
            "accountant_auc": SETTING.auc_bound(rounds=1),
            "accountant_auc_both_rounds": SETTING.auc_bound(),
            "epsilon": SETTING.plan.achieved,
        }
    return Measurement(*auc(yes, no), len(yes) + len(no), detail)


ATTACK = Attack(
    number=12,
    title="drop-out differencing",
    slug="drop-out",
    needs="The coordinator, which keeps the target from one of two rounds with the same weights; it knows the target's"
    " bins.",
    steps=(
        "Open a round with the target.",
        "Open the same round without it.",
        "Look at the difference of the tallies.",
    ),
    metric="AUC of the label on two rounds",
    chance=0.5,
    defence="Cover is drawn anew in every round, so a difference has twice the noise.",
    goal=goal_within(0.99),
    trials=20_000,
    quick_trials=1_000,
    guess=guess,
    play=play,
)
