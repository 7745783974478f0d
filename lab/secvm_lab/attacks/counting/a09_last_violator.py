"""A9: when a model has learnt everybody but one, a round holds that one's packages and nothing else.

Late in a good run few people violate the margin. Where only one is left, the plain tally of the round *is* its vector,
under its label; nobody has to lie for it. With cover the round is as full as every other.

Weights here are 1 or -1 on every bin and 1 on the bias. Everybody but the target has an even number of bins and the
label that the weights say, so that all their scores are odd and their margins at least 1; the target has as many bins
on either side as make its score 0, and violates under either label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.participant.dice import SystemDice
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import (
    Counts,
    Crowd,
    Setting,
    draw_cover_counts,
    draw_crowd,
    goal_within,
    person_with,
    sent,
    weights_of,
)
from secvm_lab.attacks.counting.likelihood import KnownHabits, look, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc, wilson
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

#: An even number of features.
SETTING = Setting(people=2_000, bins=100, features=20, rounds=1)


def guess(view: CoordinatorView, knowing: KnownHabits) -> float:
    """How much the round speaks for the second label. Nobody else sends, which the weights and the run tell."""
    (seen,) = view.rounds
    told = look(unit_table(knowing.cover), seen.counts[0][[*knowing.bins, -1]]).sum(axis=0)
    return float(told[1] - told[0])


def guess_bins(view: CoordinatorView, knowing: KnownHabits) -> tuple[int, ...]:
    """The last violator's bins: those whose cells speak for a unit, whatever is known of the target."""
    (seen,) = view.rounds
    return tuple(int(b) for b in np.flatnonzero(look(unit_table(knowing.cover), seen.counts[0, :-1]).max(axis=1) > 0))


class World:
    """A crowd that a model has learnt, and one more."""

    def __init__(self, setting: Setting, dice: np.random.Generator, *, covered: bool) -> None:
        self._setting, self._dice = setting, dice
        self._experiment = setting.experiment(covered=covered)
        self.cover = setting.laws[0] if covered else None
        values = np.resize(np.array([1, -1], dtype=np.int64), setting.bins + 1)
        values[-1] = 1
        self._values, self._weights = values, weights_of(values)
        people = draw_crowd(dice, people=setting.people - 1, bins=setting.bins, features=setting.features)
        scores = people.scores(values)
        self._others = Crowd(people.has, (scores > 0).astype(np.int8))
        self.sent_by_others: Counts = self._others.counted(self._others.violators(scores))
        self._thrown = SystemDice(dice.bytes)

    def bins(self) -> tuple[int, ...]:
        """A target's, whose score is 0."""
        half = self._setting.features // 2
        up, down = (np.flatnonzero(self._values[:-1] == sign) for sign in (1, -1))
        chosen = [self._dice.choice(up, half - 1, replace=False), self._dice.choice(down, half, replace=False)]
        return tuple(int(b) for b in np.sort(np.concatenate(chosen)))

    def round_of(self, bins: tuple[int, ...], label: int) -> CoordinatorView:
        """The round, the target's device being a real one."""
        person = person_with(bins, label, self._setting.bins)
        counts = self.sent_by_others + sent(self._experiment, person, self._weights, self._thrown)[0]
        if self.cover is not None:
            counts += draw_cover_counts(self._dice, self.cover, counts.shape)
        return CoordinatorView((RoundSeen(counts=counts),))

    def knowledge(self, bins: tuple[int, ...]) -> KnownHabits:
        """The target's bins, and how popular bins are."""
        shares: NDArray[np.float64] = self._others.shares
        return KnownHabits(bins, (0, 0), shares, self.cover)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A last violator in each trial."""
    dice = generator(seed, 9, defended=defended)
    world = World(SETTING, dice, covered=defended)
    size = trials if defended else max(10, trials // 10)
    scores: dict[int, list[float]] = {0: [], 1: []}
    whole = 0
    for trial in range(size):
        bins, label = world.bins(), int(dice.integers(2))
        view, knowing = world.round_of(bins, label), world.knowledge(bins)
        scores[label].append(guess(view, knowing))
        whole += guess_bins(view, knowing) == bins
        if trial % 100 == 0:
            advance(100 * trials // size)
    right = sum(score > 0 for score in scores[1]) + sum(score < 0 for score in scores[0])
    detail: dict[str, int | float | str | bool | None] = {
        "auc": auc(scores[1], scores[0])[0],
        "vector_recovery": whole / size,
        "packages_of_others": int(world.sent_by_others.sum()),
    }
    if defended:
        detail |= {
            "accountant_success": SETTING.success_bound(),
            "accountant_auc": SETTING.auc_bound(),
            "epsilon": SETTING.plan.achieved,
        }
    return Measurement(right / size, wilson(right, size), size, detail)


ATTACK = Attack(
    number=9,
    title="single remaining violator",
    slug="last-violator",
    needs="Anybody who reads tallies, in a round in which one person alone violates the margin.",
    steps=(
        "Read the vector and its sign off the tally.",
        "Under cover: add up likelihood ratios over the target's bins.",
    ),
    metric="label success",
    chance=0.5,
    defence="Cover fills every cell of every round, whoever violates.",
    goal=goal_within(0.99, bound="accountant_success"),
    trials=20_000,
    quick_trials=1_000,
    guess=guess,
    play=play,
)
