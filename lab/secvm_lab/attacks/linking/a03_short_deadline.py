"""A3: one device gets a short deadline.

A coordinator that tells one device an earlier end of the window finds its packages at the beginning: early is victim.
With the defence windows are absolute times in a manifest that everybody gets, and at least as long as the experiment
says. The lie is told to whole devices, none of which may send; and what is left to the attacker is the same ranking
where everybody has the same window.
"""

from __future__ import annotations

from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Goal, Measurement
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.linking.lies import tell
from secvm_lab.attacks.statistics import auc
from secvm_lab.attacks.views import NOTHING, CoordinatorView, Nothing, Opened

DEVICES, PACKAGES = 30, 20
WINDOW = Window(opens_at=0, closes_at=600_000)
SHORT = Window(opens_at=0, closes_at=30_000)
#: One lie to a whole device for so many rounds: it takes as long.
LIE_EVERY = 4


def guess(view: CoordinatorView, knowing: Nothing) -> tuple[float, ...]:
    """How likely each package is the victim's: the earlier, the likelier."""
    del knowing
    return tuple(-float(package.arrived_at or 0) for package in view.rounds[0].packages)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial; with the defence, lies besides."""
    drawn = words(generator(seed, 3, defended=defended))
    victims: list[float] = []
    others: list[float] = []
    for _ in range(trials):
        windows = [WINDOW if defended or who else SHORT for who in range(DEVICES)]
        times = [(at, who) for who, window in enumerate(windows) for at in spread(PACKAGES, window, drawn)]
        view, senders = mixed_round(((Opened("train", 0, 1.0, arrived_at=at), who) for at, who in times), drawn)
        for score, who in zip(guess(view, NOTHING), senders, strict=True):
            (others if who else victims).append(score)
        advance(1)
    value, interval = auc(victims, others)
    if not defended:
        return Measurement(value, interval, trials, {"share_of_the_window": SHORT.closes_at / WINDOW.closes_at})
    found = tell(("shorter-window",), max(1, trials // LIE_EVERY), seed, lambda _: None)
    return Measurement(value, interval, trials, found.detail)


ATTACK = Attack(
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
    guess=guess,
    play=play,
)
