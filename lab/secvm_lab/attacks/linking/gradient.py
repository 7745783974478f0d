"""A19: a real-valued gradient identifies its sender.

The derivative of the logistic loss is a number of a person's own: all packages of an update carry the same one, and no
other person's do. The paper mentions it in its discussion. With the defence a loss draws a random threshold and sends
plus or minus one or nothing (``learning.losses``), which is right on average and the same for everybody of a sign.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from secvm.learning.individual.contribution import Individual, train_packages
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.individual.update import score
from secvm.learning.weights import Weights
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import (
    UNIT,
    draw_person,
    draw_size,
    draw_weights,
    generator,
    mixed_round,
    plain_experiment,
    words,
)
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import NOTHING, CoordinatorView, Nothing, Opened

DEVICES, BINS, MOST, SIZE = 300, 500, 60, 0.3
EXPERIMENT = plain_experiment(BINS, loss="logistic")


def guess(view: CoordinatorView, knowing: Nothing) -> tuple[int, ...]:
    """For each package the place of another one, as its partner: the next that carries the same number."""
    del knowing
    alike: defaultdict[float, list[int]] = defaultdict(list)
    for place, package in enumerate(view.rounds[0].packages):
        alike[package.value].append(place)
    partner = [0] * len(view.rounds[0].packages)
    for places in alike.values():
        for here, there in zip(places, places[1:] + places[:1], strict=True):
            partner[here] = there
    return tuple(partner)


def packages_of(
    person: Individual, weights: Weights, device: int, round_number: int, *, defended: bool
) -> list[Opened]:
    """The update of one person, as it is opened."""
    if defended:
        dice = UnsafeSeededDice(bytes(8), device)
        units = train_packages(person, experiment=EXPERIMENT, training=weights, dice=dice, round_number=round_number)
        return [Opened("train", unit.bin_index, float(unit.sign)) for unit in units]
    sign = 2 * person.label - 1
    slope = sign / (1 + math.exp(sign * score(weights, 0, person.vector) * float(UNIT)))
    return [Opened("train", place, slope * value) for place, value in person.vector.with_bias().items()]


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A crowd in each trial; linked is a package whose partner is of the same person."""
    dice: np.random.Generator = generator(seed, 19, defended=defended)
    linked = every = 0
    by_chance = 0.0
    for trial in range(trials):
        weights = draw_weights(dice, BINS, size=SIZE)
        sent = []
        for device in range(DEVICES):
            person = draw_person(dice, BINS, draw_size(dice, MOST))
            made = packages_of(person, weights, device, trial + 1, defended=defended)
            sent += [(package, device) for package in made]
        view, senders = mixed_round(sent, words(dice))
        partners = guess(view, NOTHING)
        linked += sum(senders[here] == senders[there] for here, there in enumerate(partners) if here != there)
        every += len(senders)
        sizes = np.bincount(senders)
        by_chance += float((sizes * (sizes - 1)).sum()) / len(senders)
        advance(1)
    detail = {"packages": every, "devices": DEVICES, "by_chance": by_chance / every}
    return Measurement(linked / every, wilson(linked, every), trials, detail)


ATTACK = Attack(
    number=19,
    title="logistic gradient identifies its sender",
    slug="logistic-gradient",
    needs="The coordinator, and devices that send the derivative of a smooth loss as it is.",
    steps=("Group packages that carry the same number.", "Each group is one person."),
    metric="share of packages linked to another of the same sender",
    chance=0.0,
    defence="Ternarisation: a random threshold decides whether the whole update is sent, as plus or minus one.",
    remains="The sign is the label's: packages of one sign are by people of one label. Chance alone links a few in a"
    " hundred here, because a crowd is small.",
    goal=goal(undefended_at_least=0.99, defended_at_most=0.05),
    trials=20,
    quick_trials=3,
    guess=guess,
    play=play,
)
