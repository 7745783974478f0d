"""The world of A10 and A18: the attacker knows all but one label, and the noise is all that is left.

Weights are zero, so that everybody sends, whatever the label is: with all else known nothing else is better. For worlds
alone; the guess that they ask is ``likelihood.label_ratio``.
"""

from __future__ import annotations

import numpy as np

from secvm.learning.individual.contribution import train_packages
from secvm.participant.dice import SystemDice
from secvm_lab.attacks.counting.covered import (
    Counts,
    Setting,
    count_units,
    draw_cover_counts,
    law_of,
    person_with,
    weights_of,
)
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownRest, label_ratio
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

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
    share: float = 1.0,
    rounds: int | None = None,
) -> Floats:
    """What the attacker makes of so many plays in which the target has this label: a column for every round seen.

    The rounds are those that the cover was made for, unless told. ``share``: of the honest relay's cover, so much is
    there; 0 is a plain sum.
    """
    train = here = None
    if share > 0:
        cover = setting.plan.cover
        train, here = law_of(cover.train, share), law_of(cover.participation, share)
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
