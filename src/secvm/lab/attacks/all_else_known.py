"""The world of A10 and A18: the attacker knows all but one label, and the noise is all that is left.

Weights are zero, so that everybody sends, whatever the label is: with all else known nothing else is better. For worlds
alone; the guess that they ask is ``likelihood.label_ratio``.
"""

from __future__ import annotations

import numpy as np

from secvm.lab.attacks.covered import (
    Counts,
    Setting,
    count_participants,
    count_units,
    draw_cover_counts,
    law_of,
    person_with,
    weights_of,
)
from secvm.lab.attacks.knowledge import CoverLaw, KnownRest
from secvm.lab.attacks.likelihood import Floats, label_ratio
from secvm.lab.attacks.views import CoordinatorView, RoundSeen
from secvm.learning.individual.contribution import contribute, train_packages
from secvm.participant.dice import SystemDice

_BATCH = 500


def sent_by(setting: Setting, label: int) -> Counts:
    """The target's own units of a round under zero weights, as its device makes them."""
    person = person_with(range(setting.features), label, setting.bins)
    zero = weights_of(np.zeros(setting.bins + 1, dtype=np.int64))
    plain = setting.experiment(covered=False)
    units = train_packages(person, experiment=plain, training=zero, dice=SystemDice(bytes), round_number=1)
    return count_units(units, setting.bins)


def scores(
    setting: Setting,
    label: int,
    trials: int,
    dice: np.random.Generator,
    *,
    honest: int,
    covered: bool = True,
    rounds: int | None = None,
) -> Floats:
    """What the attacker makes of so many plays in which the target has this label: a column for every round seen.

    The rounds are those that the cover was made for, unless told.
    """
    train = here = None
    if covered:
        cover = setting.plan.cover
        train, here = law_of(cover.train, honest), law_of(cover.participation, honest)
    own, own_label = sent_by(setting, label), np.eye(2, dtype=np.int64)[label]
    # Any numbers will do: the attacker knows them.
    others = dice.integers(setting.people, size=own.shape)
    others_by_label = (setting.people // 3, setting.people - setting.people // 3)
    seen = rounds or setting.rounds
    found = np.empty((trials, seen))
    for begin in range(0, trials, _BATCH):
        plays = min(_BATCH, trials - begin)
        for number in range(seen):
            counts = others + own + _noise(dice, train, (plays, *own.shape))
            participants = np.array(others_by_label) + own_label + _noise(dice, here, (plays, 2))
            view = CoordinatorView((RoundSeen(counts=counts, participants=participants),))
            knowing = KnownRest(tuple(range(setting.features)), (others,), others_by_label, train, here)
            found[begin : begin + plays, number] = label_ratio(view, knowing)
    return np.cumsum(found, axis=1)


def _noise(dice: np.random.Generator, law: CoverLaw | None, size: tuple[int, ...]) -> Counts:
    return np.zeros(size, dtype=np.int64) if law is None else draw_cover_counts(dice, law, size)


def drawn_scores(setting: Setting, label: int, trials: int, dice: np.random.Generator) -> Floats:
    """The same where every device is a real one and all packages of all devices are drawn, one round."""
    experiment = setting.experiment(covered=True)
    zero = weights_of(np.zeros(setting.bins + 1, dtype=np.int64))
    target = person_with(range(setting.features), label, setting.bins)
    # Half of the others have each label; all have the first bin only.
    people = [target, *(person_with([0], i % 2, setting.bins) for i in range(setting.people - 1))]
    others = sum(
        (
            count_units(
                train_packages(one, experiment=experiment, training=zero, dice=SystemDice(bytes), round_number=1),
                setting.bins,
            )
            for one in people[1:]
        ),
        start=np.zeros((1, setting.bins + 1, 2), dtype=np.int64),
    )
    by_label = (sum(one.label == 0 for one in people[1:]), sum(one.label == 1 for one in people[1:]))
    cover = setting.plan.cover
    laws = law_of(cover.train, setting.people), law_of(cover.participation, setting.people)
    knowing = KnownRest(tuple(range(setting.features)), (others,), by_label, *laws)
    thrown, found = SystemDice(dice.bytes), np.empty(trials)
    for trial in range(trials):
        packages = [
            package
            for one in people
            for package in contribute(
                one, experiment=experiment, training=zero, evaluation=zero, dice=thrown, round_number=1
            )
        ]
        seen = RoundSeen(counts=count_units(packages, setting.bins), participants=count_participants(packages))
        found[trial] = float(label_ratio(CoordinatorView((seen,)), knowing))
    return found
