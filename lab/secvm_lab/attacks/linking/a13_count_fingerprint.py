"""A13: how many packages somebody sends says what they are.

A relay sees who sends how much. Without padding whoever violates the margin sends an update, whoever does not sends one
participation package; and a long text sends more than a short one. With the defence everybody sends exactly B packages
of one size. Devices are real (``individual.contribution.contribute``); some are switched off in mid-window.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Package, TrainPackage
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import draw_person, draw_size, draw_weights, generator, plain_experiment, words
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import NOTHING, Deposit, Nothing, RelayView

DEVICES, BINS, MOST, BUDGET = 100, 200, 60, 64
WINDOW = Window(opens_at=0, closes_at=600_000)
#: This share of devices is switched off at some moment of the window, whatever they send.
SWITCHED_OFF = 0.1
#: Weights of this size let about half of the people violate the margin.
SIZE = 0.8


def guess(view: RelayView, knowing: Nothing) -> dict[str, float]:
    """For each client how likely it violates the margin: the more it sends, the likelier."""
    del knowing
    sent: dict[str, float] = {}
    for deposit in view.deposits:
        sent[deposit.who] = sent.get(deposit.who, 0.0) + deposit.size
    return sent


def sent_by(dice: np.random.Generator, drawn: Iterator[int], packages: list[Package], who: str) -> list[Deposit]:
    """What the relay sees of one device."""
    off = int(dice.integers(WINDOW.closes_at)) if dice.random() < SWITCHED_OFF else WINDOW.closes_at
    times = spread(len(packages), WINDOW, drawn)
    return [Deposit(who, at, CAPSULE_BYTES) for at in times if at < off]


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A crowd in each trial."""
    dice = generator(seed, 13, defended=defended)
    drawn = words(dice)
    experiment = plain_experiment(BINS, budget=BUDGET if defended else None)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for trial in range(trials):
        weights = draw_weights(dice, BINS, size=SIZE)
        violates, deposits = {}, []
        for device in range(DEVICES):
            person = draw_person(dice, BINS, draw_size(dice, MOST))
            own = UnsafeSeededDice(bytes(8), device)
            packages = contribute(
                person, experiment=experiment, training=weights, evaluation=weights, dice=own, round_number=trial + 1
            )
            violates[str(device)] = any(isinstance(package, TrainPackage) for package in packages)
            deposits += sent_by(dice, drawn, packages, str(device))
        found = guess(RelayView(tuple(deposits)), NOTHING)
        for who, violated in violates.items():
            scores[violated].append(found.get(who, 0.0))
        advance(1)
    value, interval = auc(scores[True], scores[False])
    told = {"violators": len(scores[True]), "others": len(scores[False]), "switched_off_share": SWITCHED_OFF}
    return Measurement(value, interval, trials, told)


ATTACK = Attack(
    number=13,
    title="count fingerprint at the relay",
    slug="count-fingerprint",
    needs="The relay: it knows its clients and counts what each of them leaves.",
    steps=("Add up the bytes of each client.", "Who sends more is the likelier violator."),
    metric="AUC of violator or not",
    chance=0.5,
    defence="Everybody sends exactly B packages of one size, padded with nulls that look like all others.",
    remains="A device that is switched off in mid-window sends less, whatever it has to say.",
    goal=goal(undefended_at_least=0.9, defended_at_most=0.52),
    trials=60,
    quick_trials=20,
    guess=guess,
    play=play,
)
