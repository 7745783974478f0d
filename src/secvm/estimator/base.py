"""What classifier and regressor share: parameters, the experiment they describe, rounds, saving and loading."""

from __future__ import annotations

import math
import sys
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_consistent_length, check_is_fitted

from secvm.errors import BadInputError
from secvm.estimator.binner import BINNING_CONSTRAINTS, FeatureBinner, salt_of
from secvm.estimator.fitting import Evaluator, fit_rounds, held_out_people, training_for, warn_of_convergence
from secvm.estimator.frames.plan import public_bins
from secvm.estimator.model import ModelFile
from secvm.estimator.privacy import CONTRIBUTION, PrivacyPlan, PrivacyWarning, doubts, planned, warn_of
from secvm.estimator.question import SWIFT_ROUNDS, ask, check_signs
from secvm.estimator.settings import NamesOf, interval, rule_settings, threads
from secvm.estimator.training import Population, TrainingRound
from secvm.estimator.who_counts import attendance_table, cohort_mask, multiplicities
from secvm.files import write_atomically
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import OFFLINE, RULES, DescentRule, State, Swift, foreign
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning, parse_thinning
from secvm.learning.weights import Weights
from secvm.privacy.target import USUAL, PrivacyTarget


@dataclass(eq=False, repr=False)
class SecVMBase(BaseEstimator):
    """Fit, partial_fit, save and load for both estimators. Fields are scikit-learn's parameters."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BINNING_CONSTRAINTS,
        "n_bins": [*BINNING_CONSTRAINTS["n_bins"], StrOptions({"auto"})],
        "loss_parameter": [Interval(Real, 0, None, closed="left"), None],
        "descent": [NamesOf(lambda: RULES), DescentRule],
        "thinning": [Interval(Real, 0, None, closed="neither"), str, None],
        "rounds": [interval(OFFLINE.rounds()), StrOptions({"auto"})],
        **{name: [interval(setting), None] for name, setting in rule_settings().items()},
        "step_cap": [interval(rule_settings()["step_cap"]), StrOptions({"auto"}), None],
        "stop": [StrOptions({"none", "plateau"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "budget": [Interval(Integral, 2, None, closed="left"), None],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "dice_seed": [bytes, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "device": [StrOptions({"cpu", "cuda"})],
        "verbose": ["verbose"],
    }

    n_bins: int | Literal["auto"] | None = "auto"
    _: KW_ONLY
    n_hashes: int = 1
    salt: str | bytes | None = None
    values: Literal["auto", "counts", "presence", "one-per-bin"] = "auto"
    features_per_person: int | None = None
    edges: dict[Any, Any] | None = None
    loss: str
    loss_parameter: float | None = None
    descent: Literal["swift", "pegasos"] | DescentRule = "swift"
    thinning: str | float | None = "auto"
    lambda_: float | None = None
    rounds: int | Literal["auto"] = "auto"
    averaging: int | None = None
    step_cap: float | Literal["auto"] | None = "auto"
    decay: float | None = None
    stop: Literal["none", "plateau"] = "none"
    validation_fraction: float = 0.1
    budget: int | None = None
    epsilon: float | None = None
    delta: float = float(USUAL.delta)
    dice_seed: bytes | None = None
    random_state: Any = None
    n_jobs: int | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    verbose: int = 0

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
        self._check_epsilon(sample_weight, attendance)
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
        kind, given = self._rule_kind, dict[str, object]()
        for name, setting in rule_settings().items():
            value = getattr(self, name)
            if value == "auto" or (value is None and name != "step_cap"):
                continue
            if setting.name in kind.setting_names():
                given[setting.name] = value
            elif value is not None:
                raise BadInputError(foreign(setting.name, kind, called=name))
            if value is not None and not isinstance(self.descent, str):
                has = getattr(self.descent, name, None)
                if has is None or float(has) != float(value):
                    raise BadInputError(f"{name} comes with the rule that descent is: give it there")
        return kind.read(given, numbers=self._loss().regression) if isinstance(self.descent, str) else self.descent

    @property
    def _whole_or_thinned(self) -> Thinning:
        return Thinning() if self.thinning == "auto" else parse_thinning(self.thinning, Thinning())

    def _loss(self) -> Loss:
        parameter = None if self.loss_parameter is None else exact(float(self.loss_parameter))
        return Loss(self.loss, parameter)

    def _experiment(
        self,
        labels: tuple[str, ...],
        rows: BinnedRows,
        *,
        loss: Loss | None = None,
        **more: Any,
    ) -> Experiment:
        # Only people who count have a say: ``rows`` are theirs.
        if self._target is not None:
            return self._private_experiment(self._target, labels, rows, loss=loss or self._loss(), **more)
        return ask(
            rows,
            labels=labels,
            rule=self._rule(),
            loss=loss or self._loss(),
            thinning=self._whole_or_thinned,
            features_per_person=None if self.features_per_person is None else int(self.features_per_person),
            budget=None if self.budget is None else int(self.budget),
            **more,
        )

    def _private_experiment(
        self, target: PrivacyTarget, labels: tuple[str, ...], rows: BinnedRows, *, loss: Loss, **more: Any
    ) -> Experiment:
        """The experiment that a plan from public numbers asks for: the people's number, and nothing of their data."""
        warn_of(doubts(target, len(rows)))
        plan = planned(
            target,
            people=len(rows),
            bins=rows.n_bins,
            labels=len(labels),
            features=self._contribution,
            n_hashes=self.n_hashes,
            multiclass=more.get("multiclass", "ovr"),
            rounds=None if self.rounds == "auto" else int(self.rounds),
            rho=None if self.thinning == "auto" else float(parse_thinning(self.thinning, Thinning()).rho or 0),
        )
        self._plan: PrivacyPlan | None = plan
        settings = plan.settings
        return ask(
            rows,
            labels=labels,
            rule=settings.rule,
            loss=loss,
            thinning=settings.thinning,
            features_per_person=self._contribution,
            cover=plan.cover,
            **more,
        )

    @property
    def _target(self) -> PrivacyTarget | None:
        """The (ε, δ) that is asked for."""
        if self.epsilon is None:
            return None
        return PrivacyTarget(exact(float(self.epsilon)), exact(float(self.delta)))

    def _check_epsilon(self, sample_weight: Any, attendance: Any) -> None:
        """Refuse what ``epsilon`` decides by itself, and what would look at people outside its promise."""
        if self.epsilon is None:
            return
        defaults = _defaults(type(self))
        for name in ("values", "descent", "budget", *rule_settings()):
            if getattr(self, name) != defaults[name]:
                raise BadInputError(f"{name} is decided by epsilon; leave it as it is")
        if self.thinning is None:
            raise BadInputError("with epsilon updates are thinned: leave thinning as it is, or give ρ as a number")
        if self.stop != "none" or getattr(self, "class_weight", None) == "balanced":
            raise BadInputError("a plateau and balanced class weights look at people outside the promise of epsilon")
        if sample_weight is not None or attendance is not None:
            raise BadInputError("epsilon is planned for everybody, once: it goes with neither weights nor attendance")

    @property
    def _contribution(self) -> int:
        """F with ``epsilon``."""
        if self.features_per_person is not None:
            return int(self.features_per_person)
        most = self.binner_.frame_.most_words if self.binner_.frame_ is not None else None
        return min(most or CONTRIBUTION, CONTRIBUTION)

    @property
    def privacy_(self) -> PrivacyPlan:
        """What ``epsilon`` costs."""
        plan: PrivacyPlan | None = getattr(self, "_plan", None)
        if plan is None:
            raise AttributeError("privacy_ is there after a fit with epsilon; without it there is no formal guarantee")
        return plan

    @property
    def _rounds(self) -> int:
        if self.epsilon is not None:
            return self.privacy_.settings.rounds
        if self.rounds != "auto":
            return self.rounds
        swift = issubclass(self._rule_kind, Swift)
        return SWIFT_ROUNDS if swift else self._rule_kind.usual_rounds(numbers=self._loss().regression)

    @property
    def _values(self) -> str:
        """How features count."""
        return self.values if self.epsilon is None else "one-per-bin"

    def _bins(self, X: Any) -> int | None:
        if self.n_bins != "auto":
            return self.n_bins
        return None if self.epsilon is None else public_bins(X)

    def _seed(self) -> bytes:
        if self.dice_seed is not None:
            return self.dice_seed
        return bytes(check_random_state(self.random_state).bytes(16))

    def _learn_bins(self, X: Any, sample_weight: Any, *, cohorts: Any = None) -> NDArray[np.bool_] | None:
        """Vocabulary and levels, from people of the train cohort with a weight above zero; returns who is in it."""
        self._resumable = True
        self._plan = None
        #: Seed of the people's dice, as given or drawn.
        self.seed_: bytes = self._seed()
        train = self._train_mask(X, cohorts)
        if train is not None:
            stand_in = np.empty((len(train), 1))
            sample_weight = _check_sample_weight(sample_weight, stand_in, ensure_non_negative=True) * train
            if not sample_weight.any():
                raise BadInputError("there is nobody to train on")
        self.binner_ = FeatureBinner(
            n_bins=self._bins(X),
            n_hashes=self.n_hashes,
            salt=salt_of(self.seed_) if self.salt is None else self.salt,
            values=self._values,
            features_per_person=CONTRIBUTION
            if self.epsilon and not self.features_per_person
            else self.features_per_person,
            edges=self.edges,
            dice_seed=self.seed_,
        )
        self.binner_.asked_by = type(self).__name__  # type: ignore[misc]  # of this one
        self.binner_.fit(X, sample_weight=sample_weight)
        if self.binner_.frame_ is not None:
            warn_of(self.binner_.frame_.doubts(), UserWarning if self.epsilon is None else PrivacyWarning)
        if self.epsilon is not None and self.n_bins is None and self.binner_.found_words:
            raise BadInputError("a vocabulary found among people is not public; with epsilon give n_bins")
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
        count = threads(self.n_jobs)
        training = training_for(
            experiment,
            people,
            rounds=self._rounds,
            attendance=table,
            seed=self.seed_,
            threads=count,
            device=self.device,
        )
        held_out = None
        if train is not None and not train.all():
            counted = True if people.multiplicity is None else people.multiplicity > 0
            where = np.flatnonzero(~train & counted)
            held_out = held_out_people(experiment, people, where, threads=count)
        self.history_: list[dict[str, float]] = []
        fitted = fit_rounds(
            training,
            people,
            rounds=self._rounds,
            attendance=table,
            held_out=held_out,
            plateau=Plateau() if self.stop == "plateau" else None,
            on_report=self._remember,
        )
        self._take(experiment, fitted.state)
        self.n_iter_ = training.round_number
        self.kept_round_ = fitted.kept_round
        self.stopped_because_ = fitted.stopped_because
        self.two_cycle_ = training.two_cycle.caught
        sent = training.packages_sent / max(1, len(people) if train is None else int(train.sum()))
        # With an ε what people sent of their own is nobody's business: all send as much.
        self.packages_per_person_ = sent if self._plan is None else float(self._plan.budget * self._rounds)
        self.epsilon_spent_ = math.inf if self._plan is None else self._plan.epsilon
        warn_of_convergence(fitted)

    def _remember(self, report: TrainingRound, held_out: tuple[int, int] | None) -> None:
        """One round for ``history_``, and the line of ``verbose``."""
        here = max(1, report.participants)
        models = max(1, len(report.violators))
        sent = sum(plus + minus for plus, minus in report.violators) / (here * models)
        entry: dict[str, float] = {"round": report.number, "sent": sent, "packages": report.packages / here}
        if self.epsilon is not None:  # what nobody outside may count
            entry = {"round": report.number, "packages": self.privacy_.budget}
        if held_out is not None:
            entry["held_out"] = held_out[0] / max(1, held_out[1])
        self.history_.append(entry)
        if self.verbose:
            right = f", right about {entry['held_out']:.3f} of those held out" if held_out is not None else ""
            people = "" if self.epsilon is not None else f" by {sent:.3f} of the people"
            sent_in_all = f"{entry['packages']:.1f} packages a person{people}"
            sys.stdout.write(f"round {report.number} of {self._rounds}: {sent_in_all}{right}\n")

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
        if self.epsilon is not None:
            raise BadInputError("epsilon is planned for all rounds at once; use fit")

    def _check_resumable(self) -> None:
        if not getattr(self, "_resumable", True):
            raise BadInputError("this model was saved without its state and cannot be trained on")

    def _one_more_round(self, people: Population) -> Self:
        """The round of ``partial_fit``."""
        check_signs(self.experiment_, people.rows)
        count = threads(self.n_jobs)
        training = training_for(self.experiment_, people, rounds=1, seed=self.seed_, threads=count, device=self.device)
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
        return Evaluator(self.experiment_, rows, threads=threads(self.n_jobs)), rows

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
            presence=self.binner_.values in ("presence", "one-per-bin"),
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
        """An estimator from a file of ``save`` or ``secvm train --out``, ready to predict.

        The file holds the model, its features and its rule. It does not hold what trained it: ``history_``, ``epsilon``
        and ``privacy_`` are not there, and whoever fits the estimator anew gives ``epsilon`` anew.
        """
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
        self.values = self.binner_.values  # type: ignore[assignment]  # a string that is one of them
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
        tags.input_tags.positive_only = self.values == "presence"
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
