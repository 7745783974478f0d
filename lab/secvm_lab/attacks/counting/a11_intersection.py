"""A11: what hides a person in one round does not hide it in many.

The crowd changes from round to round and the target stays. Each round speaks a little for the target's label, and
rounds add up: d' grows with the root of their number. The attacker knows the target's bins and how popular each bin is;
others are new in every round, which is its best case. Weights are zero, so that everybody sends.

With the defence cover is made for a number of rounds, and a device's ledger lets it take part in no more: whoever opens
60 rounds gets 30 of them.
"""

from __future__ import annotations

import numpy as np

from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import Counts, Setting, batches, draw_cover_counts, goal_within
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownHabits, look_rows, place_tables
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, RoundSeen
from secvm_lab.privacy.popularity import popularity

SETTING = Setting(people=5_000, bins=200, features=20, rounds=30)
#: Rounds that the coordinator opens.
OPENED = 60
_BATCH, _TARGETS = 250, 8


def guess(view: CoordinatorView, knowing: KnownHabits) -> Floats:
    """How much each round speaks for the second label: a column a round."""
    bins = np.zeros(len(knowing.shares), dtype=np.bool_)
    bins[list(knowing.bins)] = True
    tables = [place_tables(knowing.cover, senders, bins, knowing.shares) for senders in knowing.senders]
    told = []
    for seen in view.rounds:
        cells = seen.counts[..., 0, :-1, :]
        told.append(look_rows(tables[1], cells[..., 1]) - look_rows(tables[0], cells[..., 0]))
    return np.stack(told, axis=-1)


def rounds_of(
    dice: np.random.Generator, knowing: KnownHabits, label: int, plays: int, *, rounds: int, noise: CoverLaw | None
) -> CoordinatorView:
    """So many rounds, each with new people around the target, each played so many times."""
    own = np.zeros((len(knowing.shares) + 1, 2), dtype=np.int64)
    own[[*knowing.bins, -1], label] = 1
    seen = []
    for _ in range(rounds):
        counts: Counts = np.empty((plays, 1, *own.shape), dtype=np.int64)
        for sign, senders in enumerate(knowing.senders):
            others = senders - (sign == label)
            counts[:, 0, :-1, sign] = dice.binomial(others, knowing.shares, size=(plays, len(knowing.shares)))
            counts[:, 0, -1, sign] = others
        counts += own
        if noise is not None:
            counts += draw_cover_counts(dice, noise, counts.shape)
        seen.append(RoundSeen(counts=counts))
    return CoordinatorView(tuple(seen))


def habits(dice: np.random.Generator, setting: Setting, cover: CoverLaw | None) -> KnownHabits:
    """Somebody's bins by Zipf's law, and everybody's."""
    groups = popularity(bins=setting.bins, features=setting.features, exponent=1.0)
    shares = np.repeat(groups.shares, groups.sizes.astype(np.int64))
    clocks = dice.exponential(size=setting.bins) * np.arange(1, setting.bins + 1)
    bins = tuple(int(b) for b in np.sort(np.argsort(clocks)[: setting.features]))
    return KnownHabits(bins, (setting.people // 2, setting.people // 2), shares, cover)


def scores(
    dice: np.random.Generator, setting: Setting, trials: int, *, rounds: int, covered: bool
) -> tuple[Floats, Floats]:
    """Sums over the first rounds, a column for each number of them: of label yes, of label no. Several targets."""
    cover = setting.laws[0] if covered else None
    each = max(1, trials // (2 * _TARGETS))
    found: dict[int, list[Floats]] = {0: [], 1: []}
    for _ in range(min(_TARGETS, trials)):
        knowing = habits(dice, setting, cover)
        for label in (0, 1):
            for plays in batches(each, _BATCH):
                view = rounds_of(dice, knowing, label, plays, rounds=rounds, noise=cover)
                found[label].append(np.cumsum(guess(view, knowing), axis=1))
    return np.concatenate(found[1]), np.concatenate(found[0])


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """The value is the one after all rounds that the coordinator opened."""
    dice = generator(seed, 11, defended=defended)
    taken = SETTING.rounds_within(SETTING.epsilon, OPENED) if defended else OPENED
    yes, no = scores(dice, SETTING, trials, rounds=taken, covered=defended)
    advance(trials)
    after = {rounds: auc(yes[:, rounds - 1], no[:, rounds - 1]) for rounds in (1, 3, 10, 30, 60) if rounds <= taken}
    last = auc(yes[:, -1], no[:, -1])
    points = tuple(Point(str(rounds), *after.get(rounds, last)) for rounds in (1, 3, 10, 30, 60))
    detail: dict[str, int | float | str | bool | None] = {"rounds_opened": OPENED, "rounds_taken_part_in": taken}
    if defended:
        without = scores(dice, SETTING, max(2 * _TARGETS, trials // 2), rounds=OPENED, covered=True)
        detail |= {
            "accountant_auc": SETTING.auc_bound(rounds=taken),
            "epsilon": SETTING.plan.achieved,
            "auc_with_cover_and_no_ledger": auc(without[0][:, -1], without[1][:, -1])[0],
            "accountant_auc_with_cover_and_no_ledger": SETTING.auc_bound(rounds=OPENED),
        }
    return Measurement(*last, len(yes) + len(no), detail, Curve("rounds opened", points))


ATTACK = Attack(
    number=11,
    title="intersection over rounds",
    slug="intersection",
    needs="The coordinator, or anybody who reads tallies; it knows the target's bins and how popular bins are.",
    steps=(
        "Add up over all rounds what the tallies say of the target's label.",
        "Open more rounds.",
    ),
    metric="AUC of the label after 60 rounds opened",
    chance=0.5,
    defence="Cover made for a number of rounds, and a ledger on the device that refuses further ones.",
    remains="With the same people in all rounds and nothing thinned, plain tallies repeat themselves and"
    " rounds add nothing.",
    goal=goal_within(0.9),
    trials=4_000,
    quick_trials=400,
    guess=guess,
    play=play,
)
