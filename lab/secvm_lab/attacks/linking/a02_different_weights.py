"""A2: one device gets weights of its own.

Weights decide who sends. A large bias puts everybody with the label "yes" far beyond the margin: they send nothing, and
all updates are negative. One device gets zeros instead, under which it sends in any case. If anything positive comes,
it is that device's, and its label is "yes"; if nothing does, it is "no". Without the defence a device takes what it is
given. With it, a round counts only under a log that witnesses cosigned, follows from the published tallies, and is
fetched again in the window: lies of four sorts are told to whole devices, and none may send a package.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from secvm.learning.individual.contribution import Individual, train_packages
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.weights import Weights
from secvm_lab.attacks.attack import Advance, Attack, Goal, Measurement
from secvm_lab.attacks.drawing import draw_person, draw_size, generator, plain_experiment
from secvm_lab.attacks.linking.lies import tell
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import NOTHING, CoordinatorView, Nothing, Opened, RoundSeen

DEVICES, BINS, MOST = 40, 200, 60
EXPERIMENT = plain_experiment(BINS)
LIES = ("different-weights", "two-manifests", "rewritten-past", "forked-log")
#: Zeros, as in a first round: whoever gets them sends an update.
ZEROS = Weights(np.zeros((1, BINS + 1), dtype=np.int32), Fraction(1), first=True)


def guess(view: CoordinatorView, knowing: Nothing) -> int:
    """The label of the one who got zeros: nobody else can send anything positive."""
    del knowing
    return int(any(package.value > 0 for package in view.rounds[0].packages))


def silencing() -> Weights:
    """Weights under which everybody with the second label is far beyond the margin: a large bias."""
    mantissas = np.zeros((1, BINS + 1), dtype=np.int32)
    mantissas[0, -1] = 2**20
    return Weights(mantissas, Fraction(1))


def update_of(person: Individual, weights: Weights, device: int, number: int) -> list[Opened]:
    """What somebody sends who takes the weights that it is given."""
    sent = train_packages(
        person,
        experiment=EXPERIMENT,
        training=weights,
        dice=UnsafeSeededDice(bytes(8), device),
        round_number=number,
    )
    return [Opened("train", unit.bin_index, float(unit.sign)) for unit in sent]


def believing(trials: int, seed: int, advance: Advance) -> tuple[int, int]:
    """Devices that believe everything: labels learnt, and trials."""
    dice = generator(seed, 2, defended=False)
    learnt = 0
    for trial in range(trials):
        packages: list[Opened] = []
        for device in range(1, DEVICES):
            other = draw_person(dice, BINS, draw_size(dice, MOST))
            packages += update_of(other, silencing(), device, trial + 1)
        target = draw_person(dice, BINS, draw_size(dice, MOST))
        packages += update_of(target, ZEROS, 0, trial + 1)
        learnt += guess(CoordinatorView((RoundSeen(packages=tuple(packages)),)), NOTHING) == target.label
        advance(1)
    return learnt, trials


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Labels learnt; a lie that is believed counts as one, whatever comes of it."""
    if not defended:
        learnt, told = believing(trials, seed, advance)
        return Measurement(learnt / told, wilson(learnt, told), trials, {"lies_told": told, "lies_believed": told})
    found = tell(LIES, trials, seed, advance)
    return Measurement(found.believed / found.told, wilson(found.believed, found.told), trials, found.detail)


ATTACK = Attack(
    number=2,
    title="different weights per device",
    slug="different-weights",
    needs="The coordinator, and a way to serve one device other bytes than the rest.",
    steps=(
        "Show everybody a bias under which nobody has anything positive to send.",
        "Show the target zeros.",
        "Something positive came: the target's label is the second. Nothing did: it is the first.",
    ),
    metric="share of targets whose label is learnt",
    chance=0.0,
    defence="A public log that witnesses cosign, steps that follow from published tallies, and a fresh look in the"
    " window: the device refuses before its first package.",
    remains="One common weight vector for everybody passes all of it (A0); and enough witnesses who collude.",
    goal=Goal(
        "without the defence at least 0.99; with it no lie is believed, and no package leaves",
        lambda undefended, defended: undefended.value >= 0.99 and defended.value == 0,
    ),
    trials=200,
    quick_trials=20,
    guess=guess,
    play=play,
)
