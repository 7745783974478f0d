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
TRAIN, TEST, TRAIN_PARTICIPANT, TEST_PARTICIPANT, NULL = range(5)


@dataclass(frozen=True, slots=True)
class Shape:
    """What one round takes."""

    experiment_id: bytes
    round_number: int
    n_models: int
    #: Without the bias.
    n_bins: int
    n_labels: int
    regression: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What both kernels read, and where they count."""

    #: uint64, rounds x 3: the experiment's id as it stands in the words of a record: 6, 8 and 2 bytes of it.
    ids: NDArray[np.uint64]
    #: int64, rounds x 9.
    shapes: NDArray[np.int64]
    #: int64: all counts of all rounds.
    counts: NDArray[np.int64]
    #: int64, rounds x 5.
    kinds: NDArray[np.int64]
    #: int64, one for each of ``REFUSALS``.
    refused: NDArray[np.int64]


def make_plan(rounds: list[Shape]) -> Plan:
    """Nothing counted yet."""
    ids, shapes, at = [], [], 0
    for told in rounds:
        words = (told.experiment_id[:6], told.experiment_id[6:14], told.experiment_id[14:])
        ids.append([int.from_bytes(word, "little") for word in words])
        n_bins = told.n_bins + 1
        sizes = (told.n_models * n_bins, told.n_models * n_bins, told.n_labels, told.n_labels**2)
        row = [told.round_number, told.n_models, n_bins, told.n_labels, int(told.regression)]
        for size in sizes:
            row.append(at)
            at += size
        shapes.append(row)
    return Plan(
        ids=np.array(ids, dtype=np.uint64).reshape(-1, 3),
        shapes=np.array(shapes, dtype=np.int64).reshape(-1, 9),
        counts=np.zeros(at, dtype=np.int64),
        kinds=np.zeros((len(rounds), 5), dtype=np.int64),
        refused=np.zeros(len(REFUSALS), dtype=np.int64),
    )
