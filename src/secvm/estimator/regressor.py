"""SecVMRegressor: a number as the label, learned by signs of residuals alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from secvm.errors import BadInputError
from secvm.estimator.base import SecVMBase
from secvm.estimator.model import ModelFile
from secvm.estimator.question import fixed_targets, range_scale, target_scale
from secvm.estimator.settings import ATTRIBUTES_DOC, PARAMETERS_DOC, NamesOf, losses
from secvm.estimator.training import Population
from secvm.estimator.who_counts import counted_people
from secvm.learning.aggregate.descent import DescentRule
from secvm.learning.experiment import Experiment
from secvm.learning.losses import LOSSES, EpsilonInsensitive
from secvm.learning.rows import BinnedRows


@dataclass(eq=False, repr=False, kw_only=True)
class SecVMRegressor(RegressorMixin, SecVMBase):
    __doc__ = f"""A linear regression whose devices send only the sign of their residual, unit by unit.

    The label is centred at its median and scaled by half the distance of its 16 % and 84 % quantiles, both public; with
    ``epsilon``, where they would tell of people, both follow from ``label_range``. The rule is "pegasos" by default:
    its steps are small in the end, as a number as the label needs them.

    Parameters
    ----------{PARAMETERS_DOC}    loss : str, default="epsilon-insensitive"
        {", ".join(losses(regression=True, among=LOSSES.built_in))}, or one of an installed package.
    loss_parameter : float or None, default=None
        ε in units of the label (default: a tenth of the label's scale), or the quantile of pinball (default: ½).
    label_range : (float, float) or None, default=None
        Lowest and highest label, public; needed by ``epsilon``. Labels beyond it count as its ends.

    Attributes
    ----------{ATTRIBUTES_DOC}

    Examples
    --------
    >>> from secvm.estimator import SecVMRegressor
    >>> model = SecVMRegressor(rounds=300).fit([[0], [1], [2], [3]], [0.0, 1.0, 2.0, 3.0])
    >>> bool(abs(model.predict([[2]])[0] - 2) < 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SecVMBase._parameter_constraints,
        "loss": [NamesOf(lambda: losses(regression=True))],
        "label_range": [tuple, None],
    }

    descent: Literal["swift", "pegasos"] | DescentRule = "pegasos"
    loss: str = EpsilonInsensitive.name
    label_range: tuple[float, float] | None = None

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more round; the first call fixes centre and scale of the label."""
        self._check_rounds_open()
        y = self._checked_labels(y)
        if not hasattr(self, "weights_"):
            self._validate_params()
            self._learn_bins(X, sample_weight)
            rows, weight = self._counted_rows(X, y, sample_weight)
            self._begin(self._question(y, weight, rows))
        self._check_resumable()
        rows, weight = self._counted_rows(X, y, sample_weight)
        return self._one_more_round(self._population(self.experiment_, rows, y, weight))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each person."""
        evaluator, _ = self._evaluator(X)
        return evaluator.numbers(self.weights_)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _values(self) -> str:
        # Beyond its outermost knots a line would be flat.
        values = super()._values
        return "counts" if values == "auto" else values

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        if y is None:
            raise BadInputError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        if not len(y):
            raise BadInputError("there is nobody to train on: no labels were given")
        return np.asarray(check_array(y.reshape(-1, 1), dtype=np.float64, input_name="y")).ravel()

    def _asked(
        self, rows: BinnedRows, y: NDArray[Any], weight: NDArray[np.int64] | None, train: NDArray[np.bool_] | None
    ) -> tuple[Experiment, Population]:
        experiment = self._question(y, counted_people(weight, train), rows)
        return experiment, self._population(experiment, rows, y, weight, train)

    def _question(self, y: NDArray[np.float64], weight: NDArray[np.int64] | None, rows: BinnedRows) -> Experiment:
        counted = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        where = np.flatnonzero(counted)
        if self.epsilon is None:
            centre, spread = target_scale(y[where], counted[where])
        else:
            centre, spread = range_scale(self.label_range)
        # The default ε depends on the data; the parameter itself stays as it was given.
        loss = self._loss() if self.loss_parameter is not None else self._loss().scaled_to(spread)
        return self._experiment(
            ("number",),
            rows.take(where),
            loss=loss,
            target_centre=centre,
            target_spread=spread,
        )

    def _population(
        self,
        experiment: Experiment,
        rows: Any,
        y: NDArray[np.float64],
        weight: NDArray[np.int64] | None,
        train: NDArray[np.bool_] | None = None,
    ) -> Population:
        if self.epsilon is not None and self.label_range is not None:
            y = np.clip(y, *self.label_range)
        return Population(
            rows=rows,
            labels=np.zeros(len(y), dtype=np.int64),
            targets=fixed_targets(y, experiment),
            multiplicity=weight,
            train=train,
        )

    @classmethod
    def _of_model(cls, model: ModelFile) -> Self:
        if not model.experiment.loss.regression:
            raise BadInputError("this model predicts labels; load it with SecVMClassifier")
        return cls()
