"""What privacy costs in accuracy, by a table that was measured on made-up people: an expectation, no promise.

The table (``benchmarks/planner.py`` makes it, and says how) has accuracies of

- ``central``: all words of everybody, each a bin of its own, no noise; by people;
- ``plain``: hashed, F words of a person, thinned by ρ = 3, thirty rounds; by people, bins and F;
- ``noise``: the same at one number of people and one F; by rounds, bins, and the length of the noise in a round's mean
  direction, where a person's own row has length 1.

Expected is ``plain``, less what these rounds and this noise take from it in ``noise``. Between its places the table is
a straight line in logarithms; first it is made monotone where it must be (more people, bins and features do not hurt,
noise does not help): what says otherwise is the dice of a few seeds. Beyond its edges the table is taken at them, and
that is said.

Another thinning than the table's counts as more or fewer people. Who sends units with chance q leaves a mean direction
with the variance of N q people, and of that the share 1 - q comes from dice that are thrown anew in each of T rounds:

    (1 + (1/q - 1) / T) / N        is what a bin's variance is proportional to, over all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError

Floats = NDArray[np.float64]
#: Below this length noise does nothing: where the logarithmic scale of noise begins.
_LEAST_NOISE = 0.003
#: What a coin reaches with two labels.
GUESSING = 0.5
#: Of each table its axes, along which of them accuracy rises, and -1 where it falls instead.
_TABLES = {
    "central": (("people",), (0,), 1),
    "plain": (("people", "bins", "features"), (0, 1, 2), 1),
    "noise": (("rounds", "bins", "noise"), (2,), -1),
}


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """Accuracies on made-up people."""

    #: With all data in one place, and as it is asked for.
    central: float
    accuracy: float
    #: Of what the accuracy falls short: binning, features and thinning; rounds and noise.
    by_hashing: float
    by_noise: float
    #: What lies beyond the table, and was taken at its edge, in words.
    beyond: tuple[str, ...]

    @property
    def points(self) -> float:
        """Points of accuracy, of a hundred."""
        return 100 * (self.central - self.accuracy)

    @property
    def is_forecast(self) -> bool:
        """Whether the table says anything of this: at its lower edge it has many words in few bins, which is as bad as
        guessing, and says nothing of few words in few bins.
        """
        return not any(what.startswith("fewer") and what.endswith(("bins", "features")) for what in self.beyond)

    @property
    def sentence(self) -> str:
        """For a terminal."""
        if not self.is_forecast:
            return f"No forecast: nothing was measured for {' and '.join(self.beyond)}. The first rounds will tell."
        forecast = f"{100 * self.accuracy:.0f} % instead of {100 * self.central:.0f} % with all data in one place."
        if not self.beyond:
            return forecast
        edge = "computed at the edge of what was, so it may be better or worse"
        return f"{forecast} Nothing was measured for {' and '.join(self.beyond)}: {edge}."

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys."""
        return {
            "points": self.points,
            "expected": self.accuracy,
            "central": self.central,
            "by_hashing": 100 * self.by_hashing,
            "by_noise": 100 * self.by_noise,
            "beyond": list(self.beyond),
            "forecast": self.is_forecast,
            "why": None,
        }


@dataclass(frozen=True, eq=False)
class AccuracyTable:
    """The measured accuracies, monotone."""

    content: Mapping[str, Any]

    @cached_property
    def _tables(self) -> dict[str, tuple[list[Floats], Floats]]:
        """Of each table its axes, as scales, and the accuracies."""
        tables = {}
        for name, (axes, rising, sign) in _TABLES.items():
            measured = self.content[name]
            accuracies = sign * _rising(sign * np.array(measured["accuracy"], dtype=np.float64), rising)
            scales = [_noise_scale(measured[axis]) if axis == "noise" else _logs(measured[axis]) for axis in axes]
            tables[name] = scales, accuracies
        return tables

    def __post_init__(self) -> None:
        try:
            shapes = [([len(axis) for axis in axes], list(values.shape)) for axes, values in self._tables.values()]
        except (KeyError, TypeError, ValueError):
            raise BadInputError("the table of accuracies is not one") from None
        if any(axes != values for axes, values in shapes):
            raise BadInputError("the table of accuracies does not fit its own axes")

    def expected(
        self, *, people: float, bins: int, features: int | None, rounds: int, noise: float, q: float
    ) -> ExpectedCost:
        """For so many people who train, and send units with chance q."""
        plain = self.content["plain"]
        words = self.content["people"]["words_per_person"]
        shown = min(words if features is None else features, words)
        beyond = [
            f"fewer than {axis[0]:,} {what}" if value < axis[0] else f"more than {axis[-1]:,} {what}"
            for what, value, axis in (
                ("people who train", people, plain["people"]),
                ("bins", bins, plain["bins"]),
                ("features", shown, plain["features"]),
                ("rounds", rounds, self.content["noise"]["rounds"]),
            )
            if not axis[0] <= value <= axis[-1]
        ]
        if noise > self.content["noise"]["noise"][-1]:
            beyond.append("more noise")
        central = _at(*self._tables["central"], [_log(people)])
        measured = min(1.0, float(self.content["rho"]) / math.sqrt(shown + 1))
        sent = (1 + (1 / measured - 1) / rounds) / (1 + (1 / q - 1) / rounds)
        hashed = _at(*self._tables["plain"], [_log(people * sent), _log(bins), _log(shown)])
        axes, values = self._tables["noise"]
        usual = _at(axes, values, [_log(self.content["rounds"]), _log(bins), _noise_scale([0.0])[0]])
        noisy = _at(axes, values, [_log(rounds), _log(bins), _noise_scale([noise])[0]])
        # What noise takes is taken of what there is above guessing, and all of that at most.
        left = max(0.0, noisy - GUESSING) / max(usual - GUESSING, 1e-9)
        reached = min(central, GUESSING + max(0.0, hashed - GUESSING) * left)
        return ExpectedCost(
            central=central,
            accuracy=reached,
            by_hashing=central - min(central, hashed),
            by_noise=min(central, hashed) - reached,
            beyond=tuple(beyond),
        )


def _log(value: float) -> float:
    return math.log(max(value, 1e-9))


def _logs(values: Sequence[float]) -> Floats:
    return np.log(np.array(values, dtype=np.float64))


def _noise_scale(values: Sequence[float]) -> Floats:
    return np.log(np.array(values, dtype=np.float64) + _LEAST_NOISE)


def _rising(values: Floats, axes: Sequence[int]) -> Floats:
    """The mean of the lowest rising table above and the highest one below: rises along each of these axes."""
    for axis in axes:
        above = np.maximum.accumulate(values, axis=axis)
        below = np.flip(np.minimum.accumulate(np.flip(values, axis), axis=axis), axis)
        values = (above + below) / 2
    return values


def _at(axes: Sequence[Floats], values: Floats, place: Sequence[float]) -> float:
    """Straight lines between the places of the table, along each axis; at its edges beyond them."""
    for axis, where in zip(axes, place, strict=True):
        above = int(np.clip(np.searchsorted(axis, where), 1, len(axis) - 1))
        share = float(np.clip((where - axis[above - 1]) / (axis[above] - axis[above - 1]), 0.0, 1.0))
        values = (1 - share) * values[above - 1] + share * values[above]
    return float(values)
