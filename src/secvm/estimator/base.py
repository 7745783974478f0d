"""What classifier and regressor share: parameters, the experiment they describe, rounds, saving and loading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_consistent_length, check_is_fitted

from secvm.errors import BadInputError
from secvm.estimator.binner import BINNING_CONSTRAINTS, FeatureBinner, salt_of
from secvm.estimator.fitting import Evaluator, fit_rounds, held_out_people, training_for
from secvm.estimator.model import ModelFile
from secvm.estimator.privacy import CONTRIBUTION, PrivacyPlan, planned
from secvm.estimator.question import ask, has_negative_values, is_uneven
from secvm.estimator.settings import NamesOf, interval, rule_settings
from secvm.estimator.training import Attendance, OfflineTraining, Population
from secvm.files import write_atomically
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import OFFLINE, RULES, DescentRule, State, owners
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning, parse_thinning
from secvm.learning.weights import Weights
from secvm.privacy.target import PrivacyTarget

#: Sample weights that are not integers count in steps of the largest weight over this.
_WEIGHT_STEPS = 2**20
PARAMETERS_DOC = """
    n_bins : int or None
        Number of hash bins; None leaves features unhashed.
    n_hashes, salt, values, features_per_person, edges
        As in ``FeatureBinner``. Prediction looks at all features of a person: it sends nothing.
    descent : str or DescentRule
        A rule by name, with the constants below, or with constants of its own as an object
        (docs/reference/experiment.md has them all).
    thinning : "auto", None, float or "q=Q"
        How much of an update a device would send. A number is ρ (rules that normalise rows); "q=Q" a constant share
        (others). "auto" is as the rule has it, and none for weighted people or updates, which cannot be thinned.
    lambda_, averaging, step_cap, decay : float or None
        Constants of the rule, where it has them. None, and "auto" for ``step_cap``: as the rule has them for this kind
        of label.
    rounds : int or None
        Rounds to train for; None: as many as the rule usually takes.
    stop : {"none", "plateau"}
        Whether to stop early on held-out people, and keep the best round.
    validation_fraction : float
        Share of people held out for ``stop="plateau"`` (unless ``fit`` is given cohorts).
    budget : int or None
        Packages per participant and round, as in a deployment.
    privacy : PrivacyTarget or None
        An (ε, δ) to train under, by the cover of two relays one of which is honest. The rule is swift then, values are
        one per bin, and ``privacy_`` tells what it came to. ``rounds`` and ``thinning`` follow from public numbers
        where they are left as they are; ``features_per_person`` is 300 where it is None. None: no formal guarantee.
    dice_seed : bytes or None
        Seed of the people's dice; None draws one from ``random_state``.
    random_state : int, RandomState or None
    n_jobs : int or None
        Threads. The result does not depend on it.
