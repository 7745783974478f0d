"""A6: a hash, or a number of bins, that was chosen to single a word out.

Hashing hides a word among others of its bin. A coordinator that picks the salt itself tries salts until the word it is
after stands alone; one that picks the number of bins takes a million. With the defence the salt is made of public
randomness from after the experiment was logged, and the document pins the number of bins. Lies about both are told to
whole devices; what is left is chance, and to log many experiments and run the best (the curve).
"""

from __future__ import annotations

import numpy as np

from secvm_lab.attacks.attack import Advance, Attack, Curve, Goal, Measurement, Point
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.linking.lies import tell
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import KnownDictionary, PublicView

WORDS, BINS = 500, 100
#: So many salts are tried.
TRIES = 2_000
MANY_BINS = 2**20
#: Experiments that a patient coordinator logs, of which it runs one.
LOGGED = (1, 10, 100)
LIES = ("forged-salt", "beacon-already-known", "changed-bins", "changed-salt")
#: One lie to a whole device for so many trials: it takes longer.
LIE_EVERY = 4
#: That none of the other words falls into the target's bin.
CHANCE = (1 - 1 / BINS) ** (WORDS - 1)


def guess(view: PublicView, knowing: KnownDictionary) -> bool:
    """Whether the target stands alone in its bin: then whoever visits the bin has the word."""
    bins = view.bins_of(knowing.words)
    return bool((bins == bins[knowing.words.index(knowing.target)]).sum() == 1)


def draw_words(dice: np.random.Generator, count: int) -> tuple[str, ...]:
    """Different words of eight letters."""
    letters = dice.permuted(np.tile(np.arange(97, 123, dtype=np.uint8), (2 * count, 1)), axis=1)[:, :8]
    different = dict.fromkeys(bytes(row).decode() for row in letters)
    return tuple(different)[:count]


def choose(dice: np.random.Generator, knowing: KnownDictionary, tries: int) -> PublicView:
    """The first salt under which the target stands alone, or the last that was tried."""
    view = PublicView(salt=dice.bytes(32), bins=BINS)
    for _ in range(tries - 1):
        if guess(view, knowing):
            break
        view = PublicView(salt=dice.bytes(32), bins=BINS)
    return view


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A dictionary and a target in each trial."""
    dice = generator(seed, 6, defended=defended)
    alone, with_many_bins = 0, 0
    by_patience = dict.fromkeys(LOGGED, 0)
    for _ in range(trials):
        words = draw_words(dice, WORDS)
        knowing = KnownDictionary(words, words[int(dice.integers(WORDS))])
        if defended:
            for logged in LOGGED:
                by_patience[logged] += guess(choose(dice, knowing, logged), knowing)
        else:
            alone += guess(choose(dice, knowing, TRIES), knowing)
            with_many_bins += guess(PublicView(salt=dice.bytes(32), bins=MANY_BINS), knowing)
        advance(1)
    if not defended:
        detail = {"salts_tried_at_most": TRIES, "alone_among_a_million_bins": with_many_bins / trials}
        return Measurement(alone / trials, wilson(alone, trials), trials, detail)
    told = tell(LIES, max(len(LIES), trials // LIE_EVERY), seed, lambda _: None)
    points = [Point(str(n), hits / trials, wilson(hits, trials)) for n, hits in by_patience.items()]
    return Measurement(
        points[0].value,
        points[0].ci95,
        trials,
        {**told.detail, "by_chance": CHANCE},
        Curve("experiments logged, of which the best is run", tuple(points)),
    )


ATTACK = Attack(
    number=6,
    title="chosen hash or bin count",
    slug="chosen-hash",
    needs="The coordinator, if it may pick the salt or the number of bins, and a dictionary.",
    steps=("Try salts until the target's word stands alone in its bin.", "Or take a million bins."),
    metric="share of targets alone in their bin",
    chance=round(CHANCE, 4),
    defence="The salt is made of public randomness from after the experiment was logged; the document pins bins and"
    " hashes. Whatever does not follow is refused before the first package.",
    remains="Who logs many experiments and runs the one it likes gets as many tries; the log shows them.",
    goal=Goal(
        "without the defence at least 0.99; with it no lie is believed, and at most 0.05 (chance is 0.007)",
        lambda undefended, defended: (
            undefended.value >= 0.99 and defended.value <= 0.05 and defended.detail["lies_believed"] == 0
        ),
    ),
    trials=200,
    quick_trials=60,
    guess=guess,
    play=play,
)
