"""A7: a bin is a hash, and whoever has a dictionary hashes all of it.

Thousands of words share a bin, but traffic is not spread evenly over words: the most popular word of the bin is a good
guess (``privacy.bin_posterior``). The target is alone in a round, as in A0 or A9, with one word drawn as words are.
Without cover its bin is the one that is not empty. With cover the attacker weighs every word by its popularity and by
the likelihood of its bin's count; mostly that is the most popular word of all, which it could have named without
looking.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from secvm.privacy.accounting.accountant import Adjacency
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import EPSILONS, Setting, batches, draw_cover_counts, goal_within
from secvm_lab.attacks.counting.likelihood import KnownDictionary, look, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import average
from secvm_lab.attacks.views import CoordinatorView, PublicView, RoundSeen
from secvm_lab.privacy.bin_posterior import bin_posterior

SETTING = Setting(people=10_000, bins=1_000, features=100, rounds=2)
WORDS = 20_000
_BATCH = 250


def guess(view: CoordinatorView, knowing: KnownDictionary) -> NDArray[np.int64]:
    """The likeliest word of the target; its packages are plus."""
    top = _top(knowing)
    score = np.log(knowing.popularity[top])
    table = unit_table(knowing.cover)
    for seen in view.rounds:
        score = score + look(table, seen.counts[..., 0, :-1, 1][..., knowing.bins[top]])
    found: NDArray[np.int64] = top[np.argmax(score, axis=-1)]
    return found


def _top(knowing: KnownDictionary) -> NDArray[np.int64]:
    """The most popular word of each bin that has one; words are sorted by popularity."""
    _, first = np.unique(knowing.bins, return_index=True)
    return first.astype(np.int64)


@cache
def dictionary() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Words by Zipf's law, and their bins by the real hash."""
    popularity = 1 / np.arange(1, WORDS + 1)
    public = PublicView(salt=b"a salt that nobody chose", bins=SETTING.bins)
    return popularity / popularity.sum(), public.bins_of([f"w{i:07}" for i in range(WORDS)])


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """How much more often the word is named than by naming the most popular word."""
    dice = generator(seed, 7, defended=defended)
    popularity, bins = dictionary()
    cover = SETTING.laws[0] if defended else None
    knowing = KnownDictionary(popularity, bins, cover)
    named, true = [], []
    for plays in batches(trials, _BATCH):
        words = dice.choice(WORDS, size=plays, p=popularity)
        seen = []
        for _ in range(SETTING.rounds):
            counts = np.zeros((plays, 1, SETTING.bins + 1, 2), dtype=np.int64)
            counts[np.arange(plays), 0, bins[words], 1] += 1
            counts[:, 0, -1, 1] += 1
            if cover is not None:
                counts += draw_cover_counts(dice, cover, counts.shape)
            seen.append(RoundSeen(counts=counts))
        named.append(guess(CoordinatorView(tuple(seen)), knowing))
        true.append(words)
        advance(plays)
    words = np.concatenate(true)
    right = (np.concatenate(named) == words).astype(np.float64)
    gain, (low, high) = average(right - (words == 0))
    detail: dict[str, int | float | str | bool | None] = {
        "top_1_accuracy": float(right.mean()),
        "popularity_prior": float(popularity[0]),
        "gain_before_cutting_at_0": gain,
        "expected_without_cover": bin_posterior(popularity, SETTING.bins),
        "words": WORDS,
        "bins": SETTING.bins,
    }
    if defended:
        detail |= {"accountant_gain": _bound(float(popularity[0])), "epsilon": SETTING.plan.achieved}
    return Measurement(max(0.0, gain), (max(0.0, low), max(0.0, high)), trials, detail)


def _bound(prior: float) -> float:
    """At each ε a word is named at most e^ε times as often as without its unit, plus δ(ε)."""
    mechanism = SETTING.plan.mechanism

    def most(epsilon: float) -> float:
        lost = mechanism.delta(epsilon, adjacency=Adjacency.ZERO_OUT)
        return math.exp(epsilon) * prior + lost

    return min(most(epsilon) for epsilon in EPSILONS) - prior


ATTACK = Attack(
    number=7,
    title="hash dictionary",
    slug="hash-dictionary",
    needs="The coordinator, which has a dictionary with the popularity of its words and looks at one person's packages"
    " (A0, A9).",
    steps=("Hash the whole dictionary.", "Name the likeliest word, given its popularity and its bin's count."),
    metric="top-1 accuracy above the popularity prior",
    chance=0.0,
    defence="Cover: counts say so little that popularity alone decides.",
    remains="Words whose popularity is public stay guessable by popularity, with or without this system.",
    goal=goal_within(0.2, bound="accountant_gain"),
    trials=5_000,
    quick_trials=500,
    guess=guess,
    play=play,
)
