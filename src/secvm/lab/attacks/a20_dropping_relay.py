"""A20: a relay that drops everybody else.

A relay acknowledges all capsules, hands on one device's and some of its own, and drops the rest. Tallies are public, so
it takes off what it sent itself and reads the vector and label of the one that is left. Floors on participants do not
help: its own capsules reach them. What helps is that each counted round publishes the root over all capsules that were
received, and devices look for some of their own (here with the real tree, shelf and check): whoever was dropped finds
nothing and takes no part again. The first such round is lost all the same, so the metric asks whether it is noticed.
Cover does not save it: it is made for thousands of honest devices, and the share of the one that is left hides little
(``isolation_auc_with_cover``, of a plan for ε = 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from secvm.coordinator.receipt_shelf import MemoryShelf
from secvm.errors import MalformedMessageError
from secvm.lab.attacks.attack import Advance, Attack, Curve, Detail, Goal, Measurement, Point
from secvm.lab.attacks.dice import generator, words
from secvm.lab.attacks.people import draw_person
from secvm.lab.attacks.statistics import auc, wilson
from secvm.lab.attacks.views import KnownOthers, PublicView
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual.cover import draw_cells, train_package
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice
from secvm.participant.surroundings import TrustPolicy
from secvm.privacy.shuffle_dp import plan
from secvm.protocol.received import bucket_of, check_receipt, received_tree, side_by_side
from secvm.protocol.schedule import shuffle

DEVICES, BINS, FEATURES, BUDGET = 30, 1_000, 100, 20
#: A device looks for so many of its capsules.
RECEIPTS = TrustPolicy().receipts
#: Of each device's capsules so many are dropped, where a relay drops some of everybody's.
DROPPED = (1, 2, 5, 10, 20)


def guess(view: PublicView, knowing: KnownOthers) -> float:
    """How likely the label is "yes": cells of the target's that are left, plus less minus, without the relay's own."""
    left = (view.tallies[0] - knowing.counts[0])[0, list(knowing.bins)] > 0
    return float(left[:, 1].sum()) - float(left[:, 0].sum())


def notices(mine: Sequence[bytes], shelf: MemoryShelf, root: bytes, drawn: Iterator[int]) -> bool:
    """Whether a device that looks for some of its capsules finds one of them missing."""
    bits = shelf.bits(0)
    assert bits is not None
    for digest in shuffle(mine, drawn)[:RECEIPTS]:
        shown = shelf.receipt(0, bucket_of(digest, bits))
        if shown is None:
            return True
        try:
            check_receipt(root, digest, shown.bucket, shown.path)
        except MalformedMessageError:
            return True
    return False


def received(digests: Sequence[bytes]) -> tuple[MemoryShelf, bytes]:
    """What an honest coordinator keeps and publishes of what came."""
    joined = side_by_side(digests)
    tree = received_tree(joined)
    shelf = MemoryShelf()
    shelf.keep(0, joined, tree)
    return shelf, tree.root


def capsules(dice: np.random.Generator, count: int) -> list[bytes]:
    """Digests of so many sealed capsules."""
    return [hashlib.sha256(dice.bytes(32)).digest() for _ in range(count)]


@cache
def planned() -> CoverNoise:
    """Cover of the train cells for ε = 1, as an experiment of ten thousand would have it."""
    return plan(epsilon=1, delta=1e-6, rounds=30, features=FEATURES, bins=BINS, participants=10_000).noise


def isolated(dice: np.random.Generator, label: int, *, covered: bool) -> float:
    """A first round, in which everybody sends, of which the relay hands on one person's and its own capsules."""
    own = dice.poisson(1.0, size=(1, BINS + 1, 2)).astype(np.int64)
    tally = own.copy()
    bins = tuple(draw_person(dice, BINS, FEATURES, label=label).vector.with_bias())
    tally[0, bins, label] += 1
    if covered:
        device = UnsafeSeededDice(dice.bytes(16), 0)
        for cell in draw_cells(planned(), Purpose.COVER, dice=device, round_number=1):
            unit = train_package(cell, BINS)
            tally[0, unit.bin_index, int(unit.sign > 0)] += 1
    return guess(PublicView(tallies=(tally,)), KnownOthers((own,), bins))


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """In each trial a round with a dropping relay; learnt is a label that is guessed right while nobody notices."""
    dice = generator(seed, 20, defended=defended)
    drawn = words(dice)
    scores: tuple[list[float], list[float]] = ([], [])
    covered: tuple[list[float], list[float]] = ([], [])
    learnt = dropped = noticed = 0
    by_share = dict.fromkeys(DROPPED, 0)
    for trial in range(trials):
        scores[trial % 2].append(isolated(dice, trial % 2, covered=False))
        right = (scores[trial % 2][-1] > 0) == (trial % 2 == 1)
        devices = [capsules(dice, BUDGET) for _ in range(DEVICES)]
        alarmed = False
        if defended:
            covered[trial % 2].append(isolated(dice, trial % 2, covered=True))
            shelf, root = received([*devices[0], *capsules(dice, DEVICES * BUDGET)])
            found = [notices(mine, shelf, root, drawn) for mine in devices]
            alarmed = any(found)
            dropped, noticed = dropped + DEVICES - 1, noticed + sum(found[1:])
            for many in DROPPED:
                shelf, root = received([digest for mine in devices for digest in mine[many:]])
                by_share[many] += sum(notices(mine, shelf, root, drawn) for mine in devices)
        learnt += right and not alarmed
        advance(1)
    if not defended:
        detail: Detail = {"isolation_auc": _separate(scores), "share_of_drops_noticed": 0.0}
        return Measurement(learnt / trials, wilson(learnt, trials), trials, detail)
    detail = {
        "isolation_auc": _separate(scores),
        "isolation_auc_with_cover": _separate(covered),
        "share_of_drops_noticed": noticed / dropped,
    }
    looked = trials * DEVICES
    points = tuple(Point(str(many), hits / looked, wilson(hits, looked)) for many, hits in by_share.items())
    curve = Curve(f"capsules of {BUDGET} dropped, of everybody's", points, up="devices that notice")
    return Measurement(learnt / trials, wilson(learnt, trials), trials, detail, curve)


def _separate(scores: tuple[list[float], list[float]]) -> float | None:
    """How well the label is told, of both labels; None where there is only one."""
    return auc(scores[1], scores[0])[0] if min(map(len, scores)) else None


ATTACK = Attack(
    number=20,
    title="dropping relay",
    slug="dropping-relay",
    needs="The relay, capsules of its own, and the target's bins; tallies are public.",
    steps=(
        "Acknowledge everything, hand on the target's capsules and own ones, drop the rest.",
        "Take the own ones off the public tally: what is left is the target's.",
    ),
    metric="share of labels learnt while nobody notices",
    chance=0.0,
    defence="Every counted round publishes the root over all received capsules; devices look for some of their own and"
    " take no part again when one is missing.",
    remains="It is noticed after the round: the target's label is out. The target itself sees nothing wrong, and"
    " cover does not help who stands alone. One dropped capsule among B is noticed with probability 2/B by its"
    " device.",
    goal=Goal(
        "without the defence at least 0.99; with it at least 0.99 of all drops are noticed, and no round passes",
        lambda undefended, defended: (
            undefended.value >= 0.99
            and defended.value == 0
            and float(defended.detail["share_of_drops_noticed"] or 0) >= 0.99
        ),
    ),
    trials=200,
    quick_trials=20,
    guess=guess,
    play=play,
)
