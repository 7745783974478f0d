"""Attacks on one person whose cell or round has nobody else in it.

A7: a bin is a hash, and whoever has a dictionary hashes all of it.

Thousands of words share a bin, but traffic is not spread evenly over words: the most popular word of the bin is a good
guess (``privacy.bin_posterior``). The target is alone in a round, as in A0 or A9, with one word drawn as words are.
Without cover its bin is the one that is not empty. With cover the attacker weighs every word by its popularity and by
the likelihood of its bin's count; mostly that is the most popular word of all, which it could have named without
looking.

A8: a bin that hardly anybody visits, and one who does.

Whether the target has a rare feature (it visited a page that nobody else visits) is read from one cell: a count above
0. The attacker does not know the label, so it looks at both signs. With cover the cell holds the cover's count in any
case, and one unit more in each round of the experiment is all that presence adds.

A9: when a model has learnt everybody but one, a round holds that one's packages and nothing else.

Late in a good run few people violate the margin. Where only one is left, the plain tally of the round *is* its vector,
under its label; nobody has to lie for it. With cover the round is as full as every other.

Weights here are 1 or -1 on every bin and 1 on the bias. Everybody but the target has an even number of bins and the
label that the weights say, so that all their scores are odd and their margins at least 1; the target has as many bins
on either side as make its score 0, and violates under either label.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from secvm.participant.dice import SystemDice
from secvm.privacy.accounting.accountant import Adjacency, delta_of
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import (
    EPSILONS,
    Counts,
    Crowd,
    Setting,
    batches,
    draw_cover_counts,
    draw_crowd,
    goal_within,
    largest_auc,
    person_with,
    sent,
    sent_by,
    weights_of,
)
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownDictionary, KnownHabits, look, unit_table
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc, average, wilson
from secvm_lab.attacks.views import CoordinatorView, PublicView, RoundSeen
from secvm_lab.privacy.bin_posterior import bin_posterior

# ── A7 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

SETTING_DICTIONARY = Setting(people=10_000, bins=1_000, features=100, rounds=2)
WORDS = 20_000
_BATCH = 250


def guess_dictionary(view: CoordinatorView, knowing: KnownDictionary) -> NDArray[np.int64]:
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
    public = PublicView(salt=b"a salt that nobody chose", bins=SETTING_DICTIONARY.bins)
    return popularity / popularity.sum(), public.bins_of([f"w{i:07}" for i in range(WORDS)])


def play_dictionary(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """How much more often the word is named than by naming the most popular word."""
    dice = generator(seed, 7, defended=defended)
    popularity, bins = dictionary()
    cover = SETTING_DICTIONARY.laws[0] if defended else None
    knowing = KnownDictionary(popularity, bins, cover)
    named, true = [], []
    for plays in batches(trials, _BATCH):
        words = dice.choice(WORDS, size=plays, p=popularity)
        seen = []
        for _ in range(SETTING_DICTIONARY.rounds):
            counts = np.zeros((plays, 1, SETTING_DICTIONARY.bins + 1, 2), dtype=np.int64)
            counts[np.arange(plays), 0, bins[words], 1] += 1
            counts[:, 0, -1, 1] += 1
            if cover is not None:
                counts += draw_cover_counts(dice, cover, counts.shape)
            seen.append(RoundSeen(counts=counts))
        named.append(guess_dictionary(CoordinatorView(tuple(seen)), knowing))
        true.append(words)
        advance(plays)
    words = np.concatenate(true)
    right = (np.concatenate(named) == words).astype(np.float64)
    gain, (low, high) = average(right - (words == 0))
    detail: dict[str, int | float | str | bool | None] = {
        "top_1_accuracy": float(right.mean()),
        "popularity_prior": float(popularity[0]),
        "gain_before_cutting_at_0": gain,
        "expected_without_cover": bin_posterior(popularity, SETTING_DICTIONARY.bins),
        "words": WORDS,
        "bins": SETTING_DICTIONARY.bins,
    }
    if defended:
        detail |= {"accountant_gain": _bound(float(popularity[0])), "epsilon": SETTING_DICTIONARY.plan.achieved}
    return Measurement(max(0.0, gain), (max(0.0, low), max(0.0, high)), trials, detail)


def _bound(prior: float) -> float:
    """At each ε a word is named at most e^ε times as often as without its unit, plus δ(ε)."""
    mechanism = SETTING_DICTIONARY.plan.mechanism

    def most(epsilon: float) -> float:
        lost = mechanism.delta(epsilon, adjacency=Adjacency.ZERO_OUT)
        return math.exp(epsilon) * prior + lost

    return min(most(epsilon) for epsilon in EPSILONS) - prior


DICTIONARY = Attack(
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
    guess=guess_dictionary,
    play=play_dictionary,
)


# ── A8 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

SETTING_RARE_BIN = Setting(people=10_000, bins=1_000, features=100, rounds=30)
RARE = 0
#: Of people who have the rare bin: one in a million.
SHARE = 1e-6


def guess_rare_bin(view: CoordinatorView, knowing: KnownHabits) -> Floats:
    """How much all rounds speak for the target having the bin, under one label or the other."""
    (place,) = knowing.bins
    share = float(knowing.shares[0])
    told: list[Floats] = []
    for sign, senders in enumerate(knowing.senders):
        table = unit_table(knowing.cover, senders, share)
        said = [look(table, seen.counts[..., 0, place, sign]) for seen in view.rounds]
        told.append(np.sum(said, axis=0))
    found: Floats = np.logaddexp(told[0], told[1])
    return found


def scores(dice: np.random.Generator, setting: Setting, trials: int, *, there: bool, cover: CoverLaw | None) -> Floats:
    """What the attacker makes of many plays, with the target's unit in its cell or without; no other bin is drawn."""
    rounds = setting.rounds if cover is not None else 1
    senders = setting.people // 2
    knowing = KnownHabits((0,), (senders, senders), np.array([SHARE]), cover)
    scored = []
    for label in (0, 1):
        # With the bin, or with another in its place.
        own = sent_by(setting, [RARE if there else RARE + 1], label)[:, RARE : RARE + 1]
        size = (max(1, trials // 2), *own.shape)
        seen = []
        for _ in range(rounds):
            counts = own + dice.binomial(senders, SHARE, size=size)
            if cover is not None:
                counts += draw_cover_counts(dice, cover, size)
            seen.append(RoundSeen(counts=counts))
        scored.append(guess_rare_bin(CoordinatorView(tuple(seen)), knowing))
    return np.concatenate(scored)


def play_rare_bin(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Half of the trials with the feature, half without; both labels."""
    dice, each = generator(seed, 8, defended=defended), max(2, trials // 2)
    cover = SETTING_RARE_BIN.laws[0] if defended else None
    value, interval = auc(*(scores(dice, SETTING_RARE_BIN, each, there=there, cover=cover) for there in (True, False)))
    advance(trials)
    detail: dict[str, int | float | str | bool | None] = {"people": SETTING_RARE_BIN.people, "share_of_people": SHARE}
    if defended:
        one = SETTING_RARE_BIN.mechanism().train.sight(1.0, SETTING_RARE_BIN.rounds)
        detail |= {
            "accountant_auc": SETTING_RARE_BIN.auc_bound(Adjacency.ZERO_OUT),
            "accountant_auc_one_cell": largest_auc(lambda e: delta_of([one], e, Adjacency.ZERO_OUT)),
            "epsilon": SETTING_RARE_BIN.plan.achieved,
            "rounds": SETTING_RARE_BIN.rounds,
        }
    return Measurement(value, interval, 2 * each, detail)


RARE_BIN = Attack(
    number=8,
    title="rare bin, sole visitor",
    slug="rare-bin",
    needs="Anybody who reads tallies, and knows a bin that nobody but perhaps the target has.",
    steps=("Look at the two cells of the bin, in every round.",),
    metric="AUC of presence",
    chance=0.5,
    defence="Cover puts hundreds or thousands of packages into every cell.",
    goal=goal_within(0.99, bound="accountant_auc_one_cell"),
    trials=20_000,
    quick_trials=2_000,
    guess=guess_rare_bin,
    play=play_rare_bin,
)


# ── A9 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: An even number of features.
SETTING_VIOLATOR = Setting(people=2_000, bins=100, features=20, rounds=1)


def guess_violator(view: CoordinatorView, knowing: KnownHabits) -> float:
    """How much the round speaks for the second label. Nobody else sends, which the weights and the run tell."""
    (seen,) = view.rounds
    told = look(unit_table(knowing.cover), seen.counts[0][[*knowing.bins, -1]]).sum(axis=0)
    return float(told[1] - told[0])


def guess_bins(view: CoordinatorView, knowing: KnownHabits) -> tuple[int, ...]:
    """The last violator's bins: those whose cells speak for a unit, whatever is known of the target."""
    (seen,) = view.rounds
    return tuple(int(b) for b in np.flatnonzero(look(unit_table(knowing.cover), seen.counts[0, :-1]).max(axis=1) > 0))


class World:
    """A crowd that a model has learnt, and one more."""

    def __init__(self, setting: Setting, dice: np.random.Generator, *, covered: bool) -> None:
        self._setting, self._dice = setting, dice
        self._experiment = setting.experiment(covered=covered)
        self.cover = setting.laws[0] if covered else None
        values = np.resize(np.array([1, -1], dtype=np.int64), setting.bins + 1)
        values[-1] = 1
        self._values, self._weights = values, weights_of(values)
        people = draw_crowd(dice, people=setting.people - 1, bins=setting.bins, features=setting.features)
        scores = people.scores(values)
        self._others = Crowd(people.has, (scores > 0).astype(np.int8))
        self.sent_by_others: Counts = self._others.counted(self._others.violators(scores))
        self._thrown = SystemDice(dice.bytes)

    def bins(self) -> tuple[int, ...]:
        """A target's, whose score is 0."""
        half = self._setting.features // 2
        up, down = (np.flatnonzero(self._values[:-1] == sign) for sign in (1, -1))
        chosen = [self._dice.choice(up, half - 1, replace=False), self._dice.choice(down, half, replace=False)]
        return tuple(int(b) for b in np.sort(np.concatenate(chosen)))

    def round_of(self, bins: tuple[int, ...], label: int) -> CoordinatorView:
        """The round, the target's device being a real one."""
        person = person_with(bins, label, self._setting.bins)
        counts = self.sent_by_others + sent(self._experiment, person, self._weights, self._thrown)[0]
        if self.cover is not None:
            counts += draw_cover_counts(self._dice, self.cover, counts.shape)
        return CoordinatorView((RoundSeen(counts=counts),))

    def knowledge(self, bins: tuple[int, ...]) -> KnownHabits:
        """The target's bins, and how popular bins are."""
        shares: NDArray[np.float64] = self._others.shares
        return KnownHabits(bins, (0, 0), shares, self.cover)


def play_violator(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A last violator in each trial."""
    dice = generator(seed, 9, defended=defended)
    world = World(SETTING_VIOLATOR, dice, covered=defended)
    size = trials if defended else max(10, trials // 10)
    scores: dict[int, list[float]] = {0: [], 1: []}
    whole = 0
    for trial in range(size):
        bins, label = world.bins(), int(dice.integers(2))
        view, knowing = world.round_of(bins, label), world.knowledge(bins)
        scores[label].append(guess_violator(view, knowing))
        whole += guess_bins(view, knowing) == bins
        if trial % 100 == 0:
            advance(100 * trials // size)
    right = sum(score > 0 for score in scores[1]) + sum(score < 0 for score in scores[0])
    detail: dict[str, int | float | str | bool | None] = {
        "auc": auc(scores[1], scores[0])[0],
        "vector_recovery": whole / size,
        "packages_of_others": int(world.sent_by_others.sum()),
    }
    if defended:
        detail |= {
            "accountant_success": SETTING_VIOLATOR.success_bound(),
            "accountant_auc": SETTING_VIOLATOR.auc_bound(),
            "epsilon": SETTING_VIOLATOR.plan.achieved,
        }
    return Measurement(right / size, wilson(right, size), size, detail)


VIOLATOR = Attack(
    number=9,
    title="single remaining violator",
    slug="last-violator",
    needs="Anybody who reads tallies, in a round in which one person alone violates the margin.",
    steps=(
        "Read the vector and its sign off the tally.",
        "Under cover: add up likelihood ratios over the target's bins.",
    ),
    metric="label success",
    chance=0.5,
    defence="Cover fills every cell of every round, whoever violates.",
    goal=goal_within(0.99, bound="accountant_success"),
    trials=20_000,
    quick_trials=1_000,
    guess=guess_violator,
    play=play_violator,
)
