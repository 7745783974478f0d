"""Real-valued columns → integer levels, because packages are units.

Column by column, looking only at rows of positive weight:

 1. Counts are counts: a column of whole numbers between -255 and 255 is taken as it is, where the median is zero or all
    are zero or one. In a sparse matrix, where zeros are not told, every such column is.
 2. Any other column becomes ``level = round_half_even(resolution * (x - centre) / scale)``, clipped at 8 scales.
    The centre is the median; the scale is half the distance between the 16 % and the 84 % quantile (one standard
    deviation, if normal), or half the range where those coincide. All are values that occur in the column
    (lower quantiles of the weighted sample), so that a row of weight 2 is the same as the row twice, to the bit.
 3. In a sparse matrix zero means absent: the centre is 0 and the scale is the 84 % quantile of the |values| there are.
 4. A constant column has level 0: it says nothing that the bias does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from secvm.estimator.question import weighted_quantiles

#: Integers up to this are counts; beyond, they are measurements.
LARGEST_COUNT = 255
#: Levels per scale.
RESOLUTION = 4
#: Values further from the centre than this many scales are clipped: an outlier must not become thousands of packages.
CLIP_SCALES = 8


@dataclass(frozen=True, eq=False)
class Quantiser:
    """What was learned of the columns: level = round(factor * (x - centre)); factor 0 marks a column of counts."""

    centre: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def learn(cls, x: NDArray[np.float64] | Any, weight: NDArray[np.float64] | None) -> Quantiser:
        """Look at the columns of an array or a CSR matrix."""
        used = np.ones(x.shape[0], dtype=bool) if weight is None else weight > 0
        counted = np.ones(x.shape[0]) if weight is None else weight
        return cls._of_sparse(x[used], counted[used]) if is_sparse(x) else cls._of_dense(x[used], counted[used])

    @classmethod
    def _of_dense(cls, x: NDArray[np.float64], weight: NDArray[np.float64]) -> Quantiser:
        centre, factor = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        for j in range(x.shape[1]):
            column = x[:, j]
            if are_counts(column, weight):
                continue
            low, centre[j], high = weighted_quantiles(column, weight, (0.16, 0.5, 0.84))
            # Halved before they are subtracted: the distance of two numbers may be none any more.
            scale = (high / 2 - low / 2) or float(column.max() / 2 - column.min() / 2)
            factor[j] = _factor(scale)
        return cls(centre, factor)

    @classmethod
    def _of_sparse(cls, x: Any, weight: NDArray[np.float64]) -> Quantiser:
        factor = np.zeros(x.shape[1])
        columns = sp.csc_matrix(x)
        for j in range(x.shape[1]):
            where = slice(columns.indptr[j], columns.indptr[j + 1])
            values = columns.data[where]
            if not _are_small_and_whole(values):
                (scale,) = weighted_quantiles(np.abs(values), weight[columns.indices[where]], (0.84,))
                factor[j] = _factor(scale)
        return cls(np.zeros(x.shape[1]), factor)

    def levels(self, x: NDArray[np.float64] | Any) -> Any:
        """Integer levels as a CSR matrix of int64; counts stay what they are, however large a later row's are."""
        bound = CLIP_SCALES * RESOLUTION
        if is_sparse(x):
            x = sp.csr_matrix(x)
            factor = self.factor[x.indices]
            data = _to_levels(x.data, 0.0, factor, bound)
            # Copies: what falls to level 0 is removed in place, and the arrays may be those of the caller's matrix.
            out = sp.csr_matrix((data, x.indices.copy(), x.indptr.copy()), shape=x.shape)
            out.eliminate_zeros()
            out.sort_indices()
            return out
        return sp.csr_matrix(_to_levels(x, self.centre, self.factor, bound))


def _to_levels(x: NDArray[np.float64], centre: Any, factor: NDArray[np.float64], bound: int) -> NDArray[np.int64]:
    """Columns of counts are rounded only where a later row is not an integer after all."""
    with np.errstate(over="ignore"):  # beyond all numbers is clipped like any outlier
        scaled = np.clip(np.rint((x - centre) * factor), -bound, bound)
    counts = np.rint(np.clip(x, -(2.0**31), 2.0**31))
    return np.where(factor == 0, counts, scaled).astype(np.int64)


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix of scipy (mypy would take ``issparse`` for a type that can do nothing)."""
    return bool(sp.issparse(x))


def are_counts(column: NDArray[np.float64], weight: NDArray[np.float64]) -> bool:
    """Whether a dense column is taken as it is."""
    if not _are_small_and_whole(column):
        return False
    return not column.size or weighted_quantiles(column, weight, (0.5,)) == (0.0,) or set(np.unique(column)) <= {0, 1}


def _are_small_and_whole(values: NDArray[np.float64]) -> bool:
    if not values.size:
        return True
    return bool(np.abs(values).max() <= LARGEST_COUNT and (values == np.rint(values)).all())


def _factor(scale: float) -> float:
    # Factor 0 marks a column of counts, so a constant column gets one that sends every difference to level 0.
    if scale == 0 or not np.isfinite(RESOLUTION / scale):
        return float(np.finfo(np.float64).tiny)
    return float(RESOLUTION / scale)
