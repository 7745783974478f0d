"""A0: one weight vector for all, made so that only one person has something to send.

The attacker knows some bins v of the target. It publishes w = -1 on v and a bias of |v|, the same for everybody: of
those with the label yes only who has *all* of v violates the margin. Then the same with opposite signs. Every check
that all devices got the same weights passes. Without cover the cells of the silent side hold the target's whole vector,
and hold it under the target's label. The target violates under either label, so that each round speaks twice: on the
silent side, and, against the noise of everybody, on the loud one.

With cover the attacker makes the likelihood-ratio test with the exact law of every cell: cover alone on the silent
side, cover and a binomial crowd on the loud one. Nothing it can do tells more than the accountant allows for a label
flip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from secvm.participant.dice import SystemDice
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.counting.covered import (
    Crowd,
    Setting,
    draw_cover_counts,
    draw_crowd,
    goal_within,
    person_with,
    sent,
    weights_of,
)
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownHabits, look, look_once, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc, wilson
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

SETTING = Setting(people=10_000, bins=1_000, features=100, rounds=2)
#: Trials in which the others are the same people.
_SAME_CROWD = 500
#: Bins of the target that are known where its other ones are asked for.
KNOWN = 20
_CURVE = (2, 3, 5, 8, 10, 20)
_RAREST = 4


@dataclass(frozen=True, slots=True)
class Told:
    """What the attacker makes of two rounds: how much speaks for the second label, and the target's bins."""

    score: float
    bins: tuple[int, ...]


def isolating(bins: tuple[int, ...], n_bins: int, sign: int) -> NDArray[np.int64]:
    """Weights that silence everybody of this sign but who has all these bins."""
    weights = np.zeros(n_bins + 1, dtype=np.int64)
    weights[list(bins)] = -sign
    weights[-1] = sign * len(bins)
    return weights


def guess(view: CoordinatorView, knowing: KnownHabits) -> Told:
    """The first round silences plus, the second minus."""
    places = [*knowing.bins, -1]
    shares = [*(float(s) for s in knowing.shares[list(knowing.bins)]), 1.0]
    alone, (more, error) = unit_table(knowing.cover), senders_more_than_half(view, knowing)
    total = participation_ratio(view, knowing, more, error)
    for silent, seen in zip((1, 0), view.rounds, strict=True):
        counts = seen.counts[0]
        told = look(alone, counts[places, silent]).sum()
        loud = 1 - silent
        for place, share in zip(places, shares, strict=True):
            # Where everybody has a bin, as the bias, it tells how many send, and that is not known so well.
            if 0 < share < 1:
                there = int(counts[place, loud]) - round((more if loud else -more) * share)
                told -= look_once(unit_table(knowing.cover, knowing.senders[loud], share), there)
        total += float(told) if silent else -float(told)
    seen = view.rounds[0 if total > 0 else 1]
    said = look(alone, seen.counts[0][:-1, int(total > 0)]) + _logit(knowing.shares)
    said[list(knowing.bins)] = np.inf
    return Told(total, tuple(int(b) for b in np.flatnonzero(said > 0)))


def participation_ratio(view: CoordinatorView, knowing: KnownHabits, more: float, error: float) -> float:
    """What participation cells say: one more of the target's label in each round, by normal laws.

    ``more`` people than expected have the second label, known but for a variance of ``error``; both rounds share it.
    """
    if knowing.participation is None:
        return 0.0
    rounds, beyond = len(view.rounds), 0.0
    for seen in view.rounds:
        beyond += float(seen.participants[1] - seen.participants[0]) - 2 * more
    variance = 2 * rounds * knowing.participation.variance + 4 * rounds**2 * error
    return 2 * rounds * beyond / variance


