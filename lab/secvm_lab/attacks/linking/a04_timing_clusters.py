"""A4: packages that come together belong together.

A device that sends its packages one after another makes a cluster in time. The attacker sorts what arrived and cuts at
the longest pauses, as often as there are devices. With the defence every package of every kind draws its own time over
the whole window (``protocol.schedule.spread``), so which package came after which tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.statistics import adjusted_rand, average
from secvm_lab.attacks.views import CoordinatorView, KnownCrowd, Opened

#: A small round: fewer devices are easier to tell apart.
DEVICES, PACKAGES = 30, 20
WINDOW = Window(opens_at=0, closes_at=600_000)
#: Between two packages of a device that sends them one after another, in milliseconds: a request and its answer.
PAUSE = 40


def guess(view: CoordinatorView, knowing: KnownCrowd) -> tuple[int, ...]:
    """A group for every package of the first round, in the order of the view."""
    arrived = np.array([package.arrived_at or 0 for package in view.rounds[0].packages])
    order = np.argsort(arrived, kind="stable")
    pauses = np.diff(arrived[order])
    # The longest pauses are between devices. Ties are cut at the first ones.
    cuts = np.sort(np.argsort(-pauses, kind="stable")[: knowing.devices - 1])
    groups = np.zeros(len(arrived), dtype=np.int64)
    groups[order] = np.searchsorted(cuts, np.arange(len(arrived)), side="left")
    return tuple(int(group) for group in groups)


def times_of_a_device(dice: np.random.Generator, drawn: Iterator[int], *, defended: bool) -> list[int]:
    """When one device sends its packages."""
    if defended:
        return spread(PACKAGES, WINDOW, drawn)
    pauses = np.cumsum(dice.integers(1, 2 * PAUSE, size=PACKAGES))
    return [int(t) for t in dice.integers(WINDOW.closes_at - PACKAGES * 2 * PAUSE) + pauses]


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round of so many devices in each trial."""
    dice = generator(seed, 4, defended=defended)
    drawn = words(dice)
    found = []
    for _ in range(trials):
        times = [(t, who) for who in range(DEVICES) for t in times_of_a_device(dice, drawn, defended=defended)]
        view, senders = mixed_round(((Opened("train", 0, 1.0, arrived_at=t), who) for t, who in times), drawn)
        found.append(adjusted_rand(guess(view, KnownCrowd(DEVICES)), senders))
        advance(1)
    mean, (low, high) = average(found)
    # Chance goes below 0 too; the scale of the report begins there.
    return Measurement(
        max(0.0, mean), (max(0.0, low), max(0.0, high)), trials, {"mean_before_cutting_at_0": mean, "devices": DEVICES}
    )


ATTACK = Attack(
    number=4,
    title="timing clusters",
    slug="timing-clusters",
    needs="The coordinator, behind a relay that hands on each capsule when it comes (none of ours does: the lab stands"
    " in for one); the number of devices, which is public.",
    steps=("Sort packages by their arrival.", "Cut at the longest pauses, as often as there are devices."),
    metric="adjusted Rand index of the groups",
    chance=0.0,
    defence="Every package of every kind draws its own time over the whole window; and relays hold packages and hand on"
    " a whole epoch at once, which is not played here.",
    remains="The relay itself sees times: a device that sleeps and wakes draws the rest of its own over less of the"
    " window.",
    goal=goal(defended_at_most=0.01),
    trials=200,
    quick_trials=20,
    guess=guess,
    play=play,
)