"""


@dataclass(eq=False, repr=False)
class SecVMBase(BaseEstimator):
    """Fit, partial_fit, save and load for both estimators. Fields are scikit-learn's parameters."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BINNING_CONSTRAINTS,
        "loss_parameter": [Interval(Real, 0, None, closed="left"), None],
        "descent": [NamesOf(lambda: RULES), DescentRule],
        "thinning": [Interval(Real, 0, None, closed="neither"), str, None],
        "rounds": [interval(OFFLINE.rounds()), None],
        **{name: [interval(setting), None] for name, setting in rule_settings().items()},
        "step_cap": [interval(rule_settings()["step_cap"]), StrOptions({"auto"}), None],
        "stop": [StrOptions({"none", "plateau"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "budget": [Interval(Integral, 2, None, closed="left"), None],
        "privacy": [PrivacyTarget, None],
        "dice_seed": [bytes, None],
        "random_state": ["random_state"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
    }

    n_bins: int | None = None
    _: KW_ONLY
    n_hashes: int = 1
    salt: str | bytes | None = None
    values: str = "counts"
    features_per_person: int | None = None
    edges: dict[Any, Any] | None = None
    loss: str
    loss_parameter: float | None = None
    descent: str | DescentRule = OFFLINE.name
    thinning: str | float | None = "auto"
    lambda_: float | None = None
    rounds: int | None = None
    averaging: int | None = None
    step_cap: float | str | None = "auto"
    decay: float | None = None
    stop: str = "none"
    validation_fraction: float = 0.1
    budget: int | None = None
    privacy: PrivacyTarget | None = None
    dice_seed: bytes | None = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, cohorts: Any = None, attendance: Any = None) -> Self:
        """Train for ``rounds`` rounds.

        Parameters
        ----------
        X : lists of words, dicts of counts, array, data frame or sparse matrix
        y : labels
        sample_weight : how much each person counts
        cohorts : "train" or "test" for each person; test people are only used to stop
        attendance : rounds x people booleans, who takes part in which round
        """
        self._validate_params()
        self._check_privacy(sample_weight, attendance)
        y = self._checked_labels(y)
        train = self._learn_bins(X, sample_weight, cohorts=cohorts)
        rows, weight = self._counted_rows(X, y, sample_weight)
        experiment, people = self._asked(rows, y, weight, train)
        self._run(experiment, people, attendance=attendance)
        return self

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        """Labels as scikit-learn wants them checked."""
        raise NotImplementedError

    def _asked(
        self, rows: BinnedRows, y: NDArray[Any], weight: NDArray[np.int64] | None, train: NDArray[np.bool_] | None
    ) -> tuple[Experiment, Population]:
        """The experiment that people with these rows and labels are asked by, and the people."""
        raise NotImplementedError

    # -- what the parameters mean --------------------------------------------------------------------------------

    @property
    def _rule_kind(self) -> type[DescentRule]:
        return RULES.find(self.descent) if isinstance(self.descent, str) else type(self.descent)

    def _rule(self) -> DescentRule:
        if not isinstance(self.descent, str):
            return self.descent
        constants = {setting.name: getattr(self, name) for name, setting in rule_settings().items()}
        if "step_cap" not in self._rule_kind.setting_names() and constants["step_cap"] not in (None, "auto"):
            raise BadInputError(f"step_cap belongs to {owners('step_cap')}")
        given = {
            name: value
            for name, value in constants.items()
            if name in self._rule_kind.setting_names() and value != "auto" and (value is not None or name == "step_cap")
        }
        return self._rule_kind.read(given, numbers=self._loss().regression)

    def _thinning(self, rows: BinnedRows, loss: Loss, class_weights: Sequence[Fraction], *, weighted: bool) -> Thinning:
        """As asked for; "auto" leaves it away where it cannot be, because people or their updates are weighted."""
        impossible = weighted or (has_negative_values(rows) and is_uneven(loss, class_weights))
        if self.thinning == "auto" and impossible:
            return Thinning()
        return parse_thinning(self.thinning, self._rule_kind.usual_thinning)

    def _loss(self) -> Loss:
        parameter = None if self.loss_parameter is None else exact(float(self.loss_parameter))
        return Loss(self.loss, parameter)

    def _experiment(
        self,
        labels: tuple[str, ...],
        rows: BinnedRows,
        *,
        loss: Loss | None = None,
        weighted: bool = False,
        **more: Any,
    ) -> Experiment:
        # Only people who count have a say: ``rows`` are theirs.
        if self.privacy is not None:
            return self._private_experiment(self.privacy, labels, rows, loss=loss or self._loss(), **more)
        return ask(
            rows,
            labels=labels,
            rule=self._rule(),
            loss=loss or self._loss(),
            thinning=self._thinning(rows, loss or self._loss(), more.get("class_weights", ()), weighted=weighted),
            features_per_person=None if self.features_per_person is None else int(self.features_per_person),
            budget=None if self.budget is None else int(self.budget),
            **more,
        )

    def _private_experiment(
        self, target: PrivacyTarget, labels: tuple[str, ...], rows: BinnedRows, *, loss: Loss, **more: Any
    ) -> Experiment:
        """The experiment that a plan from public numbers asks for: the people's number, and nothing of their data."""
        #: What ``privacy`` came to: plan, budget, relays' packages, achieved ε. Only there where it was asked for.
        self.privacy_: PrivacyPlan = planned(
            target,
            people=len(rows),
            bins=rows.n_bins,
            labels=len(labels),
            features=self._contribution,
            n_hashes=self.n_hashes,
            multiclass=more.get("multiclass", "ovr"),
            rounds=None if self.rounds is None else int(self.rounds),
            rho=None if self.thinning == "auto" else float(parse_thinning(self.thinning, Thinning()).rho or 0),
        )
        settings = self.privacy_.settings
        return ask(
            rows,
            labels=labels,
            rule=settings.rule,
            loss=loss,
            thinning=settings.thinning,
            features_per_person=self._contribution,
            cover=self.privacy_.cover,
            **more,
        )

    def _check_privacy(self, sample_weight: Any, attendance: Any) -> None:
        """Refuse what ``privacy`` decides by itself, and what would look at people outside its promise."""
        if self.privacy is None:
            return
        defaults = _defaults(type(self))
        for name in ("values", "descent", "budget", "step_cap", "decay"):
            if getattr(self, name) != defaults[name]:
                raise BadInputError(f"{name} is decided by privacy; leave it as it is")
        if self.thinning is None:
            raise BadInputError("with privacy updates are thinned: leave thinning as it is, or give ρ as a number")
        if self.stop != "none" or getattr(self, "class_weight", None) == "balanced":
            raise BadInputError("a plateau and balanced class weights look at people outside the promise of privacy")
        if sample_weight is not None or attendance is not None:
            raise BadInputError("privacy is planned for everybody, once: it goes with neither weights nor attendance")

    @property
    def _contribution(self) -> int:
        """F with ``privacy``."""
        return CONTRIBUTION if self.features_per_person is None else int(self.features_per_person)

    @property
    def _rounds(self) -> int:
        if self.privacy is not None:
            return self.privacy_.settings.rounds
        return self._rule_kind.usual_rounds(numbers=self._loss().regression) if self.rounds is None else self.rounds

    def _seed(self) -> bytes:
        if self.dice_seed is not None:
            return self.dice_seed
        return bytes(check_random_state(self.random_state).bytes(16))

    def _learn_bins(self, X: Any, sample_weight: Any, *, cohorts: Any = None) -> NDArray[np.bool_] | None:
        """Vocabulary and levels, from people of the train cohort with a weight above zero; returns who is in it."""
        self._resumable = True
        #: Seed of the people's dice, as given or drawn.
        self.seed_: bytes = self._seed()
        train = self._train_mask(X, cohorts)
        if train is not None:
            stand_in = np.empty((len(train), 1))
            sample_weight = _check_sample_weight(sample_weight, stand_in, ensure_non_negative=True) * train
            if not sample_weight.any():
                raise BadInputError("there is nobody to train on")
        self.binner_ = FeatureBinner(
            n_bins=self.n_bins,
            n_hashes=self.n_hashes,
            salt=salt_of(self.seed_) if self.salt is None else self.salt,
            values=self.values if self.privacy is None else "one-per-bin",
            features_per_person=self.features_per_person if self.privacy is None else self._contribution,
            edges=self.edges,
            dice_seed=self.seed_,
        ).fit(X, sample_weight=sample_weight)
        if self.privacy is not None and self.n_bins is None and self.binner_.text_:
            raise BadInputError("a vocabulary found among people is not public; with privacy give n_bins")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.binner_, name):
                setattr(self, name, getattr(self.binner_, name))
            elif hasattr(self, name):
                delattr(self, name)
        return train

    def _counted_rows(self, X: Any, y: NDArray[Any], sample_weight: Any) -> tuple[BinnedRows, NDArray[np.int64] | None]:
        """Everybody's bins, and how often each person counts; None: all once."""
        rows = self.binner_.rows(X)
        check_consistent_length(y, range(len(rows)))
        return rows, multiplicities(sample_weight, X, len(rows))

    # -- rounds --------------------------------------------------------------------------------------------------

    def _run(self, experiment: Experiment, people: Population, *, attendance: Any) -> None:
        """All rounds of ``fit``; people of the test cohort are held out."""
        train = people.train
        table = attendance_table(attendance, len(people))
        training = training_for(
            experiment, people, rounds=self._rounds, attendance=table, seed=self.seed_, threads=self.n_jobs or 1
        )
        held_out = None
        if train is not None and not train.all():
            counted = True if people.multiplicity is None else people.multiplicity > 0
            where = np.flatnonzero(~train & counted)
            held_out = held_out_people(experiment, people, where, threads=self.n_jobs or 1)
        fitted = fit_rounds(
            training,
            people,
            rounds=self._rounds,
            attendance=table,
            held_out=held_out,
            plateau=Plateau() if self.stop == "plateau" else None,
        )
        self._take(experiment, fitted.state)
        self.n_iter_ = training.round_number
        #: The round whose model was kept: the last one, or the best before a plateau.
        self.kept_round_ = fitted.kept_round
        self.stopped_because_ = fitted.stopped_because
        self.two_cycle_ = training.two_cycle.caught
        self.packages_per_person_ = training.packages_sent / max(1, len(people) if train is None else int(train.sum()))

    def _train_mask(self, X: Any, cohorts: Any) -> NDArray[np.bool_] | None:
        """True for the train cohort: as given, or drawn when a plateau needs people held out."""
        if cohorts is None and self.stop != "plateau":
            return None
        n = _num_samples(X)
        if cohorts is not None:
            return cohort_mask(cohorts, n)
        share = 1 - exact(float(self.validation_fraction))
        drawn = [draw_cohort(share, UnsafeSeededDice(self.seed_, i)) for i in range(n)]
        return np.array([cohort is Cohort.TRAIN for cohort in drawn], dtype=np.bool_)

    def _begin(self, experiment: Experiment) -> None:
        """Before the first round of ``partial_fit``."""
        self.experiment_, self.state_, self.n_iter_ = experiment, aggregate.start(experiment), 0

    def _check_rounds_open(self) -> None:
        """``partial_fit`` adds rounds, and a promise is made for all of them at once."""
        if hasattr(self, "experiment_") and self.experiment_.cover is not None:
            raise BadInputError("rounds beyond the plan would not be private: this model cannot go on")
        if self.privacy is not None:
            raise BadInputError("privacy is planned for all rounds at once; use fit")

    def _check_resumable(self) -> None:
        if not getattr(self, "_resumable", True):
            raise BadInputError("this model was saved without its state and cannot be trained on")

    def _one_more_round(self, people: Population) -> Self:
        """The round of ``partial_fit``."""
        check_signs(self.experiment_, people.rows)
        training = OfflineTraining(self.experiment_, seed=self.seed_, threads=self.n_jobs or 1)
        training.state, training.round_number = self.state_, self.n_iter_
        training.advance(people)
        self._take(self.experiment_, training.state)
        self.n_iter_ = training.round_number
        return self

    def _take(self, experiment: Experiment, state: State) -> None:
        self.experiment_ = experiment
        self.state_ = state
        self.weights_: Weights = aggregate.evaluation_weights(experiment, state)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the bins, models x bins (as levels and counts see them, not columns)."""
        check_is_fitted(self)
        return self.weights_.values()[:, :-1]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Weights of the bias bin, one per model."""
        check_is_fitted(self)
        return self.weights_.values()[:, -1]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the bins behind ``coef_``."""
        check_is_fitted(self)
        return self.binner_.get_feature_names_out(input_features)

    def _evaluator(self, X: Any) -> tuple[Evaluator, BinnedRows]:
        check_is_fitted(self)
        rows = self.binner_.rows(X, whole=True)
        return Evaluator(self.experiment_, rows, threads=self.n_jobs or 1), rows

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, with_state: bool = False) -> None:
        """Write the model as a file that ``load`` and ``secvm predict`` read; no pickle.

        ``with_state`` also keeps what ``partial_fit`` needs to go on: the descent's state and the seed of the dice. The
        file appears whole or not at all.
        """
        check_is_fitted(self)
        if with_state and self.experiment_.cover is not None:
            raise BadInputError("rounds beyond the plan would not be private: this model cannot go on")
        if with_state and not getattr(self, "_resumable", True):
            raise BadInputError("this model was saved without its state, and has none to save")
        columns = None if self.binner_.text_ else tuple(getattr(self, "feature_names_in_", ()))
        model = ModelFile(
            experiment=self.experiment_,
            binning=self.binner_.binning_,
            weights=self.weights_,
            presence=self.binner_.values != "counts",
            one_per_bin=self.binner_.values == "one-per-bin",
            rounds=self.n_iter_,
            quantiser=self.binner_.quantiser_,
            frame=self.binner_.frame_,
            columns=columns,
            state=self.state_.to_bytes() if with_state else b"",
            seed=self.seed_ if with_state else b"",
            label_kind=self._label_kind(),
        )
        write_atomically(Path(path), model.to_bytes())

    def _label_kind(self) -> str:
        return "text"

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """An estimator from a file of ``save`` or ``secvm train --out``, ready to predict."""
        return cls.of_model(ModelFile.read(Path(path)))

    @classmethod
    def of_model(cls, model: ModelFile) -> Self:
        """An estimator of a trained model, ready to predict."""
        estimator = cls._of_model(model)
        estimator._load(model)
        return estimator

    @classmethod
    def _of_model(cls, model: ModelFile) -> Self:
        raise NotImplementedError

    def _load(self, model: ModelFile) -> None:
        self.set_params(**_parameters_of(model.experiment))
        self.binner_ = FeatureBinner.of_model(model)
        self.n_bins, self.n_hashes, self.salt = self.binner_.n_bins, self.binner_.n_hashes, self.binner_.salt
        self.values = self.binner_.values
        self.seed_ = self.binner_.dice_seed = model.seed
        self.experiment_, self.weights_ = model.experiment, model.weights
        self.n_iter_ = model.rounds
        self.state_ = State.from_bytes(model.state) if model.state else aggregate.start(model.experiment)
        self._resumable = bool(model.state)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.binner_, name):
                setattr(self, name, getattr(self.binner_, name))

    def __sklearn_is_fitted__(self) -> bool:
        # Without this, scikit-learn would take the parameter ``lambda_`` for something learned.
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.values != "counts" or self.privacy is not None
        return tags


def _defaults(kind: type) -> dict[str, Any]:
    """Parameters of an estimator as they are where nobody says anything."""
    return {name: parameter.default for name, parameter in signature(kind.__init__).parameters.items()}  # type: ignore[misc]


def _parameters_of(experiment: Experiment) -> dict[str, Any]:
    """The estimator's parameters that an experiment tells, so that a clone of a loaded model asks the same question."""
    thinning: Any = str(experiment.thinning) if experiment.thinning.q is not None else None
    if experiment.thinning.rho is not None:
        thinning = float(experiment.thinning.rho)
    parameter = experiment.loss.parameter
    parameters = {
        "loss": experiment.loss.name,
        "loss_parameter": None if parameter is None else float(parameter),
        "descent": experiment.rule.name if experiment.rule.name in RULES.built_in else experiment.rule,
        "thinning": thinning,
        "features_per_person": experiment.features_per_person,
        "budget": experiment.budget,
    }
    for name, setting in rule_settings().items():
        if setting.name in experiment.rule.setting_names():
            value = getattr(experiment.rule, name)
            parameters[name] = float(value) if isinstance(value, Fraction) else value
    return parameters


def counted_people(weight: NDArray[np.int64] | None, train: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
    """How often each person counts in training: its weight, and not at all in the test cohort; None: all once."""
    if train is None:
        return weight
    once = np.ones(len(train), dtype=np.int64) if weight is None else weight
    return np.asarray(np.where(train, once, 0), dtype=np.int64)


def check_signs(experiment: Experiment, rows: BinnedRows) -> None:
    """Refuse negative values in a later ``partial_fit`` where the first call decided that there are none."""
    uneven = is_uneven(experiment.loss, experiment.class_weights)
    if uneven and not experiment.weighted_updates and has_negative_values(rows):
        raise BadInputError("with class weights or pinball, negative values must be there on the first call already")


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
