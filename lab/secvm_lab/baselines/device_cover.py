"""Cover that every device adds to its own packages: a baseline for the laboratory, beside two relays' cover.

Here (ε, δ) holds only if a share γ of the devices that the cover was planned for is honest and delivers. Two relays'
cover needs no such number, and that is why devices' cover is no part of the product (docs/privacy.md). All devices'
shares are drawn at once, by their law; what they add on average is known and taken off.

Devices' cover for a wished (ε, δ): what each of them adds, if so many are honest.

Each device adds to every cell a negative binomial of its *share* of the shape r; shapes add, so that the honest ones
together add NB(r, p). The accountant is the product's own (``accountant``): to it, cover is cover. What it does
not see is who adds it, and that is all the difference (``secvm_lab.attacks.relayed.isolation``).

A device sends the same number of packages whatever it draws, so that what it adds is capped: chances that a cap is
exceeded have a share of δ, for all honest devices and rounds together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import SAMPLER_ERROR, CellCover, Contribution, Departures, Mechanism, Sight
from secvm.privacy.accounting.cover_loss import log_tail, smallest_cap
from secvm.privacy.planning.noise_settings import noise_settings
from secvm.privacy.planning.relay_plan import FINE_STEPS, STEPS, smallest_odds
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import NOISE, Fitted, Guarantee, clipped, dice, two_labels
from secvm_lab.baselines.plain import names_of, run_rounds

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
        return 1 + self.contribution.cells + self.train.cap + self.participation.cap

    @property
    def cover_mean(self) -> float:
        """Packages of cover that a device sends in a round, on average."""
        return float(sum(one.cells * one.mean for one in (self.train, self.participation)))


def plan_devices(
    target: PrivacyTarget,
    *,
    honest: int,
    bins: int,
    features: int,
    rounds: int,
    thinning: Thinning | None = None,
    shape: int = SHAPE,
) -> DevicePlan:
    """Cover of an experiment with two labels that keeps (ε, δ) over all rounds under zero-out, if so many are honest.

    Raises
    ------
    BadExperimentError
        No cover keeps it.
    """
    told = Contribution(rounds=rounds, models=1, cells=min(features, bins) + 1, thinning=thinning or Thinning())
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

    participation = noise(2, PARTICIPATION_SHARE, [here], epsilon * PARTICIPATION, FINE_STEPS)
    besides = here(participation.p)

    def trained(p: float, q: float, looks: int) -> tuple[Sight, ...]:
        return (Sight(float(shape), p, q, looks), *besides)

    everybody = [partial(trained, q=q, looks=looks) for q, looks in told.looks()]
    train = noise(2 * (bins + 1), Fraction(shape, honest), everybody, epsilon)
    return DevicePlan(target=target, contribution=told, honest=honest, train=train, participation=participation)


@dataclass(frozen=True)
class DeviceCover:
    """(ε, δ) by the cover of every device, if all of them are honest."""

    target: PrivacyTarget
    contribution: int
    shape: int = SHAPE
    name: str = "devices' cover"
    threads: int = 1

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        two_labels(labels)
        epsilon, delta = float(self.target.epsilon), float(self.target.delta)
        settings = noise_settings(
            people=len(rows), bins=rows.n_bins, contribution=self.contribution, epsilon=epsilon, delta=delta
        )
        made = plan_devices(
            self.target,
            honest=len(rows),
            bins=rows.n_bins,
            features=self.contribution,
            rounds=settings.rounds,
            thinning=settings.thinning,
            shape=self.shape,
        )
        experiment = Experiment(
            n_bins=rows.n_bins,
            labels=names_of(2),
            rule=settings.rule,
            thinning=settings.thinning,
            features_per_person=self.contribution,
        )
        training = _UnderCover(experiment, made, devices=len(rows), seed=seed, threads=self.threads)
        weights, _ = run_rounds(training, clipped(rows, self.contribution, seed=seed), labels, settings.rounds)
        return Fitted(
            self.name,
            weights,
            experiment.models,
            Guarantee(epsilon, delta, f"{made.honest} honest devices", "privacy losses, exact laws"),
            {"budget": float(made.budget), "cover_mean": made.cover_mean},
        )


class _UnderCover(OfflineTraining):
    """Rounds whose tallies have every device's cover in them, less what it is on average."""

    def __init__(self, experiment: Experiment, plan: DevicePlan, *, devices: int, seed: int, threads: int) -> None:
        super().__init__(experiment, seed=seed.to_bytes(8, "little"), threads=threads)
        self._plan, self._devices, self._noise_seed = plan, devices, seed

    def received(self, tally: Tally) -> Tally:
        draw = dice(self._noise_seed, NOISE, self.round_number)

        def noised(counts: NDArray[np.int64], noise: DeviceNoise) -> NDArray[np.int64]:
            drawn = draw_devices(draw, noise, self._devices, counts.shape)
            return counts + drawn - round(self._devices * noise.mean)

        train, here = self._plan.train, self._plan.participation
        return replace(
            tally,
            plus=noised(tally.plus, train),
            minus=noised(tally.minus, train),
            # Numbers of people are not negative.
            participants=np.maximum(noised(tally.participants, here), 1),
        )


def draw_devices(
    draw: np.random.Generator, noise: DeviceNoise, devices: int, size: tuple[int, ...]
) -> NDArray[np.int64]:
    """What so many devices together add to each of so many cells, by its law."""
    found: NDArray[np.int64] = draw.negative_binomial(float(devices * noise.share), 1 - noise.p, size).astype(np.int64)
    return found
