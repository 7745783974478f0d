"""Attacks by times: what comes early, together, or soon after a fetch.

A3: one device gets a short deadline.

A coordinator that tells one device an earlier end of the window finds its packages at the beginning: early is victim.
With the defence windows are absolute times in a manifest that everybody gets, and at least as long as the experiment
says. The lie is told to whole devices, none of which may send; and what is left to the attacker is the same ranking
where everybody has the same window.

A4: packages that come together belong together.

A device that sends its packages one after another makes a cluster in time. The attacker sorts what arrived and cuts at
the longest pauses, as often as there are devices. With the defence every package of every kind draws its own time over
the whole window (``protocol.schedule.spread``), so which package came after which tells nothing.

A5: participation and test packages that leave at once.

The client of 2018 delayed train packages alone. Who fetches the weights and is answered for within a second has told
its class. The attacker knows when somebody fetched (its relay, or its own servers) and takes the participation package
that came first after that. With the defence a fetch is not in the window at all, and every kind is scheduled alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Goal, Measurement, goal
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.linking.lies import tell
from secvm_lab.attacks.statistics import adjusted_rand, auc, average
from secvm_lab.attacks.views import NOTHING, CoordinatorView, KnownCrowd, KnownTimes, Nothing, Opened

# ── A3 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES_DEADLINE, PACKAGES = 30, 20
WINDOW = Window(opens_at=0, closes_at=600_000)
SHORT = Window(opens_at=0, closes_at=30_000)
#: One lie to a whole device for so many rounds: it takes as long.
LIE_EVERY = 4


def guess_deadline(view: CoordinatorView, knowing: Nothing) -> tuple[float, ...]:
    """How likely each package is the victim's: the earlier, the likelier."""
    del knowing
    return tuple(-float(package.arrived_at or 0) for package in view.rounds[0].packages)


def play_deadline(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial; with the defence, lies besides."""
    drawn = words(generator(seed, 3, defended=defended))
    victims: list[float] = []
    others: list[float] = []
    for _ in range(trials):
        windows = [WINDOW if defended or who else SHORT for who in range(DEVICES_DEADLINE)]
        times = [(at, who) for who, window in enumerate(windows) for at in spread(PACKAGES, window, drawn)]
        view, senders = mixed_round(((Opened("train", 0, 1.0, arrived_at=at), who) for at, who in times), drawn)
        for score, who in zip(guess_deadline(view, NOTHING), senders, strict=True):
            (others if who else victims).append(score)
        advance(1)
    value, interval = auc(victims, others)
    if not defended:
        return Measurement(value, interval, trials, {"share_of_the_window": SHORT.closes_at / WINDOW.closes_at})
    found = tell(("shorter-window",), max(1, trials // LIE_EVERY), seed, lambda _: None)
    return Measurement(value, interval, trials, found.detail)


DEADLINE = Attack(
    number=3,
    title="short deadline for one device",
    slug="short-deadline",
    needs="The coordinator, behind a relay that hands on at once (none of ours does: the lab stands in for one), and a"
    " way to tell one device another window.",
    steps=("Tell the target that the window ends soon.", "What comes early is the target's."),
    metric="AUC of early = victim",
    chance=0.5,
    defence="Windows are absolute times in a logged manifest, and their length is the experiment's: another window is"
    " refused before the first package.",
    remains="A manifest that most are shown too late: who comes late abstains.",
    goal=Goal(
        "without the defence at least 0.95; with it no lie is believed, and at most 0.53",
        lambda undefended, defended: (
            undefended.value >= 0.95 and defended.value <= 0.53 and defended.detail["lies_believed"] == 0
        ),
    ),
    trials=200,
    quick_trials=60,
    guess=guess_deadline,
    play=play_deadline,
)


# ── A4 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: A small round: fewer devices are easier to tell apart.
DEVICES_CLUSTERS, PACKAGES = 30, 20
#: Between two packages of a device that sends them one after another, in milliseconds: a request and its answer.
PAUSE = 40


def guess_clusters(view: CoordinatorView, knowing: KnownCrowd) -> tuple[int, ...]:
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


def play_clusters(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round of so many devices in each trial."""
    dice = generator(seed, 4, defended=defended)
    drawn = words(dice)
    found = []
    for _ in range(trials):
        times = [(t, who) for who in range(DEVICES_CLUSTERS) for t in times_of_a_device(dice, drawn, defended=defended)]
        view, senders = mixed_round(((Opened("train", 0, 1.0, arrived_at=t), who) for t, who in times), drawn)
        found.append(adjusted_rand(guess_clusters(view, KnownCrowd(DEVICES_CLUSTERS)), senders))
        advance(1)
    mean, (low, high) = average(found)
    # Chance goes below 0 too; the scale of the report begins there.
    return Measurement(
        max(0.0, mean),
        (max(0.0, low), max(0.0, high)),
        trials,
        {"mean_before_cutting_at_0": mean, "devices": DEVICES_CLUSTERS},
    )


CLUSTERS = Attack(
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
    guess=guess_clusters,
    play=play_clusters,
)


# ── A5 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES_AT_ONCE = 50
#: Fetches come before the window, or (without the defence) at any time in it.
BEFORE = 300_000
#: From a fetch to the package that leaves at once, in milliseconds.
AT_ONCE = 1_000


def guess_at_once(view: CoordinatorView, knowing: KnownTimes) -> tuple[float, ...]:
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


def play_at_once(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial, and one device of it as the target."""
    dice = generator(seed, 5, defended=defended)
    drawn = words(dice)
    target: list[float] = []
    others: list[float] = []
    first = 0
    for _ in range(trials):
        moments = [fetch_and_send(dice, drawn, defended=defended) for _ in range(DEVICES_AT_ONCE)]
        sent = [(Opened("participation", 0, 1.0, arrived_at=at), who) for who, (_, at) in enumerate(moments)]
        view, senders = mixed_round(sent, drawn)
        scores, ours = guess_at_once(view, KnownTimes((moments[0][0],))), senders.index(0)
        # One of the others a trial: they share the target's fetch, and would not be independent of each other.
        target.append(_rank(scores, ours))
        others.append(_rank(scores, ours + 1 if ours + 1 < len(scores) else ours - 1))
        first += scores[ours] == max(scores)
        advance(1)
    value, interval = auc(target, others)
    return Measurement(value, interval, trials, {"named_at_first_try": first / trials, "devices": DEVICES_AT_ONCE})


def _rank(scores: tuple[float, ...], place: int) -> float:
    """How many score below: comparable between rounds."""
    return float(sum(score < scores[place] for score in scores))


SENT_AT_ONCE = Attack(
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
    guess=guess_at_once,
    play=play_at_once,
)
