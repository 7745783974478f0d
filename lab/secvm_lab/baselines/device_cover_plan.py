"""Devices' cover for a wished (ε, δ): what each of them adds, if a share γ of those it is planned for is honest.

Each device adds to every cell a negative binomial of its *share* of the shape r; shapes add, so that the honest ones
together add NB(r, p). The accountant is the product's own (``accountant``): to it, cover is cover. What it does
not see is who adds it, and that is all the difference (``secvm_lab.attacks.relayed.lone_device``).

A device sends the same number of packages whatever it draws, so that what it adds is capped: chances that a cap is
exceeded have a share of δ, for all honest devices and rounds together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from secvm.errors import BadExperimentError
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import SAMPLER_ERROR, CellCover, Contribution, Departures, Mechanism, Sight
from secvm.privacy.accounting.cover_loss import log_tail, smallest_cap
from secvm.privacy.planning.relay_plan import FINE_STEPS, STEPS, smallest_odds
from secvm.privacy.target import PrivacyTarget

#: Of δ, for caps; the noise has the rest.
OVERFLOW_SHARE = 0.1
#: Of ε, for participation cells alone.
PARTICIPATION = 0.2
#: r of the train cells' cover. Smaller ones make less cover on average and longer tails, and B is made by the tails.
SHAPE = 90
#: A device's share of the shape in a participation cell: few cells, and a geometric law in each.
PARTICIPATION_SHARE = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNoise:
    """One device's share of the cover of one kind of cells, in every round."""

    cells: int
    #: What a device adds to the shape of each cell.
    share: Fraction
    odds: Fraction
    #: So many packages at most.
    cap: int

    @property
    def p(self) -> float:
        """The negative binomial's p."""
        return float(self.odds / (1 + self.odds))

    @property
    def mean(self) -> Fraction:
        """What a device adds to each cell on average."""
        return self.share * self.odds

    def among(self, honest: int) -> CellCover:
        """What so many honest devices add to a cell."""
        return CellCover(float(honest * self.share), self.p)


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """Cover for an experiment in which everybody trains."""

    target: PrivacyTarget
    contribution: Contribution
    #: Devices that are counted on.
    honest: int
    train: DeviceNoise
    participation: DeviceNoise

    @property
    def mechanism(self) -> Mechanism:
        """As the accountant sees it."""
        kinds = (self.train, self.participation)
        tails = (math.exp(log_tail(float(one.cells * one.share), one.p, one.cap)) for one in kinds)
        return Mechanism(
            contribution=self.contribution,
            train=self.train.among(self.honest),
            participation=self.participation.among(self.honest),
            test=None,
            departures=Departures(
                overflow=self.honest * math.fsum(tails), sampler=self.honest * SAMPLER_ERROR * len(kinds)
            ),
        )

    @property
    def budget(self) -> int:
        """B: a participation package, every unit before thinning, and both caps."""
        return 1 + self.contribution.models * self.contribution.cells + self.train.cap + self.participation.cap

    @property
    def cover_mean(self) -> float:
        """Packages of cover that a device sends in a round, on average."""
        return float(sum(one.cells * one.mean for one in (self.train, self.participation)))


def plan_devices(
    target: PrivacyTarget,
    *,
    people: int,
    bins: int,
    features: int,
    rounds: int,
    thinning: Thinning | None = None,
    labels: int = 2,
    models: int = 1,
    violable: int | None = None,
    gamma: Fraction = Fraction(1),
    shape: int = SHAPE,
) -> DevicePlan:
    """Cover that keeps (ε, δ) over all rounds under zero-out, if γ · people devices are honest.

    Raises
    ------
    BadExperimentError
        Nobody is honest, or no cover keeps it.
    """
    honest = math.floor(people * gamma)
    if honest < 1:
        raise BadExperimentError(f"γ = {gamma} of {people} devices leaves nobody honest: plan with one at least")
    told = Contribution(
        rounds=rounds,
        models=models if violable is None else violable,
        cells=min(features, bins) + 1,
        thinning=thinning or Thinning(),
    )
    epsilon, delta = float(target.epsilon), float(target.delta)
    log_chance = math.log(delta * OVERFLOW_SHARE / ((1 + math.exp(epsilon)) * honest * rounds * 2))

    def noise(
        cells: int,
        share: Fraction,
        everybody: Iterable[Callable[[float], tuple[Sight, ...]]],
        kept: float,
        steps: int = STEPS,
    ) -> DeviceNoise:
        odds = smallest_odds(everybody, kept, delta * (1 - OVERFLOW_SHARE), steps=steps)
        cap = smallest_cap(float(cells * share), float(odds / (1 + odds)), log_chance)
        return DeviceNoise(cells=cells, share=share, odds=odds, cap=cap)

    def here(p: float) -> tuple[Sight, ...]:
        return (Sight(float(honest * PARTICIPATION_SHARE), p, 1.0, rounds),)

    participation = noise(labels, PARTICIPATION_SHARE, [here], epsilon * PARTICIPATION, FINE_STEPS)
    besides = here(participation.p)

    def trained(p: float, q: float, looks: int) -> tuple[Sight, ...]:
        return (Sight(float(shape), p, q, looks), *besides)

    everybody = [partial(trained, q=q, looks=looks) for q, looks in told.looks()]
    train = noise(2 * models * (bins + 1), Fraction(shape, honest), everybody, epsilon)
    return DevicePlan(target=target, contribution=told, honest=honest, train=train, participation=participation)
