"""SecVMClassifier: the offline classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from secvm.errors import BadInputError, BadModelFileError
from secvm.estimator.base import SecVMBase
from secvm.estimator.fitting import real_scores
from secvm.estimator.model import ModelFile
from secvm.estimator.settings import ATTRIBUTES_DOC, PARAMETERS_DOC, NamesOf, losses
from secvm.estimator.training import Population
from secvm.estimator.who_counts import counted_people
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.losses import LOSSES, Hinge
from secvm.learning.rows import BinnedRows

#: From the text of a label in a model file back to what it was.
_LABELS_FROM_TEXT: dict[str, Any] = {"text": str, "int": int, "float": float, "bool": "True".__eq__}


@dataclass(eq=False, repr=False, kw_only=True)
class SecVMClassifier(ClassifierMixin, SecVMBase):
    __doc__ = f"""A linear classifier trained by counts alone, as a federation trains it.

    With ``thinning=3`` and hashed words it has the bytes that a federation of the same people has. There are no
    probabilities (``predict_proba``): ``sklearn.calibration.CalibratedClassifierCV`` makes some of the scores.

    Parameters
    ----------{PARAMETERS_DOC}    loss : str, default="hinge"
        {", ".join(losses(regression=False, among=LOSSES.built_in))}, or one of an installed package.
    loss_parameter : float or None, default=None
        The clip of squared-hinge.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; the normaliser is the weighted number of participants.
    multiclass : {{"ovr", "ovo"}}, default="ovr"

    Attributes
    ----------
    classes_ : array{ATTRIBUTES_DOC}
    Examples
    --------
    >>> from secvm.estimator import SecVMClassifier
    >>> people = [["tea", "rain"], ["rain", "coat"], ["sun", "sea"], ["sea", "sand"]]
    >>> model = SecVMClassifier().fit(people, ["n", "n", "s", "s"])
    >>> model.predict([["rain"], ["sand", "sun"]]).tolist()
    ['n', 's']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SecVMBase._parameter_constraints,
        "loss": [NamesOf(lambda: losses(regression=False))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "multiclass": [StrOptions({"ovr", "ovo"})],
    }

    loss: str = Hinge.name
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    multiclass: Literal["ovr", "ovo"] = "ovr"

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One more round, over these people. The first call needs ``classes`` if they do not all occur in ``y``."""
        self._check_rounds_open()
        y = labels_of(y)
        if not hasattr(self, "weights_"):
            self._validate_params()
            self.classes_ = unique_labels(y if classes is None else np.asarray(classes))
            if len(self.classes_) < 2:
                raise BadInputError("partial_fit needs the classes on its first call, at least two")
            if self.class_weight == "balanced":
                raise BadInputError("class_weight='balanced' needs all people at once; give the weights as a dict")
            self._learn_bins(X, sample_weight)
            self._begin(self._question(self._codes(y), None, self.binner_.rows(X)))
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(np.asarray(classes))):
            raise BadInputError("classes differ from those of the first call")
        self._check_resumable()
        rows, weight = self._counted_rows(X, y, sample_weight)
        return self._one_more_round(Population(rows=rows, labels=self._codes(y), multiplicity=weight))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: one per person for two classes, else people x classes."""
        evaluator, rows = self._evaluator(X)
        scores = evaluator.scores(self.weights_)
        if len(self.classes_) > 2 and self.multiclass == "ovo":
            return self._votes(scores, rows)
        values = real_scores(self.weights_, scores, rows)
        return values[:, 0] if len(self.classes_) == 2 else values

    def _votes(self, scores: NDArray[np.int64], rows: Any) -> NDArray[np.float64]:
        """Votes of the pairs, and the sum of scores squeezed below half a vote to break ties."""
        votes, sums = self.experiment_.models.votes(scores)
        values = real_scores(self.weights_, sums, rows)
        return np.asarray(votes + values / (3 * (np.abs(values) + 1)), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each person."""
        evaluator, _ = self._evaluator(X)
        return np.asarray(self.classes_[evaluator.labels(self.weights_)])

    # -- inside --------------------------------------------------------------------------------------------------

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        return labels_of(y)

    def _asked(
        self, rows: BinnedRows, y: NDArray[Any], weight: NDArray[np.int64] | None, train: NDArray[np.bool_] | None
    ) -> tuple[Experiment, Population]:
        # The classes are part of the question, so those of held-out people are among them; all else is learned without.
        self.classes_ = unique_labels(y if weight is None else y[weight > 0])
        if len(self.classes_) < 2:
            msg = "Classifier can't train when only one class is present."
            raise BadInputError(msg)
        codes = self._codes(y, strict=weight is None)
        experiment = self._question(codes, counted_people(weight, train), rows)
        return experiment, Population(rows=rows, labels=codes, multiplicity=weight, train=train)

    def _codes(self, y: NDArray[Any], *, strict: bool = True) -> NDArray[np.int64]:
        """Place of each label in ``classes_``; labels of people who do not count may be unknown."""
        where = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if strict and not (self.classes_[where] == y).all():
            raise BadInputError("y contains labels that are not among the classes")
        return np.asarray(where, dtype=np.int64)

    def _question(self, codes: NDArray[np.int64], weight: NDArray[np.int64] | None, rows: BinnedRows) -> Experiment:
        if weight is not None:
            rows = rows.take(np.flatnonzero(weight))
        labels = tuple(str(c) for c in self.classes_.tolist())
        weights = self._class_weights(codes, weight)
        return self._experiment(labels, rows, class_weights=weights, multiclass=self.multiclass)

    def _class_weights(self, codes: NDArray[np.int64], weight: NDArray[np.int64] | None) -> tuple[Fraction, ...]:
        if self.class_weight is None:
            return ()
        if isinstance(self.class_weight, dict):
            known = set(self.classes_.tolist())
            strange = next((label for label in self.class_weight if label not in known), None)
            if strange is not None:
                raise BadInputError(f"class_weight names {strange!r}, a label that does not occur")
            return tuple(exact(float(self.class_weight.get(c, 1))) for c in self.classes_.tolist())
        counts = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        total = Fraction(int(counts.sum()))
        return tuple(total / (len(counts) * int(n)) if n else Fraction(1) for n in counts)

    def _label_kind(self) -> str:
        kinds = {type(c) for c in self.classes_.tolist()}
        return {bool: "bool", int: "int", float: "float"}.get(kinds.pop(), "text") if len(kinds) == 1 else "text"

    @classmethod
    def _of_model(cls, model: ModelFile) -> Self:
        experiment = model.experiment
        if experiment.loss.regression:
            raise BadInputError("this model predicts numbers; load it with SecVMRegressor")
        estimator = cls(multiclass="ovo" if experiment.multiclass == "ovo" else "ovr")
        try:
            classes = [_LABELS_FROM_TEXT[model.label_kind](label) for label in experiment.labels]
        except ValueError:
            raise BadModelFileError("the model file names labels of another kind than it says") from None
        estimator.classes_ = np.array(classes)
        if experiment.class_weights:
            estimator.class_weight = {c: float(w) for c, w in zip(classes, experiment.class_weights, strict=True)}
        return estimator


def labels_of(y: Any) -> NDArray[Any]:
    """Labels as scikit-learn wants them checked."""
    if y is None:
        raise BadInputError("requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    if not len(y):
        raise BadInputError("there is nobody to train on: no labels were given")
    if y.dtype.kind in "fc":
        check_array(y.reshape(-1, 1), ensure_2d=True, input_name="y")
    check_classification_targets(y)
    return np.asarray(y)
