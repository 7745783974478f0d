"""Relays that drop, replace or leave out, played round after round: how often it is seen, beside what is promised.

After a round one part of each relay's cover is opened (docs/protocol.md §31). Whoever has the seed derives it package
by package and looks for each under the mixing relay's root; each device looks for its canary. So a cheat is seen

- **blind replacement** (X, with C too): if one of the m capsules was of the entry relay's opened part;
- **by content**, m packages of one cell: likewise; cells that hold much of people's and little of the part hide more;
- **E dropping** some of a device's B: if the canary was among them;
- **false cover**: if the opened part is one that was falsified; whoever falsifies packages in all parts is seen surely.

Every round draws its parts anew and everybody's packages of the cell, marks the packages of the opened part, and takes
so many of all of them, each set as likely as any other. Packages are told apart and not sealed: a seal hides which is
which, and that is all it does here. What should be seen is ``privacy.caught``'s chance of the same round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from secvm.errors import BadInputError
from secvm.learning.cover_law import RelayCover
from secvm.privacy.statements.detection import CellCount, canary, dropped_blindly, dropped_in_cell, false_cover
from secvm_lab.attacks.statistics import Interval, wilson


@dataclass(frozen=True, slots=True)
class Caught:
    """So many rounds of one cheat."""

    cheat: str
    rounds: int
    seen: int
    #: The mean of the chances that are promised for these rounds.
    promised: float
    #: The promise is a least chance, not the chance itself.
    at_least: bool = False

    @property
    def share(self) -> float:
        return self.seen / self.rounds

    @property
    def interval(self) -> Interval:
        """Of 95 % for the chance to be seen."""
        return wilson(self.seen, self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedRound:
    """A round in public numbers: its cover, M devices of B packages, and people's packages in two train cells."""

    cover: RelayCover
    devices: int
    budget: int
    #: Of a cell that is filled as cells are on average, and of the fullest one.
    in_mean_cell: int
    in_fullest_cell: int

    def __post_init__(self) -> None:
        if not 0 <= self.in_mean_cell <= self.in_fullest_cell <= self.devices:
            raise BadInputError("a cell holds at most one package of each device, the fullest at least the mean")

    @property
    def batch(self) -> int:
        """n₁."""
        return self.devices * self.budget + self.cover.packages


def blind_replacement(dice: np.random.Generator, rounds: int, one: RelayedRound, capsules: int) -> Caught:
    """X replaces so many capsules of E's batch without a look."""
    part = one.cover.part_packages
    touched = dice.hypergeometric(part, one.batch - part, capsules, size=rounds)
    promised = dropped_blindly(capsules, part=part, batch=one.batch)
    return Caught(f"{capsules:,} replaced blindly", rounds, int((touched > 0).sum()), promised)


def by_content(
    dice: np.random.Generator, rounds: int, one: RelayedRound, packages: int, *, fullest: bool = False
) -> Caught:
    """C and X drop so many packages of one train cell, of whoever's, as C alone can tell cells apart."""
    noise, parts = one.cover.train, one.cover.parts
    people = one.in_fullest_cell if fullest else one.in_mean_cell
    shape = noise.part(parts)
    cover = dice.negative_binomial(float(shape), 1 - float(noise.p), size=(rounds, parts))
    opened = cover[np.arange(rounds), dice.integers(parts, size=rounds)]
    together = cover.sum(axis=1)
    taken = np.minimum(packages, together + people)
    touched = dice.hypergeometric(opened, together + people - opened, taken)

    @cache
    def chance(covered: int) -> float:
        return dropped_in_cell(packages, CellCount(people, covered), shape=shape, parts=parts)

    where = "fullest" if fullest else "mean"
    promised = math.fsum(map(chance, together.tolist())) / rounds
    return Caught(f"{packages} of the {where} cell dropped", rounds, int((touched > 0).sum()), promised)


def dropping_entry(dice: np.random.Generator, rounds: int, one: RelayedRound, capsules: int) -> Caught:
    """E drops so many capsules of one device, which looks for its canary."""
    place = dice.integers(one.budget, size=rounds)
    # Which of them are dropped does not depend on the canary's place: E cannot open.
    seen = int((place < capsules).sum())
    return Caught(f"{capsules} of a device's {one.budget} dropped", rounds, seen, float(canary(capsules, one.budget)))


def false_parts(
    dice: np.random.Generator, rounds: int, one: RelayedRound, share: Fraction, *, spread: bool = False
) -> Caught:
    """A relay falsifies a share of its cover: in as few parts as hold it, or ``spread`` over all of them."""
    parts, size = one.cover.parts, one.cover.part_packages
    packages = math.ceil(share * one.cover.packages)
    touched = min(parts, packages) if spread else math.ceil(packages / size)
    # It commits to the seeds, and falsifies, before anybody knows which part is opened.
    false = dice.permuted(np.broadcast_to(np.arange(parts) < touched, (rounds, parts)), axis=1)
    seen = int(false[np.arange(rounds), dice.integers(parts, size=rounds)].sum())
    cheat = f"{float(share):.3g} of the cover false" + (", in all parts" if spread else "")
    return Caught(cheat, rounds, seen, float(false_cover(share, parts)), at_least=True)


def no_cover(dice: np.random.Generator, rounds: int, one: RelayedRound) -> Caught:
    """A relay that adds nothing at all."""
    return false_parts(dice, rounds, one, Fraction(1))


def every_cheat(dice: np.random.Generator, rounds: int, one: RelayedRound) -> list[Caught]:
    """Each of them, small and large."""
    parts, budget = one.cover.parts, one.budget
    found = [blind_replacement(dice, rounds, one, capsules) for capsules in (1, 20, 145)]
    for fullest in (False, True):
        found += [by_content(dice, rounds, one, packages, fullest=fullest) for packages in (1, 10, 50)]
    found += [dropping_entry(dice, rounds, one, capsules) for capsules in (1, budget // 2, budget)]
    few, half = Fraction(1, 10 * parts), Fraction(1, 2)
    found += [false_parts(dice, rounds, one, share) for share in (few, half)]
    return [*found, false_parts(dice, rounds, one, few, spread=True), no_cover(dice, rounds, one)]
