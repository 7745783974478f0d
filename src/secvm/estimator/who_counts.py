"""Who counts how often, and in which round: weights, cohorts and attendance as callers of ``fit`` give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from secvm.errors import BadInputError
from secvm.estimator.training import Attendance
from secvm.learning.package import Cohort

#: Sample weights that are not integers count in steps of the largest weight over this.
_WEIGHT_STEPS = 2**20


def counted_people(weight: NDArray[np.int64] | None, train: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
    """How often each person counts in training: its weight, and not at all in the test cohort; None: all once."""
    if train is None:
        return weight
    once = np.ones(len(train), dtype=np.int64) if weight is None else weight
    return np.asarray(np.where(train, once, 0), dtype=np.int64)


def attendance_table(attendance: Any, n: int) -> Attendance | None:
    """Rounds x people, as booleans: who takes part in which round. After its last row it begins anew."""
    if attendance is None or callable(attendance):
        return attendance  # type: ignore[no-any-return]  # a function of the round is what it should be
    table = np.asarray(attendance, dtype=np.bool_)
    if table.ndim != 2 or table.shape[1] != n or not len(table):
        raise BadInputError("the attendance table must have a row for each round and a column for each person")
    return lambda round_number: np.asarray(table[(round_number - 1) % len(table)])


def cohort_mask(cohorts: Any, n: int) -> NDArray[np.bool_]:
    """True for train: from booleans, ``Cohort`` values or the words train and test."""
    listed = list(cohorts)
    if len(listed) != n:
        raise BadInputError("there must be a cohort for each person")
    words = [c.value if isinstance(c, Cohort) else c for c in listed]
    if not all(w in ("train", "test") or isinstance(w, bool | np.bool_) for w in words):
        raise BadInputError("a cohort is train or test")
    return np.array([w == "train" or (not isinstance(w, str) and bool(w)) for w in words], dtype=np.bool_)


def multiplicities(sample_weight: Any, X: Any, n: int) -> NDArray[np.int64] | None:
    """Sample weights as integers: as they are where they are integers, else in steps of the largest over 2^20."""
    if sample_weight is None:
        return None
    stand_in = np.empty((n, 1)) if not hasattr(X, "shape") else X
    weight = np.asarray(_check_sample_weight(sample_weight, stand_in, ensure_non_negative=True), dtype=np.float64)
    if not (weight > 0).any():
        raise BadInputError("all sample weights are zero")
    if (weight == np.rint(weight)).all() and weight.max() <= _WEIGHT_STEPS:
        whole = weight.astype(np.int64)
        return None if (whole == 1).all() else whole
    return np.asarray(np.rint(weight / weight.max() * _WEIGHT_STEPS), dtype=np.int64)
