"""Raw features and label of one person, and the sample of them that an experiment gets to see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from secvm.errors import BadInputError
from secvm.learning.individual.binning import utf8
from secvm.learning.individual.dice import Dice, Purpose

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class KeptOnDevice(Generic[T]):
    """A value that must not leave this device, not even by way of a log line."""

    value: T

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def sample_features(features: Mapping[str, int], limit: int | None, dice: Dice) -> dict[str, int]:
    """At most ``limit`` of a person's features, drawn once per experiment without replacement.

    Features that are there (value not zero) stand in the order of their UTF-8 bytes, each draws a word, and the
    smallest words win. The draw does not depend on the round: a new sample each round would empty a history bit by bit.
    """
    there = {name: value for name, value in features.items() if value}
    if limit is None or len(there) <= limit:
        return there
    if limit < 1:
        raise BadInputError("the number of features per person must be at least 1")
    names = sorted(there, key=utf8)
    words = dice.words(Purpose.FEATURES, 0, 0, len(names))
    chosen = sorted(range(len(names)), key=lambda i: (words[i], i))[:limit]
    return {names[i]: there[names[i]] for i in sorted(chosen)}
