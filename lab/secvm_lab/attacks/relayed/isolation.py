"""A45: a device that is shown to be alone in a round, by whatever means: late manifests, another experiment, Sybils.

One device in a round, and everybody else a liar: what a coordinator learns of it together with one of the relays.

The attackers know what all others sent, because they sent it, and the colluding relay's cover, and take both off the
net tally. What stays is the device's own packages and S - 1 parts of the honest relay's cover. They ask for the
device's label and know all its bins; under weights of zero it sends whatever its label is. Their score is the exact
likelihood ratio (``counting.likelihood``), so that nobody does better.

Nothing of that is replaced by its law: the device's packages are its own code's, parts are drawn from seeds as a relay
draws them, label, roots and the opened part with them. Packages are counted, not sealed. The roots are the attackers'
choice, since they choose what comes to the honest relay.

``device_cover`` plays the same game under cover that devices add themselves, each a share of what many would add
together: alone among liars a device has its own share, and that hides next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from secvm.crypto.sealing.part_streams import SEED_BYTES
from secvm.estimator.round_cover import ROLES, CoverOrigin, part_counts
from secvm.learning.arithmetic import exact
from secvm.learning.drawn_part import tally_of
from secvm.learning.experiment import Experiment
from secvm.participant.dice import SystemDice
from secvm.privacy.target import PrivacyTarget
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import (
    DELTA,
    LABELS,
    Counts,
    Setting,
    goal_within,
    person_with,
    sent,
    zeros,
)
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownRest, label_ratio
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, RoundSeen
from secvm_lab.baselines.device_cover import draw_devices, plan_devices

#: The relay that is honest: the other one is with the coordinator.
Honest = Literal["entry", "mix"]
#: A world small enough to draw every part of every play: two rounds of three words.
SMALL = Setting(people=1, bins=3, features=3, rounds=2)
#: People that devices' cover would be planned for.
PLANNED_FOR = 10_000


def relay_cover(dice: np.random.Generator, plays: int, honest: Honest) -> tuple[Floats, Floats]:
    """Scores of so many plays, half with label yes and half with no, under the cover of the honest relay."""
    experiment, parts = SMALL.experiment(covered=True), SMALL.plan.cover.parts
    relay = ROLES.index(honest)

    def unknown() -> tuple[Counts, Counts]:
        label, *roots = (dice.bytes(SEED_BYTES) for _ in range(3))
        seeds = tuple(tuple(dice.bytes(SEED_BYTES) for _ in range(parts)) for _ in ROLES)
        origin = CoverOrigin(label, (roots[0], roots[1]), int(dice.integers(parts)), (seeds[0], seeds[1]))
        drawn = [part_counts(experiment, origin, relay, part) for part in range(parts) if part != origin.opened]
        tally = tally_of(experiment, tuple(np.sum(kind, axis=0) for kind in zip(*drawn, strict=True)))
        return np.stack([tally.minus, tally.plus], axis=-1), tally.participants

    return _played(dice, plays, experiment, SMALL.laws, unknown)


def device_cover(dice: np.random.Generator, plays: int) -> tuple[Floats, Floats]:
    """The same under cover that was planned for many honest devices, of which this one is there alone."""
    made = plan_devices(
        PrivacyTarget(exact(SMALL.epsilon), exact(DELTA)),
        honest=PLANNED_FOR,
        bins=SMALL.bins,
        features=SMALL.features,
        rounds=SMALL.rounds,
    )
    train, here = (CoverLaw(float(noise.share), noise.p) for noise in (made.train, made.participation))

    def unknown() -> tuple[Counts, Counts]:
        # Its own share, and nobody else's.
        own = draw_devices(dice, made.train, 1, (1, SMALL.bins + 1, 2))
        return own, draw_devices(dice, made.participation, 1, (len(LABELS),))

    return _played(dice, plays, SMALL.experiment(covered=False), (train, here), unknown)


def _played(
    dice: np.random.Generator,
    plays: int,
    experiment: Experiment,
    laws: tuple[CoverLaw, CoverLaw],
    unknown: Callable[[], tuple[Counts, Counts]],
) -> tuple[Floats, Floats]:
    """``unknown`` draws what the attackers do not know of one round's cover: train counts, and participants."""
    nothing = np.zeros((1, SMALL.bins + 1, 2), dtype=np.int64)
    bins = tuple(range(SMALL.features))
    knowing = KnownRest(bins, (nothing,) * SMALL.rounds, (0, 0), *laws)
    thrown = SystemDice(dice.bytes)
    scores: tuple[list[float], list[float]] = ([], [])
    for play in range(plays):
        label = play % 2
        seen = []
        for number in range(1, SMALL.rounds + 1):
            person = person_with(bins, label, SMALL.bins)
            counts, participants = sent(experiment, person, zeros(SMALL), thrown, number)
            more, here = unknown()
            seen.append(RoundSeen(counts=counts + more, participants=participants + here))
        scores[label].append(float(label_ratio(CoordinatorView(tuple(seen)), knowing)))
    return np.array(scores[1]), np.array(scores[0])


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Under cover that devices add themselves, and under the honest relay's, the mixing one's."""
    dice = generator(seed, 45, defended=defended)
    scores = relay_cover(dice, trials, "mix") if defended else device_cover(dice, trials)
    advance(trials)
    return Measurement(*auc(*scores), trials, {"accountant_auc": SMALL.auc_bound()})


ATTACK = Attack(
    number=45,
    title="isolated device",
    slug="isolated-device",
    needs="Coordinator, one relay and all other devices (F2).",
    steps=(
        "Show a manifest to one device in time, and to all others too late.",
        "Or fill the round with devices of their own.",
        "Take all that they know off the tally; what stays is the device's.",
    ),
    metric="AUC of the label",
    chance=0.5,
    defence="The honest relay adds its whole cover to every batch, whoever and how many are in it.",
    goal=goal_within(0.9),
    trials=2_000,
    quick_trials=100,
    guess=label_ratio,
    play=play,
)
