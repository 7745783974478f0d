"""Everybody's rows in one place, and scikit-learn: what one would do if nobody had anything to hide.

Rows keep their counts, are made as long as 1, and have the bias as one more entry. How much to regularise is chosen on
a fifth of the people who train, never on those on whom the model is measured; then all of them train.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.baseline import SAMPLING, Fitted, as_weights, dice, two_labels

#: C of LinearSVC, and alpha of the descent, that are tried.
PENALTIES = (0.1, 1.0, 10.0)
ALPHAS = (1e-5, 1e-4, 1e-3)
#: Of the people who train, on whom they are tried.
_TRIED_ON = 0.2
#: Passes over everybody of the descent.
_PASSES = 10


@dataclass(frozen=True)
class Scikit:
    """A linear classifier of scikit-learn, tuned. ``kind``: "svc" or "sgd"."""

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in ("svc", "sgd"):
            raise BadInputError('scikit-learn is asked for "svc" or "sgd"')

    @property
    def name(self) -> str:
        return "LinearSVC, tuned" if self.kind == "svc" else "averaged SGD, tuned"

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        signs, matrix = two_labels(labels), unit_matrix(rows)
        tried = dice(seed, SAMPLING).random(len(rows)) < _TRIED_ON
        best = PENALTIES[0] if self.kind == "svc" else ALPHAS[0]
        if len(set(signs[~tried])) == len(set(signs[tried])) == 2:
            values = PENALTIES if self.kind == "svc" else ALPHAS
            found = [
                np.mean(
                    np.where(matrix[tried] @ self._fit(value, matrix[~tried], signs[~tried]) >= 0, 1, -1)
                    == signs[tried]
                )
                for value in values
            ]
            best = values[int(np.argmax(found))]
        weights = self._fit(best, matrix, signs)
        return Fitted(self.name, as_weights(weights), LabelModels(n_labels=2), notes={"chosen": best})

    def _fit(self, value: float, matrix: Any, signs: NDArray[np.float64]) -> NDArray[np.float64]:
        from sklearn.linear_model import SGDClassifier  # noqa: PLC0415
        from sklearn.svm import LinearSVC  # noqa: PLC0415

        if self.kind == "svc":
            model: Any = LinearSVC(C=value, fit_intercept=False, random_state=0)
        else:
            model = SGDClassifier(
                alpha=value, average=True, fit_intercept=False, max_iter=_PASSES, tol=None, random_state=0
            )
        with warnings.catch_warnings():
            # That it has not converged to the last digit is no news here.
            warnings.simplefilter("ignore")
            return np.asarray(model.fit(matrix, signs).coef_[0], dtype=np.float64)


def unit_matrix(rows: BinnedRows) -> Any:
    """Rows of length 1 with the bias as their last entry, as scikit-learn takes them."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415

    bins = np.insert(rows.bins.astype(np.int64), rows.indptr[1:], rows.n_bins)
    values = np.insert(rows.values.astype(np.float64), rows.indptr[1:], 1.0)
    indptr = rows.indptr + np.arange(len(rows) + 1)
    values /= np.repeat(np.sqrt(rows.squared_norms), np.diff(indptr))
    return csr_matrix((values, bins, indptr), shape=(len(rows), rows.n_bins + 1))