def senders_more_than_half(view: CoordinatorView, knowing: KnownHabits) -> tuple[float, float]:
    """By how many more than expected people have the second label: from the loud cells.

    The mean of each is as many times its share; they are weighed by their variances, and with a coin's prior. The
    second number is the variance of the first.
    """
    noise, extra = (0.0, 0.0) if knowing.cover is None else (knowing.cover.mean, knowing.cover.variance)
    # The target's own bins are among them: that is what least squares say, one unit being next to nothing.
    shares = knowing.shares
    precision, weighted = 4 / sum(knowing.senders), 0.0
    for loud, seen in zip((0, 1), view.rounds, strict=True):
        expected = knowing.senders[loud] * shares
        variance = expected * (1 - shares) + extra
        weight = np.divide(shares, variance, out=np.zeros_like(shares), where=variance > 0)
        precision += float((weight * shares).sum())
        weighted += (1 if loud else -1) * float((weight * (seen.counts[0][:-1, loud] - noise - expected)).sum())
    return weighted / precision, 1 / precision


def _logit(shares: NDArray[np.float64]) -> Floats:
    inside = np.clip(shares, 1e-6, 1 - 1e-6)
    found: Floats = np.log(inside) - np.log1p(-inside)
    return found


class World:
    """A crowd, and one of it who is looked for."""

    def __init__(self, setting: Setting, dice: np.random.Generator, *, covered: bool) -> None:
        self._setting, self._dice, self._covered = setting, dice, covered
        self._experiment = setting.experiment(covered=covered)
        # The honest relay's; the other one's is known to the attacker, and off.
        laws: tuple[CoverLaw | None, CoverLaw | None] = setting.laws if covered else (None, None)
        self.cover, self._here = laws
        self._thrown = SystemDice(dice.bytes)
        self.new_crowd()

    def new_crowd(self) -> None:
        """Other people, a few hundred times the work of one trial."""
        setting = self._setting
        self.crowd: Crowd = draw_crowd(self._dice, people=setting.people, bins=setting.bins, features=setting.features)
        self._shares = self.crowd.shares
        self._everybody = self.crowd.counted(np.ones(self.crowd.size, dtype=np.bool_))

    def rounds(self, target: int, label: int, bins: tuple[int, ...]) -> CoordinatorView:
        """Both rounds, where the target's label is this one and these bins of its are known."""
        overlaps = self.crowd.overlaps(bins)
        matching = overlaps == len(bins)
        matching[target] = False
        others = self._everybody.copy()
        vector = self.crowd.has[:, target]
        others[0, :-1, self.crowd.labels[target]] -= vector
        others[0, -1, self.crowd.labels[target]] -= 1
        person = person_with(self.crowd.bins_of(target), label, self._setting.bins)
        seen = []
        for number, silent in enumerate((1, 0), start=1):
            weights = weights_of(isolating(bins, self._setting.bins, 2 * silent - 1))
            units, presence = sent(self._experiment, person, weights, self._thrown, number)
            counts = others.copy()
            counts[..., silent] = self.crowd.counted(matching)[..., silent]
            counts += units
            participants = others[0, -1] + presence
            if self.cover is not None and self._here is not None:
                counts += draw_cover_counts(self._dice, self.cover, counts.shape)
                participants += draw_cover_counts(self._dice, self._here, participants.shape)
            seen.append(RoundSeen(counts=counts, participants=participants))
        return CoordinatorView(tuple(seen))

    def knowledge(self, bins: tuple[int, ...]) -> KnownHabits:
        """What is known of the target, and of everybody."""
        half = self._setting.people // 2
        return KnownHabits(bins, (half, half), self._shares, self.cover, self._here)

    def popular(self) -> set[int]:
        """The bins that most people have."""
        return {int(b) for b in np.flatnonzero(2 * self._shares > 1)}

    def target(self) -> tuple[int, int]:
        """Somebody, and a label by a coin."""
        return int(self._dice.integers(self.crowd.size)), int(self._dice.integers(2))

    def some_bins(self, target: int, known: int, *, rarest: bool = False) -> tuple[int, ...]:
        """So many of somebody's bins: any, or the rarest."""
        bins = np.array(self.crowd.bins_of(target))
        if rarest:
            return tuple(int(b) for b in np.sort(bins[np.argsort(self._shares[bins])[:known]]))
        return tuple(int(b) for b in np.sort(self._dice.choice(bins, size=known, replace=False)))


