"""Attacks over rounds in which one person stays, or does not.

A11: what hides a person in one round does not hide it in many.

The crowd changes from round to round and the target stays. Each round speaks a little for the target's label, and
rounds add up: d' grows with the root of their number. The attacker knows the target's bins and how popular each bin is;
others are new in every round, which is its best case. Weights are zero, so that everybody sends.

With the defence cover is made for a number of rounds, and a device's ledger lets it take part in no more: whoever opens
60 rounds gets 30 of them.

A12: the same round twice, once with the target and once without: the difference is the target.

The coordinator opens two rounds with the same weights and keeps the target from the second (it answers its fetch late,
or waits until the device is off). The same other people send the same packages. Plain tallies differ by just the
target's packages. With the defence every round has new cover, which does not go away by subtraction.

The attacker does not know the others, but knows that they are the same, and how popular bins are: the first round is
judged given the second, by normal laws with their exact means and variances. (Cover of thousands of packages in a cell
is close to normal; A10 has the exact law where all else is known.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import Setting, batches, draw_cover_counts, goal_within
from secvm_lab.attacks.counting.likelihood import (
    Counts,
    CoverLaw,
    Floats,
    KnownHabits,
    look,
    look_rows,
    place_tables,
    unit_table,
)
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, RoundSeen
from secvm_lab.privacy.popularity import popularity

# ── A11 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

SETTING_INTERSECTION = Setting(people=5_000, bins=200, features=20, rounds=30)
#: Rounds that the coordinator opens.
OPENED = 60
_TARGETS = 8


def guess_intersection(view: CoordinatorView, knowing: KnownHabits) -> Floats:
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
    dice: np.random.Generator, knowing: KnownHabits, label: int, plays: int, *, rounds: int
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
        if knowing.cover is not None:
            counts += draw_cover_counts(dice, knowing.cover, counts.shape)
        seen.append(RoundSeen(counts=counts))
    return CoordinatorView(tuple(seen))


def habits(dice: np.random.Generator, setting: Setting, cover: CoverLaw | None) -> KnownHabits:
    """Somebody's bins by Zipf's law, and everybody's."""
    groups = popularity(bins=setting.bins, features=setting.features, exponent=1.0)
    shares = np.repeat(groups.shares, groups.sizes.astype(np.int64))
    clocks = dice.exponential(size=setting.bins) * np.arange(1, setting.bins + 1)
    bins = tuple(int(b) for b in np.sort(np.argsort(clocks)[: setting.features]))
    return KnownHabits(bins, (setting.people // 2, setting.people // 2), shares, cover)


def over_targets(
    dice: np.random.Generator,
    setting: Setting,
    trials: int,
    *,
    covered: bool,
    sizes: tuple[int, int],
    told: Callable[[KnownHabits, int, int], Floats],
) -> tuple[Floats, Floats]:
    """What is told of several targets, by habits, label and plays: of label yes, of label no.

    ``sizes``: how many targets, and plays that are looked at together.
    """
    cover = setting.laws[0] if covered else None
    targets, batch = sizes
    each = max(1, trials // (2 * targets))
    found: dict[int, list[Floats]] = {0: [], 1: []}
    for _ in range(min(targets, trials)):
        knowing = habits(dice, setting, cover)
        for label in (0, 1):
            found[label] += [told(knowing, label, plays) for plays in batches(each, batch)]
    return np.concatenate(found[1]), np.concatenate(found[0])


def scores_intersection(
    dice: np.random.Generator, setting: Setting, trials: int, *, rounds: int, covered: bool
) -> tuple[Floats, Floats]:
    """Sums over the first rounds, a column for each number of them."""

    def told(knowing: KnownHabits, label: int, plays: int) -> Floats:
        return np.cumsum(guess_intersection(rounds_of(dice, knowing, label, plays, rounds=rounds), knowing), axis=1)

    return over_targets(dice, setting, trials, covered=covered, sizes=(_TARGETS, 250), told=told)


def play_intersection(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """The value is the one after all rounds that the coordinator opened."""
    dice = generator(seed, 11, defended=defended)
    taken = SETTING_INTERSECTION.rounds_within(SETTING_INTERSECTION.epsilon, OPENED) if defended else OPENED
    yes, no = scores_intersection(dice, SETTING_INTERSECTION, trials, rounds=taken, covered=defended)
    advance(trials)
    after = {rounds: auc(yes[:, rounds - 1], no[:, rounds - 1]) for rounds in (1, 3, 10, 30, 60) if rounds <= taken}
    last = auc(yes[:, -1], no[:, -1])
    points = tuple(Point(str(rounds), *after.get(rounds, last)) for rounds in (1, 3, 10, 30, 60))
    detail: dict[str, int | float | str | bool | None] = {"rounds_opened": OPENED, "rounds_taken_part_in": taken}
    if defended:
        without = scores_intersection(
            dice, SETTING_INTERSECTION, max(2 * _TARGETS, trials // 2), rounds=OPENED, covered=True
        )
        detail |= {
            "accountant_auc": SETTING_INTERSECTION.auc_bound(rounds=taken),
            "epsilon": SETTING_INTERSECTION.plan.achieved,
            "auc_with_cover_and_no_ledger": auc(without[0][:, -1], without[1][:, -1])[0],
            "accountant_auc_with_cover_and_no_ledger": SETTING_INTERSECTION.auc_bound(rounds=OPENED),
        }
    return Measurement(*last, len(yes) + len(no), detail, Curve("rounds opened", points))


INTERSECTION = Attack(
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
    guess=guess_intersection,
    play=play_intersection,
)


# ── A12 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

SETTING_DROP_OUT = Setting(people=5_000, bins=200, features=20, rounds=2)


def guess_drop_out(view: CoordinatorView, knowing: KnownHabits) -> Floats:
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


def scores_drop_out(
    dice: np.random.Generator, setting: Setting, trials: int, *, covered: bool
) -> tuple[Floats, Floats]:
    """Of pairs of rounds."""

    def told(knowing: KnownHabits, label: int, plays: int) -> Floats:
        own = np.zeros((1, setting.bins + 1, 2), dtype=np.int64)
        own[0, [*knowing.bins, -1], label] = 1
        size = (plays, *own.shape)
        others = np.empty(size, dtype=np.int64)
        for sign, senders in enumerate(knowing.senders):
            others[:, 0, :-1, sign] = dice.binomial(senders, knowing.shares, size=(plays, setting.bins))
            others[:, 0, -1, sign] = senders
        seen = [others + own, others]
        if knowing.cover is not None:
            seen = [counts + draw_cover_counts(dice, knowing.cover, size) for counts in seen]
        return guess_drop_out(CoordinatorView(tuple(RoundSeen(counts=counts) for counts in seen)), knowing)

    return over_targets(dice, setting, trials, covered=covered, sizes=(20, 500), told=told)


def play_drop_out(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Pairs of rounds."""
    yes, no = scores_drop_out(generator(seed, 12, defended=defended), SETTING_DROP_OUT, trials, covered=defended)
    advance(trials)
    detail: dict[str, int | float | str | bool | None] = {"rounds": 2}
    if defended:
        # In the second round the target sends nothing in either world: one round's promise is the sharper one.
        detail |= {
            "accountant_auc": SETTING_DROP_OUT.auc_bound(rounds=1),
            "accountant_auc_both_rounds": SETTING_DROP_OUT.auc_bound(),
            "epsilon": SETTING_DROP_OUT.plan.achieved,
        }
    return Measurement(*auc(yes, no), len(yes) + len(no), detail)


DROP_OUT = Attack(
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
    guess=guess_drop_out,
    play=play_drop_out,
)
