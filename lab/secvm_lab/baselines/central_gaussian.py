"""The trusted central server: everybody's data in one place, our own rule on full batches, Gaussian noise.

What cover packages must come close to, without a server that anybody trusts. The server sees who violates, whole and
unthinned, and shows each round's sums only with noise; all that follows is the rule's own work on what was shown.

**Adjacency** is zero-out: a person's rows count, or count as nothing; the number of people is public.

**Sensitivity.** A person has at most F bins and the bias, one unit each. Under a rule that normalises (swift) it adds a
vector of length 1 to a model's sums, otherwise (Pegasos) one of length √(F + 1); with m models √m times that. Its units
stand in N⁺ or in N⁻, so that both together change by no more than their difference does.

**What is shown.** N⁺ - N⁻ with N(0, σ²) in each place, every round; where the rule needs the popularity (swift's first
round, a step cap) or sides are weighted differently, N⁺ and N⁻ with N(0, σ²) each. The number of people of each label
is shown once, with noise that takes ``PARTICIPATION_SHARE`` of μ². Every round gets the same σ:

    μ² = T s² / σ² + 1 / σ_p²,      and δ(ε) of μ is exact (``gaussian.py``).

The noise is the *continuous* Gaussian, rounded to whole counts (of 2^-32 where rows are normalised) after it was added:
rounding what was shown tells nothing more. It is drawn in floating point, which a real server should not do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.privacy.planning.noise_settings import mu_for
from secvm_lab.baselines.baseline import NOISE, PARTICIPATION, Fitted, Guarantee, clipped, dice
from secvm_lab.baselines.plain import Plain, number_of_labels, run_rounds

#: Of μ², for the number of people of each label.
PARTICIPATION_SHARE = 0.01


@dataclass(frozen=True)
class CentralGaussian:
    """(ε, δ) over all rounds from a server that is trusted with everything. An ε of infinity: no noise."""

    epsilon: float
    delta: float
    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    rule: DescentRule = Swift()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    #: One per label; empty: all one.
    class_weights: tuple[Fraction, ...] = ()
    name: ClassVar[str] = "central Gaussian"

    def __post_init__(self) -> None:
        self._plain()  # refuses what makes no sense
        mu_for(self.epsilon, self.delta)

    def sensitivity(self, n_models: int = 1) -> float:
        """s: the longest vector that one person adds to a round's sums, in the units of rows."""
        longest = 1.0 if self.rule.normalised else math.sqrt(self.contribution + 1)
        return longest * math.sqrt(n_models)

    def sigma(self, n_models: int = 1) -> float:
        """σ of each place of a round's sums, in the units of rows: x/‖x‖ where they are normalised, else counts."""
        mu = mu_for(self.epsilon, self.delta)
        return self.sensitivity(n_models) * math.sqrt(self.rounds / (1 - PARTICIPATION_SHARE)) / mu

    @property
    def participation_sigma(self) -> float:
        """σ_p of the number of people of each label."""
        return 1 / (mu_for(self.epsilon, self.delta) * math.sqrt(PARTICIPATION_SHARE))

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        question = self._plain().experiment(rows.n_bins, number_of_labels(labels))
        sigma = self.sigma(question.models.n_models)
        noise = CentralNoise(question, sigma=sigma, participation_sigma=self.participation_sigma, seed=seed)
        taken = clipped(rows, self.contribution, seed=seed)
        weights, _ = run_rounds(OfflineTraining(question, noise=noise), taken, labels, self.rounds)
        guarantee = None
        if not math.isinf(self.epsilon):
            guarantee = Guarantee(self.epsilon, self.delta, "the server, with all data", "Gaussian, exact")
        return Fitted(self.name, weights, question.models, guarantee, {"sigma": sigma})

    def _plain(self) -> Plain:
        return Plain(self.rounds, self.contribution, self.rule, self.class_weights)


@dataclass(frozen=True)
class CentralNoise:
    """What a trusted server adds to an experiment's tallies before it takes a step."""

    experiment: Experiment
    #: Of sums, in the units of rows.
    sigma: float
    #: Of the number of people of each label.
    participation_sigma: float
    #: Of the noise.
    seed: int

    def __call__(self, tally: Tally, round_number: int) -> Tally:
        """The tally as it is shown in this round."""
        if self.sigma == 0:
            return tally
        unit = 2**32 if self.experiment.fixed_point_rows else 1
        draw = dice(self.seed, NOISE, round_number)

        def with_noise(sums: NDArray[np.int64]) -> NDArray[np.int64]:
            return sums + np.rint(draw.normal(0.0, self.sigma * unit, sums.shape)).astype(np.int64)

        if self.shows_both_sides(round_number):
            plus, minus = with_noise(tally.plus), with_noise(tally.minus)
        else:
            # It stands where N⁺ stood and N⁻ is empty, so that no rule can look at what was not shown.
            plus, minus = with_noise(tally.plus - tally.minus), np.zeros_like(tally.minus)
        return Tally(plus=plus, minus=minus, participants=self._participants(tally), cells=tally.cells)

    def shows_both_sides(self, round_number: int) -> bool:
        """Whether this round shows N⁺ and N⁻, not their difference alone."""
        rule = self.experiment.rule
        popularity = isinstance(rule, Swift) or (isinstance(rule, Pegasos) and rule.step_cap is not None)
        return len(set(self.experiment.class_weights)) > 1 or (popularity and round_number == 1)

    def _participants(self, tally: Tally) -> NDArray[np.int64]:
        """The same dice in every round, for everybody takes part in all of them: shown once."""
        noise = dice(self.seed, PARTICIPATION).normal(0.0, self.participation_sigma, tally.participants.shape)
        return np.maximum(1, tally.participants + np.rint(noise).astype(np.int64))


def with_central_noise(
    experiment: Experiment, *, epsilon: float, delta: float, rounds: int, contribution: int, seed: int
) -> CentralNoise:
    """The noise of a server that is trusted with all rows: ``secvm train --noise central``."""
    server = CentralGaussian(
        epsilon, delta, rounds, contribution, aggregate.rule_of(experiment), experiment.class_weights
    )
    return CentralNoise(
        experiment,
        sigma=server.sigma(experiment.models.n_models),
        participation_sigma=server.participation_sigma,
        seed=seed,
    )