def recovery(world: World, known: int, trials: int, *, rarest: bool = False) -> tuple[int, float, float]:
    """How often the whole vector and the label are found from so many bins; and how well the other bins are on average:
    the Jaccard index of what is named and what is true, and the same for the bins that most people have.
    """
    whole, share, by_habit = 0, 0.0, 0.0
    for _ in range(trials):
        target, label = world.target()
        bins = world.some_bins(target, known, rarest=rarest)
        found = guess(world.rounds(target, label, bins), world.knowledge(bins))
        true = set(world.crowd.bins_of(target))
        whole += set(found.bins) == true and (found.score > 0) == bool(label)
        popular = world.popular()
        share += _alike(set(found.bins) - set(bins), true - set(bins))
        by_habit += _alike(popular - set(bins), true - set(bins))
    return whole, share / trials, by_habit / trials


def _alike(named: set[int], true: set[int]) -> float:
    return len(named & true) / max(len(named | true), 1)


def play_in(setting: Setting, trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """The label from the whole vector in every trial; the vector from some bins in a part of them."""
    dice = generator(seed, 0, defended=defended)
    world = World(setting, dice, covered=defended)
    # Certainty needs fewer trials than a coin's chance does.
    size = trials if defended else max(10, trials // 10)
    found: dict[int, list[float]] = {0: [], 1: []}
    for trial in range(size):
        if trial % _SAME_CROWD == _SAME_CROWD - 1:
            world.new_crowd()
        target, label = world.target()
        bins = world.crowd.bins_of(target)
        found[label].append(guess(world.rounds(target, label, bins), world.knowledge(bins)).score)
        if trial % 100 == 0:
            advance(min(trials - trials * trial // size, 100 * trials // size))
    value, interval = auc(found[1], found[0])
    right = sum(score > 0 for score in found[1]) + sum(score <= 0 for score in found[0])
    asked = max(5, size // 20)
    whole, share, by_habit = recovery(world, KNOWN, asked)
    detail: dict[str, int | float | str | bool | None] = {
        "label_success": right / size,
        "vector_recovery": whole / asked,
        "vector_recovery_bins_known": KNOWN,
        "vector_overlap": share,
        "vector_overlap_by_popularity": by_habit,
        "people": setting.people,
        "rounds": setting.rounds,
    }
    if defended:
        detail |= {
            "accountant_auc": setting.auc_bound(),
            "accountant_success": setting.success_bound(),
            "epsilon": setting.plan.achieved,
            "budget": setting.plan.budget,
        }
        return Measurement(value, interval, size, detail)
    detail[f"vector_recovery_from_the_{_RAREST}_rarest"] = recovery(world, _RAREST, asked, rarest=True)[0] / asked
    points = []
    for known in _CURVE:
        if known < setting.features:
            whole, *_ = recovery(world, known, asked)
            points.append(Point(str(known), whole / asked, wilson(whole, asked)))
    return Measurement(value, interval, size, detail, Curve("bins known", tuple(points), up="whole vector recovered"))


ATTACK = Attack(
    number=0,
    title="common adversarial weights isolate a person",
    slug="common-weights",
    needs="The coordinator, which publishes one weight vector for all, with one of the relays; it knows some bins of"
    " the target.",
    steps=(
        "Publish weights that silence everybody of one label who lacks one of the target's known bins.",
        "Do it again with opposite signs.",
        "Read the silent side's cells: under cover, by likelihood ratios of all cells.",
    ),
    metric="AUC of the label",
    chance=0.5,
    defence="Two relays' cover at ε = 1 over all rounds, and a ledger. Rounds that anybody can recompute make the"
    " coordinator forge tallies first.",
    remains="A larger ε protects less: see A10.",
    goal=goal_within(0.99, besides="vector_recovery"),
    trials=20_000,
    quick_trials=500,
    guess=guess,
    play=partial(play_in, SETTING),
)
