"""What a run over days says: rounds, and the drop of the minority's recall at night.

**night_drop** of a run around the clock is the mean recall of the minority over day rounds minus that over night
rounds (23 to 6 o'clock in the main zone), after a warm-up of one day. A run by day only has no night. There it is the
mean over the middle half of the day minus that over the first and the last quarter, which lie next to the nights: what
a night does to a model would show there, and a model that gets better or worse all day long does not. A run around the
clock has that number too (``edge_drop``), over the same hours; there it is small too, since by eight in the morning the
night is forgotten. So it can say that a night's drop is not there, and not that one would have been seen.

**hourly_spread** is one measure for both: the standard deviation of the minority's recall from hour to hour, after the
warm-up. It holds chance as well, which is more where fewer test people are asked.

**Standard error.** Rounds next to each other share people and model. They are put together to hours; hours are taken as
independent, and the error is that of a difference of two means of hours. Where recall moves within the night, that
counts as error too: it is rather too large than too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from secvm.learning.aggregate.scoring import Score, Share
from secvm_lab.online.population.residents import Opening

#: Index of the minority.
MINORITY = 1
#: Days at the beginning that are left out.
WARM_UP_DAYS = 1
#: Hours of the day that a run by day has, where nothing else is said.
DAYTIME = (8, 20)


@dataclass(frozen=True, slots=True)
class Drop:
    """A difference of two means of recall, and its standard error; None where one of them has no rounds."""

    value: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One round."""

    opening: Opening
    abandoned: bool
    #: Devices that took part, and those that went away before the end.
    devices: int
    stragglers: int
    #: Honest devices that stayed to the end.
    steady: int
    packages: int
    #: Train and test participants by label, as counted.
    trained: tuple[int, ...]
    tested: tuple[int, ...]
    score: Score
    #: The minority's share of the training, class weights included.
    weighted_share: float

    @property
    def recall(self) -> float:
        """The minority's."""
        return self.score.recall[MINORITY].value

    def told(self, labels: Sequence[str]) -> dict[str, Any]:
        """The round as stable keys."""

        def by_label(values: Iterable[Any]) -> dict[str, Any]:
            return dict(zip(labels, values, strict=True))

        def shares(found: tuple[Share, ...]) -> dict[str, Any]:
            return by_label(_rounded(share.value) for share in found)

        return {
            "round": self.opening.number,
            "night": self.opening.night,
            "hour": round(self.opening.hour, 3),
            "abandoned": self.abandoned,
            "participants": self.devices,
            "stragglers": self.stragglers,
            "trained": by_label(self.trained),
            "tested": by_label(self.tested),
            "packages": self.packages,
            "recall": shares(self.score.recall),
            "recall_interval": by_label([_rounded(end) for end in share.interval] for share in self.score.recall),
            "precision": shares(self.score.precision),
            "baseline": shares(self.score.baseline),
        }


