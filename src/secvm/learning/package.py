"""The package kinds: all that ever crosses from a person's device to the coordinator, each one alone.

They are values without a sender. Their fixed-size encoding belongs to the protocol.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Sign = Literal[-1, 1]
#: Most rounds of an experiment: packages, and the counter of people's dice, have twenty bits for the round.
MAX_ROUNDS = 2**20 - 1


class Cohort(enum.Enum):
    """Which side of an experiment a person is on, drawn once."""

    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPackage:
    """One unit of one update. It names a model, a bin and a sign, and no one."""

    #: Which binary model of the experiment; 0 when there is only one.
    model: int
    bin_index: int
    #: +1 or -1.
    sign: Sign


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPackage:
    """One prediction of one test person, as a cell of the confusion matrix."""

    __test__ = False  # pytest would take it for a test case

    true_class: int
    predicted_class: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipationPackage:
    """Somebody of this cohort and class takes part in the round: the normaliser is the sum of these."""

    cohort: Cohort
    class_index: int


@dataclass(frozen=True, slots=True)
class NullPackage:
    """Padding up to the budget; dropped by the coordinator."""


Package = TrainPackage | TestPackage | ParticipationPackage | NullPackage
