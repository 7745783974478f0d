"""A5: participation and test packages that leave at once.

The client of 2018 delayed train packages alone. Who fetches the weights and is answered for within a second has told
its class. The attacker knows when somebody fetched (its relay, or its own servers) and takes the participation package
that came first after that. With the defence a fetch is not in the window at all, and every kind is scheduled alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import CoordinatorView, KnownTimes, Opened

DEVICES = 50
WINDOW = Window(opens_at=0, closes_at=600_000)
#: Fetches come before the window, or (without the defence) at any time in it.
BEFORE = 300_000
#: From a fetch to the package that leaves at once, in milliseconds.
AT_ONCE = 1_000


def guess(view: CoordinatorView, knowing: KnownTimes) -> tuple[float, ...]:
    """How likely each participation package is the target's: the sooner after its fetch, the likelier."""
    (fetched,) = knowing.times
    waited = [(package.arrived_at or 0) - fetched for package in view.rounds[0].packages]
    return tuple(-float(wait) if wait >= 0 else -2.0 * WINDOW.closes_at + wait for wait in waited)


def fetch_and_send(dice: np.random.Generator, drawn: Iterator[int], *, defended: bool) -> tuple[int, int]:
    """When a device fetches the weights, and when its participation package arrives."""
    if defended:
        return WINDOW.opens_at - int(dice.integers(BEFORE)), spread(1, WINDOW, drawn)[0]
    fetched = int(dice.integers(WINDOW.closes_at - AT_ONCE))
    return fetched, fetched + int(dice.integers(50, AT_ONCE))


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial, and one device of it as the target."""
    dice = generator(seed, 5, defended=defended)
    drawn = words(dice)
    target: list[float] = []
    others: list[float] = []
    first = 0
    for _ in range(trials):
        moments = [fetch_and_send(dice, drawn, defended=defended) for _ in range(DEVICES)]
        sent = [(Opened("participation", 0, 1.0, arrived_at=at), who) for who, (_, at) in enumerate(moments)]
        view, senders = mixed_round(sent, drawn)
        scores, ours = guess(view, KnownTimes((moments[0][0],))), senders.index(0)
        # One of the others a trial: they share the target's fetch, and would not be independent of each other.
        target.append(_rank(scores, ours))
        others.append(_rank(scores, ours + 1 if ours + 1 < len(scores) else ours - 1))
        first += scores[ours] == max(scores)
        advance(1)
    value, interval = auc(target, others)
    return Measurement(value, interval, trials, {"named_at_first_try": first / trials, "devices": DEVICES})


def _rank(scores: tuple[float, ...], place: int) -> float:
    """How many score below: comparable between rounds."""
    return float(sum(score < scores[place] for score in scores))


ATTACK = Attack(
    number=5,
    title="participation or test package sent at once",
    slug="sent-at-once",
    needs="The coordinator, behind a relay that hands on at once (none of ours does: the lab stands in for one), and"
    " the moment at which the target fetched the weights.",
    steps=("Note when the target fetched.", "Take the participation or test package that came next."),
    metric="AUC of linking a fetch to a package",
    chance=0.5,
    defence="Fetches come before the window, and packages of every kind draw their times alike over all of it.",
    goal=goal(undefended_at_least=0.95, defended_at_most=0.52),
    trials=10_000,
    quick_trials=5_000,
    guess=guess,
    play=play,
)
