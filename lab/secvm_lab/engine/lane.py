"""What one model of an engine needs besides people: its direction's exact factors and its threshold.

Models whose sums are made in the same way (``Lane.way``) have the same sums as long as the same people violate: λ only
moves the threshold, and the number of averaged vectors moves nothing. They can go on one lane until they part.

Who trains does not change from round to round, so the factors do not either. ``why_not`` says in one sentence what the
engine does not do; ``OfflineTraining`` does it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.direction import direction_of
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import FIXED_BITS, MAX_STATE
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import band

#: Models of one pass at most: sixteen int32 are one cache line, and sixteen verdicts one uint16.
LANES = 16
#: Products and quotients below these have the quick rounding (``lane_steps.step``).
_MAX_PRODUCT = 2**30
_MAX_QUOTIENT = 2**49
#: Numerators must fit an int64 in any case.
_MAX_NUMERATOR = 2**62
#: Counts are int32.
_MAX_COUNT = 2**31


@dataclass(frozen=True)
class Lane:
    """One model: (up N⁺ - down N⁻) * scale is the direction of each of its rounds."""

    experiment: Experiment
    rule: Pegasos
    #: Train people of the negative and the positive label.
    participants: tuple[int, int]
    up: int
    down: int
    scale: Fraction
    #: Whether its numbers are short enough for the quick rounding.
    quick: bool

    @property
    def way(self) -> tuple[object, ...]:
        """How violators become the next sum; and where the threshold would be for λ = 1."""
        return self.up, self.down, self.scale, self.experiment.loss

    def lower(self, unit: Fraction) -> int:
        """A person violates when sign * score is below this."""
        threshold = int(self.experiment.loss.thresholds(np.zeros(1, np.int64))[0])
        return band(threshold=threshold, width=0, norm=None, unit=unit)[0]


def lanes_of(
    experiments: Sequence[Experiment], participants: NDArray[np.int64], *, most_in_bin: int
) -> tuple[Lane, ...]:
    """The lanes of experiments with these train people (models x 2).

    Args:
        most_in_bin: units of all people together in the fullest bin; no count is ever greater.
    """
    if not experiments:
        raise BadInputError("an engine needs at least one model")
    if most_in_bin >= _MAX_COUNT:
        raise BadInputError("a bin has more units than an engine can count; use OfflineTraining")
    first = experiments[0]
    if any(e.n_bins != first.n_bins or e.labels != first.labels for e in experiments):
        raise BadInputError("the models of an engine have the same bins and labels")
    return tuple(_lane(experiment, participants[model], most_in_bin) for model, experiment in enumerate(experiments))


def why_not(experiment: Experiment) -> str | None:
    """What an engine cannot do of this experiment; None: it can train it."""
    rule, loss = experiment.rule, experiment.loss
    if not isinstance(rule, Pegasos) or rule.step_cap is not None:
        return "the engine trains by pegasos without a step cap; use OfflineTraining"
    if len(experiment.labels) != 2 or loss.tosses_coins or loss.regression:
        return "the engine trains two labels by hinge or perceptron; use OfflineTraining"
    plain = (
        not experiment.thinning.active
        and experiment.budget is None
        and experiment.cover is None
        and experiment.robust is None
        and not experiment.weighted_updates
    )
    return None if plain else "the engine knows no thinning, budget, cover or clipping; use OfflineTraining"


def why_not_single(experiment: Experiment) -> str | None:
    """What of this experiment ``SingleTraining`` cannot do; None: it can train it."""
    plain = (
        isinstance(experiment.rule, Swift)
        and experiment.fixed_point_rows
        and len(experiment.labels) == 2
        and not experiment.loss.tosses_coins
        and not experiment.loss.regression
        and not experiment.thinning.active
        and experiment.budget is None
        and experiment.cover is None
        and experiment.robust is None
        and not experiment.weighted_updates
    )
    return None if plain else "a single training is for two labels by swift with fixed-point rows; use OfflineTraining"


def _lane(experiment: Experiment, participants: NDArray[np.int64], most_in_bin: int) -> Lane:
    refused, rule = why_not(experiment), experiment.rule
    if refused is not None or not isinstance(rule, Pegasos):
        raise BadInputError(refused or "the engine trains by pegasos")
    if not participants.any():
        raise BadInputError("nobody took part in this round")
    # The direction of two made-up counts tells the factors: what they are is written down in one place only.
    units = np.array([[1, 0]], dtype=np.int64)
    tally = Tally(plus=units, minus=units[:, ::-1], participants=participants, cells=np.zeros((2, 2), np.int64))
    taken = direction_of(
        tally,
        models=experiment.models,
        class_weights=experiment.class_weights or (Fraction(1),) * 2,
        factors=experiment.loss.factors,
        divisor=experiment.thinning.divisor,
    )
    up, down = int(taken.numerators[0, 0]), -int(taken.numerators[0, 1])
    scale = taken.scales[0]
    largest = max(up, down) * most_in_bin
    if largest >= _MAX_NUMERATOR or (largest * scale.numerator << FIXED_BITS) // scale.denominator >= MAX_STATE:
        raise BadInputError("class weights with so many digits are beyond an engine; use OfflineTraining")
    product = largest * scale.numerator
    quick = (
        product < _MAX_PRODUCT
        and (product << FIXED_BITS) // scale.denominator < _MAX_QUOTIENT
        and scale.denominator < _MAX_NUMERATOR // 2
    )
    minus, plus = (int(n) for n in participants)
    return Lane(experiment, rule, (minus, plus), up, down, scale, quick)
