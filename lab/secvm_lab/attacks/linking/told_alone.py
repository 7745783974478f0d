"""Attacks by what one device alone is told, or everybody for the sake of one: weights and hashes.

A2: one device gets weights of its own.

Weights decide who sends. A large bias puts everybody with the label "yes" far beyond the margin: they send nothing, and
all updates are negative. One device gets zeros instead, under which it sends in any case. If anything positive comes,
it is that device's, and its label is "yes"; if nothing does, it is "no". Without the defence a device takes what it is
given. With it, a round counts only under a log that witnesses cosigned, follows from the published tallies, and is
fetched again in the window: lies of four sorts are told to whole devices, and none may send a package.

A6: a hash, or a number of bins, that was chosen to single a word out.

Hashing hides a word among others of its bin. A coordinator that picks the salt itself tries salts until the word it is
after stands alone; one that picks the number of bins takes a million. With the defence the salt is made of public
randomness from after the experiment was logged, and the document pins the number of bins. Lies about both are told to
whole devices; what is left is chance, and to log many experiments and run the best (the curve).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from secvm.learning.individual.contribution import Individual, train_packages
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.weights import Weights
from secvm_lab.attacks.attack import Advance, Attack, Curve, Goal, Measurement, Point
from secvm_lab.attacks.drawing import draw_person, draw_size, generator, plain_experiment
from secvm_lab.attacks.linking.lies import tell
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import NOTHING, CoordinatorView, KnownDictionary, Nothing, Opened, PublicView, RoundSeen

# ── A2 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES, BINS_WEIGHTS, MOST = 40, 200, 60
EXPERIMENT = plain_experiment(BINS_WEIGHTS)
LIES_WEIGHTS = ("different-weights", "two-manifests", "rewritten-past", "forked-log")
#: Zeros, as in a first round: whoever gets them sends an update.
ZEROS = Weights(np.zeros((1, BINS_WEIGHTS + 1), dtype=np.int32), Fraction(1), first=True)


def guess_weights(view: CoordinatorView, knowing: Nothing) -> int:
    """The label of the one who got zeros: nobody else can send anything positive."""
    del knowing
    return int(any(package.value > 0 for package in view.rounds[0].packages))


def silencing() -> Weights:
    """Weights under which everybody with the second label is far beyond the margin: a large bias."""
    mantissas = np.zeros((1, BINS_WEIGHTS + 1), dtype=np.int32)
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
            other = draw_person(dice, BINS_WEIGHTS, draw_size(dice, MOST))
            packages += update_of(other, silencing(), device, trial + 1)
        target = draw_person(dice, BINS_WEIGHTS, draw_size(dice, MOST))
        packages += update_of(target, ZEROS, 0, trial + 1)
        learnt += guess_weights(CoordinatorView((RoundSeen(packages=tuple(packages)),)), NOTHING) == target.label
        advance(1)
    return learnt, trials


def play_weights(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Labels learnt; a lie that is believed counts as one, whatever comes of it."""
    if not defended:
        learnt, told = believing(trials, seed, advance)
        return Measurement(learnt / told, wilson(learnt, told), trials, {"lies_told": told, "lies_believed": told})
    found = tell(LIES_WEIGHTS, trials, seed, advance)
    return Measurement(found.believed / found.told, wilson(found.believed, found.told), trials, found.detail)


WEIGHTS = Attack(
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
    guess=guess_weights,
    play=play_weights,
)


# ── A6 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

WORDS, BINS_HASH = 500, 100
#: So many salts are tried.
TRIES = 2_000
MANY_BINS = 2**20
#: Experiments that a patient coordinator logs, of which it runs one.
LOGGED = (1, 10, 100)
LIES_HASH = ("forged-salt", "beacon-already-known", "changed-bins", "changed-salt")
#: One lie to a whole device for so many trials: it takes longer.
LIE_EVERY = 4
#: That none of the other words falls into the target's bin.
CHANCE = (1 - 1 / BINS_HASH) ** (WORDS - 1)


def guess_hash(view: PublicView, knowing: KnownDictionary) -> bool:
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
    view = PublicView(salt=dice.bytes(32), bins=BINS_HASH)
    for _ in range(tries - 1):
        if guess_hash(view, knowing):
            break
        view = PublicView(salt=dice.bytes(32), bins=BINS_HASH)
    return view


def play_hash(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A dictionary and a target in each trial."""
    dice = generator(seed, 6, defended=defended)
    alone, with_many_bins = 0, 0
    by_patience = dict.fromkeys(LOGGED, 0)
    for _ in range(trials):
        words = draw_words(dice, WORDS)
        knowing = KnownDictionary(words, words[int(dice.integers(WORDS))])
        if defended:
            for logged in LOGGED:
                by_patience[logged] += guess_hash(choose(dice, knowing, logged), knowing)
        else:
            alone += guess_hash(choose(dice, knowing, TRIES), knowing)
            with_many_bins += guess_hash(PublicView(salt=dice.bytes(32), bins=MANY_BINS), knowing)
        advance(1)
    if not defended:
        detail = {"salts_tried_at_most": TRIES, "alone_among_a_million_bins": with_many_bins / trials}
        return Measurement(alone / trials, wilson(alone, trials), trials, detail)
    told = tell(LIES_HASH, max(len(LIES_HASH), trials // LIE_EVERY), seed, lambda _: None)
    points = [Point(str(n), hits / trials, wilson(hits, trials)) for n, hits in by_patience.items()]
    return Measurement(
        points[0].value,
        points[0].ci95,
        trials,
        {**told.detail, "by_chance": CHANCE},
        Curve("experiments logged, of which the best is run", tuple(points)),
    )


HASH = Attack(
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
    guess=guess_hash,
    play=play_hash,
)
