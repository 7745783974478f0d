"""SecVMRegressor: a number as the label, learned by signs of residuals alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length

from secvm.errors import BadInputError
from secvm.estimator.base import PARAMETERS_DOC, SecVMBase, counted_people, multiplicities
from secvm.estimator.fitting import Evaluator
from secvm.estimator.model import ModelFile
from secvm.estimator.question import fixed_targets, range_scale, right_within, target_scale
from secvm.estimator.settings import NamesOf, losses
from secvm.estimator.training import Population
from secvm.learning.aggregate.descent import OFFLINE, DescentRule
from secvm.learning.experiment import Experiment
from secvm.learning.losses import LOSSES, EpsilonInsensitive
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm.privacy.target import PrivacyTarget


class SecVMRegressor(RegressorMixin, SecVMBase):
    __doc__ = f"""A linear regression whose devices send only the sign of their residual, unit by unit.

    The label is centred at its median and scaled by half the distance of its 16 % and 84 % quantiles, both public; with
    ``privacy``, where they would tell of people, both follow from ``label_range``.

    Parameters
    ----------{PARAMETERS_DOC}    loss : str
        {", ".join(losses(regression=True, among=LOSSES.built_in))}, or one of an installed package.
    loss_parameter : float or None
        ε in units of the label (default: a tenth of the label's scale), or the quantile of pinball (default: ½).
    label_range : (float, float) or None
        Lowest and highest label, public; needed by ``privacy``. Labels beyond it count as its ends.

    Examples
    --------
    >>> from secvm.estimator import SecVMRegressor
    >>> model = SecVMRegressor(rounds=300).fit([[0], [1], [2], [3]], [0.0, 1.0, 2.0, 3.0])
    >>> bool(abs(model.predict([[2]])[0] - 2) < 0.5)
    True
    """

    _parameter_constraints = {
        **SecVMBase._parameter_constraints,
        "loss": [NamesOf(lambda: losses(regression=True))],
        "label_range": [tuple, None],
    }

    def __init__(
        self,
        n_bins: int | None = None,
        *,
        n_hashes: int = 1,
        salt: str | bytes | None = None,
        values: str = "counts",
        features_per_person: int | None = None,
        loss: str = EpsilonInsensitive.name,
        loss_parameter: float | None = None,
        descent: str | DescentRule = OFFLINE.name,
        thinning: str | float | None = "auto",
        lambda_: float | None = None,
        rounds: int | None = None,
        averaging: int | None = None,
        step_cap: float | str | None = "auto",
        decay: float | None = None,
        stop: str = "none",
        validation_fraction: float = 0.1,
        budget: int | None = None,
        privacy: PrivacyTarget | None = None,
        label_range: tuple[float, float] | None = None,
        dice_seed: bytes | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.n_hashes = n_hashes
        self.salt = salt
        self.values = values
        self.features_per_person = features_per_person
        self.loss = loss
        self.loss_parameter = loss_parameter
        self.descent = descent
        self.thinning = thinning
        self.lambda_ = lambda_
        self.rounds = rounds
        self.averaging = averaging
        self.step_cap = step_cap
        self.decay = decay
        self.stop = stop
        self.validation_fraction = validation_fraction
        self.budget = budget
        self.privacy = privacy
        self.label_range = label_range
        self.dice_seed = dice_seed
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, cohorts: Any = None, attendance: Any = None) -> Self:
        """Train for ``rounds`` rounds; the arguments are those of ``SecVMClassifier.fit``."""
        self._validate_params()
        self._check_privacy(sample_weight, attendance)
        y = _numbers(y)
        self.seed_ = self._seed()
        train = self._train_mask(X, cohorts)
        self._learn_bins(X, sample_weight, train)
        rows = self.binner_.rows(X)
        check_consistent_length(y, range(len(rows)))
        weight = multiplicities(sample_weight, X, len(rows))
        experiment = self._question(y, counted_people(weight, train), rows, weighted=weight is not None)
        self._run(experiment, self._population(experiment, rows, y, weight, train), attendance=attendance)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more round; the first call fixes centre and scale of the label."""
        self._check_rounds_open()
        y = _numbers(y)
        if not hasattr(self, "weights_"):
            self._validate_params()
            self.seed_ = self._seed()
            self._learn_bins(X, sample_weight)
            rows = self.binner_.rows(X)
            check_consistent_length(y, range(len(rows)))
            weight = multiplicities(sample_weight, X, len(rows))
            self._begin(self._question(y, weight, rows, weighted=sample_weight is not None))
        self._check_resumable()
        rows = self.binner_.rows(X)
        check_consistent_length(y, range(len(rows)))
        weight = multiplicities(sample_weight, X, len(rows))
        return self._one_more_round(self._population(self.experiment_, rows, y, weight))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each person."""
        evaluator, _ = self._evaluator(X)
        return evaluator.numbers(self.weights_)

    # -- inside --------------------------------------------------------------------------------------------------

    def _question(
        self, y: NDArray[np.float64], weight: NDArray[np.int64] | None, rows: BinnedRows, *, weighted: bool
    ) -> Experiment:
        counted = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        where = np.flatnonzero(counted)
        if self.privacy is None:
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
            weighted=weighted,
        )

    def _population(
        self,
        experiment: Experiment,
        rows: Any,
        y: NDArray[np.float64],
        weight: NDArray[np.int64] | None,
        train: NDArray[np.bool_] | None = None,
    ) -> Population:
        if self.privacy is not None and self.label_range is not None:
            y = np.clip(y, *self.label_range)
        return Population(
            rows=rows,
            labels=np.zeros(len(y), dtype=np.int64),
            targets=fixed_targets(y, experiment),
            multiplicity=weight,
            train=train,
        )

    def _held_out(self, experiment: Experiment, people: Population, where: NDArray[np.int64]) -> Any:
        evaluator = Evaluator(experiment, people.rows.take(where), threads=self.n_jobs or 1)
        assert people.targets is not None
        targets = people.targets[where]

        def count(weights: Weights) -> tuple[int, int]:
            return right_within(evaluator.values(weights)[:, 0], targets), len(targets)

        return count

    @classmethod
    def _of_model(cls, model: ModelFile) -> Self:
        if not model.experiment.loss.regression:
            raise BadInputError("this model predicts labels; load it with SecVMClassifier")
        return cls()


def _numbers(y: Any) -> NDArray[np.float64]:
    if y is None:
        raise BadInputError("requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    return np.asarray(check_array(y.reshape(-1, 1), dtype=np.float64, input_name="y")).ravel()