@dataclass(frozen=True, eq=False)
class Run:
    """One run over days."""

    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    #: How it learned.
    learning: str
    #: What the last model says of all test people, there or not: it comes too late for a round's test packages.
    final: Score
    #: The bytes of the last state.
    state: bytes = field(repr=False)
    #: Devices that took part on each day, at least once.
    daily_active: tuple[int, ...]
    #: Devices in all.
    devices: int
    budget: int
    #: Whether it ended inside a two-cycle.
    two_cycle: bool
    seconds: float

    def settled(self) -> list[Line]:
        """The lines after the warm-up; of a run of one day, those of its second half."""
        later = [line for line in self.lines if line.opening.day >= WARM_UP_DAYS]
        return later or list(self.lines[len(self.lines) // 2 :])

    @property
    def around_the_clock(self) -> bool:
        return any(line.opening.night for line in self.lines)

    @property
    def night_drop(self) -> Drop:
        """See above."""
        if not self.around_the_clock:
            return self.edge_drop()
        return self._drop(lambda line: not line.opening.night, lambda line: line.opening.night)

    def edge_drop(self, hours: tuple[int, int] | None = None) -> Drop:
        """The middle of the day beside its edges."""
        if hours is None:
            found = [line.opening.hour for line in self.lines]
            hours = DAYTIME if self.around_the_clock else (math.floor(min(found)), math.ceil(max(found)))
        begin, end = hours
        quarter = (end - begin) / 4

        def middle(line: Line) -> bool:
            return begin + quarter <= line.opening.hour < end - quarter

        def edge(line: Line) -> bool:
            return begin <= line.opening.hour < end and not middle(line)

        return self._drop(middle, edge)

    @property
    def hourly_spread(self) -> float | None:
        """See above; None where there are less than two hours."""
        hours = _by_hour(self.settled())
        return float(np.std(hours, ddof=1)) if len(hours) > 1 else None

    def mean(self, value: Callable[[Line], float], *, night: bool | None = None) -> float | None:
        """The mean over settled rounds; by day, at night, or both."""
        found = [value(line) for line in self.settled() if night is None or line.opening.night == night]
        found = [one for one in found if not math.isnan(one)]
        return float(np.mean(found)) if found else None

    def _drop(self, high: Callable[[Line], bool], low: Callable[[Line], bool]) -> Drop:
        ours, theirs = (_by_hour([line for line in self.settled() if which(line)]) for which in (high, low))
        if not ours or not theirs:
            return Drop(None, None)
        value = float(np.mean(ours) - np.mean(theirs))
        if min(len(ours), len(theirs)) < 2:
            return Drop(value, None)
        return Drop(value, math.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs)))

    def told(self, *, rounds: bool = True) -> dict[str, Any]:
        """The run as stable keys."""
        drop, edge = self.night_drop, self.edge_drop()
        participants = sum(line.devices for line in self.lines)
        told: dict[str, Any] = {"rounds": [line.told(self.labels) for line in self.lines]} if rounds else {}
        return told | {
            "night_drop": _rounded(drop.value),
            "night_drop_error": _rounded(drop.error),
            "edge_drop": _rounded(edge.value),
            "edge_drop_error": _rounded(edge.error),
            "hourly_spread": _rounded(self.hourly_spread),
            "means": {"day": self._means(night=False), "night": self._means(night=True)},
            "final": {
                name: dict(zip(self.labels, [_rounded(s.value) for s in getattr(self.final, name)], strict=True))
                for name in ("recall", "precision", "baseline")
            },
            "learning": self.learning,
            "devices": self.devices,
            "daily_active": list(self.daily_active),
            "participants_per_round": round(participants / len(self.lines), 1),
            "packages_per_participant": round(sum(line.packages for line in self.lines) / max(1, participants), 2),
            "budget": self.budget,
            "abandoned": sum(line.abandoned for line in self.lines),
            "two_cycle": self.two_cycle,
            "seconds": round(self.seconds, 3),
        }

    def _means(self, *, night: bool) -> dict[str, Any] | None:
        if self.mean(lambda line: line.devices, night=night) is None:
            return None
        means: dict[str, Any] = {"participants": self.mean(lambda line: line.devices, night=night)}
        for name in ("recall", "precision", "baseline"):
            means[name] = {
                label: _rounded(self.mean(lambda line: getattr(line.score, name)[i].value, night=night))  # noqa: B023
                for i, label in enumerate(self.labels)
            }
        means["weighted_share"] = _rounded(self.mean(lambda line: line.weighted_share, night=night))
        return means


def _by_hour(lines: Sequence[Line]) -> list[float]:
    """The minority's recall, in means of an hour each."""
    hours: dict[tuple[int, int], list[float]] = {}
    for line in lines:
        if not math.isnan(line.recall):
            hours.setdefault((line.opening.day, int(line.opening.hour)), []).append(line.recall)
    return [float(np.mean(found)) for found in hours.values()]


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 5)
