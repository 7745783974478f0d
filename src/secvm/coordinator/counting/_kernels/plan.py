"""Plan: the rounds that are counted, laid out as plain numbers, and the counts that grow while blocks go by.

All counts of all rounds lie in one array. A round has a row in ``shapes`` that says what it takes and where its counts
begin. ``refused`` counts what fits nowhere, by its place in ``REFUSALS``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Why a package is not counted: names of ``secvm.protocol.problems``.
REFUSALS = ("garbage", "unknown-experiment", "wrong-round", "unknown-model", "bin-out-of-range", "unknown-class")
GARBAGE, UNKNOWN_EXPERIMENT, WRONG_ROUND, UNKNOWN_MODEL, BIN_OUT_OF_RANGE, UNKNOWN_CLASS = range(len(REFUSALS))

#: The columns of ``Plan.shapes``. BINS has the bias inside.
ROUND, MODELS, BINS, LABELS, REGRESSION, PLUS, MINUS, PARTICIPANTS, CELLS = range(9)
#: The columns of ``Plan.kinds``: packages that were counted, by what they are.
N_KINDS = 5
TRAIN, TEST, TRAIN_PARTICIPANT, TEST_PARTICIPANT, NULL = range(N_KINDS)


@dataclass(frozen=True, slots=True)
class Plan:
    """What both kernels read, and where they count."""

    #: uint64, rounds x 3: the experiment's id as it stands in the words of a record: 6, 8 and 2 bytes of it.
    ids: NDArray[np.uint64]
    #: int64, rounds x 9.
    shapes: NDArray[np.int64]
    #: int64: all counts of all rounds.
    counts: NDArray[np.int64]
    #: int64, rounds x ``N_KINDS``.
    kinds: NDArray[np.int64]
    #: int64, one for each of ``REFUSALS``.
    refused: NDArray[np.int64]
