"""A45: a device that is shown to be alone in a round, by whatever means: late manifests, another experiment, Sybils."""

from __future__ import annotations

from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import goal_within
from secvm_lab.attacks.counting.likelihood import label_ratio
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.relayed.lone_device import device_cover, relay_cover


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Under cover that devices add themselves, and under the honest relay's, the mixing one's."""
    dice = generator(seed, 45, defended=defended)
    found = relay_cover(dice, trials, "mix") if defended else device_cover(dice, trials)
    advance(trials)
    return Measurement(found.auc, found.interval, trials, {"accountant_auc": found.allowed})


TRAPS = (
    Attack(
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
    ),
)
