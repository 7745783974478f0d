"""Two ways without protection: scikit-learn on everybody's rows, and federated averaging.

*scikit-learn* has everybody's rows in one place: what one would do if nobody had anything to hide. Rows keep their
counts, are made as long as 1, and have the bias as one more entry. How much to regularise is chosen on a fifth of the
people who train, never on those on whom the model is measured; then all of them train.

*Federated averaging* (McMahan et al. 2017): clients of ``people_per_client`` people each (the last one may have fewer;
one person: its own device) start from the common model, go through their people ``epochs`` times by stochastic descent
on the hinge loss, and send their whole model. The server takes the mean, each model weighted by its people. It sees
every client's model: with one person to a client, the difference to the common model *is* that person's row and label.

A client's model is w + Σ c x over its own people, so that only the coefficients c need to be kept, and all clients go
on at once: person by person, with the inner products of a client's people written down beforehand.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.baseline import (
    GROUPS,
    SAMPLING,
    Fitted,
    Floats,
    UnitRows,
    as_weights,
    clipped,
    dice,
    two_labels,
)

#: C of LinearSVC, and alpha of the descent, that are tried.
PENALTIES = (0.1, 1.0, 10.0)
ALPHAS = (1e-5, 1e-4, 1e-3)
#: Of the people who train, on whom they are tried.
_TRIED_ON = 0.2
#: Passes over everybody of the descent.
_PASSES = 10


@dataclass(frozen=True)
class Scikit:
    """A linear classifier of scikit-learn, tuned."""

    kind: Literal["svc", "sgd"]

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


@dataclass(frozen=True)
class FederatedAveraging:
    """Federated averaging on normalised rows."""

    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    people_per_client: int = 1
    epochs: int = 5
    step_size: float = 0.3
    name: ClassVar[str] = "federated averaging"

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        signs = two_labels(labels)
        people = UnitRows(clipped(rows, self.contribution, seed=seed))
        clients = self._clients(len(people), seed)
        products = self._products(people, clients)
        weights = np.zeros(people.n_cells, dtype=np.float64)
        for _ in range(self.rounds):
            coefficients = self._locally(people.scores(weights), signs, clients, products)
            # Σ n_k (w + Σ c x) / N over clients; a client's part weighs as many people as it has.
            sizes = (clients >= 0).sum(axis=1)
            weight = np.zeros(len(people), dtype=np.float64)
            weight[clients[clients >= 0]] = np.repeat(sizes, sizes)
            weights = weights + people.combined(coefficients * weight) / len(people)
        return Fitted(self.name, as_weights(weights), LabelModels(n_labels=2))

    def _clients(self, n: int, seed: int) -> NDArray[np.int64]:
        """Clients x places: who is where; -1 for nobody."""
        places = self.people_per_client
        table = np.full(-(-n // places) * places, -1, dtype=np.int64)
        table[:n] = dice(seed, GROUPS).permutation(n)
        return table.reshape(-1, places)

    @staticmethod
    def _products(people: UnitRows, clients: NDArray[np.int64]) -> Floats:
        """Clients x places x places: inner products of a client's people; 0 with nobody."""
        out = np.zeros((*clients.shape, clients.shape[1]), dtype=np.float64)
        for number, client in enumerate(clients):
            here = client >= 0
            rows = people.dense(client[here])
            out[number][np.ix_(here, here)] = rows @ rows.T
        return out

    def _locally(self, scores: Floats, signs: Floats, clients: NDArray[np.int64], products: Floats) -> Floats:
        """Each person's coefficient after its client's epochs."""
        margins = np.where(clients >= 0, scores[clients], 0.0)
        sides = np.where(clients >= 0, signs[clients], 0.0)
        moved = np.zeros_like(margins)
        for _ in range(self.epochs):
            for place in range(clients.shape[1]):
                side = sides[:, place]
                step = np.where(side * margins[:, place] < 1, self.step_size * side, 0.0)
                moved[:, place] += step
                margins += step[:, None] * products[:, place, :]
        found = np.zeros_like(scores)
        found[clients[clients >= 0]] = moved[clients >= 0]
        return found
