"""SecVMClassifierCV: λ, class weights, bins and rounds chosen by cross-validation, all models of it at once."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from secvm.errors import BadInputError
from secvm.estimator.classifier import SecVMClassifier, labels_of
from secvm.estimator.fitting import curves_of
from secvm.estimator.settings import threads
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.rows import BinnedRows


@dataclass(eq=False, repr=False)
class SecVMClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """SecVMClassifier by pegasos, with its settings chosen by cross-validation.

    Every combination of λ, class weight and split is one model; with secvm-lab sixteen of them share each pass. The
    accuracy on a split's test people is known after every round, so the number of rounds is chosen too.

    Parameters
    ----------
    lambdas : values of λ, default=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    class_weights : values of ``class_weight``: None, "balanced" or a dict, default=(None,)
    n_bins : an int, None, or several of those, default=None
    rounds : int or "auto", default="auto"
        Rounds of every model; fewer may be chosen. "auto": as many as the rule usually takes.
    cv : int, splitter or list of (train, test), as in scikit-learn, default=5
    estimator : SecVMClassifier or None, default=None
        All other settings.
    n_jobs : int or None, default=None
        Threads; -1 is one for each processor.

    Attributes
    ----------
    classes_ : array
    best_params_, best_score_, best_estimator_ : dict, float, SecVMClassifier
    cv_results_ : dict
        ``params`` (without rounds), ``curves`` (combinations x splits x rounds: test accuracy), ``mean_test_score`` and
        ``std_test_score`` over the splits at each combination's best round, ``best_round``, ``two_cycle`` (the share of
        splits that were ever caught in one).

    Examples
    --------
    >>> from secvm.estimator import SecVMClassifierCV
    >>> people = [["tea", "rain"], ["rain", "coat"], ["sun", "sea"], ["sea", "sand"]] * 3
    >>> search = SecVMClassifierCV(lambdas=(1e-3, 1e-1), rounds=10, cv=3).fit(people, ["n", "n", "s", "s"] * 3)
    >>> search.best_score_
    1.0
    """

    lambdas: Any = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    _: KW_ONLY
    class_weights: Any = (None,)
    n_bins: Any = None
    rounds: int | Literal["auto"] = "auto"
    cv: Any = 5
    estimator: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Choose by cross-validation, then train on everybody.

        Parameters
        ----------
        X : as for SecVMClassifier
        y : two labels
        """
        y = labels_of(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise BadInputError("a sweep is over models of two classes")
        check_consistent_length(X, y)
        splits = list(check_cv(self.cv, y, classifier=True).split(np.zeros((len(y), 1)), y))
        train = np.zeros((len(y), len(splits)), np.bool_)
        for k, (inside, _) in enumerate(splits):
            train[inside, k] = True
        bins = self.n_bins if isinstance(self.n_bins, list | tuple) else [self.n_bins]
        params: list[dict[str, Any]] = []
        curves: list[NDArray[np.float64]] = []
        caught: list[float] = []
        for n_bins in bins:
            rows = self._rows(n_bins, X)
            for settings, curve, share in self._curves(n_bins, rows, y, train):
                params.append(settings)
                curves.append(curve)
                caught.append(share)
        self._choose(params, np.stack(curves), np.array(caught))
        self.best_estimator_ = self._base(**self.best_params_, n_jobs=self.n_jobs).fit(X, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each person, by the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The score of each person, by the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    # -- inside --------------------------------------------------------------------------------------------------

    def _base(self, **settings: Any) -> SecVMClassifier:
        base = SecVMClassifier(descent="pegasos") if self.estimator is None else self.estimator
        if not isinstance(base, SecVMClassifier) or base.descent != Pegasos.name:
            raise BadInputError(
                f"a sweep is over settings of SecVMClassifier(descent='{Pegasos.name}'); say that descent"
            )
        return SecVMClassifier(**(base.get_params() | settings))

    def _rows(self, n_bins: int | None, X: Any) -> BinnedRows:
        # With a fixed random state the salt is the one that the best estimator will draw.
        base = self._base(n_bins=n_bins, stop="none")
        base._learn_bins(X, None)
        return base.binner_.rows(X)

    def _curves(
        self, n_bins: int | None, rows: BinnedRows, y: NDArray[Any], train: NDArray[np.bool_]
    ) -> list[tuple[dict[str, Any], NDArray[np.float64], float]]:
        """For each combination: its settings, test accuracy (splits x rounds), and how many splits met a two-cycle."""
        codes = np.searchsorted(self.classes_, y).astype(np.int64)
        names = tuple(str(c) for c in self.classes_.tolist())
        settings, experiments = [], []
        for lambda_, class_weight in product(self.lambdas, self.class_weights):
            settings.append({"lambda_": lambda_, "class_weight": class_weight, "n_bins": n_bins})
            asked = self._base(**settings[-1])
            asked.classes_ = self.classes_
            for inside in train.T:
                weights = asked._class_weights(codes[inside], None)
                experiments.append(asked._experiment(names, rows, class_weights=weights))
        n_splits = train.shape[1]
        masks = np.tile(train, (1, len(settings)))
        rounds = Pegasos.usual_rounds() if self.rounds == "auto" else self.rounds
        curves = curves_of(rows, codes, experiments, train=masks, rounds=rounds, threads=threads(self.n_jobs))
        tried = []
        for k, chosen in enumerate(settings):
            accuracies, caught = zip(*curves[k * n_splits : (k + 1) * n_splits], strict=True)
            tried.append((chosen, np.stack(accuracies), sum(caught) / n_splits))
        return tried

    def _choose(self, params: list[dict[str, Any]], curves: NDArray[np.float64], caught: NDArray[np.float64]) -> None:
        """The best mean accuracy, smoothed over three rounds so that no lucky round wins; the first of equals."""
        means = curves.mean(axis=1)
        padded = np.concatenate([means[:, :1], means, means[:, -1:]], axis=1)
        smooth = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
        rounds = smooth.argmax(axis=1)
        every = np.arange(len(params))
        best = int(smooth[every, rounds].argmax())
        self.cv_results_ = {
            "params": params,
            "curves": curves,
            "best_round": rounds + 1,
            "mean_test_score": means[every, rounds],
            "std_test_score": curves[every, :, rounds].std(axis=1),
            "two_cycle": caught,
        }
        self.best_params_ = params[best] | {"rounds": int(rounds[best]) + 1}
        self.best_score_ = float(means[best, rounds[best]])
