"""OfflineRun: a file of people trained and tested, as ``secvm train`` does it.

``run_of_classes`` makes one of labels to tell apart, ``run_of_numbers`` one of a number to predict. Test people have no
say in anything but the score: not in the bins of an unhashed model, not in the labels, not in the class weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator, Fitted, fit_rounds, held_out_people
from secvm.estimator.privacy import CONTRIBUTION, PrivacyPlan, contributed, planned
from secvm.estimator.question import ask, fixed_targets, target_scale
from secvm.estimator.training import AddNoise, OfflineTraining, Population
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import DescentRule
from secvm.learning.aggregate.scoring import Score, Share, score_cells
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import VocabularyBinning
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm.people.person import People
from secvm.privacy.target import PrivacyTarget

#: LABEL → weight, from the labels that train and how many people have each.
ClassWeights = Callable[[Sequence[str], NDArray[np.int64]], tuple[Fraction, ...]]


def train_bins_only(folk: People, in_train: NDArray[np.bool_]) -> People:
    """The same people without the words that no training person has; for a vocabulary found while reading."""
    rows, binning = folk.rows, folk.binning
    if not isinstance(binning, VocabularyBinning) or in_train.all():
        return folk
    entries = np.repeat(in_train, np.diff(rows.indptr))
    used = np.zeros(rows.n_bins, dtype=np.bool_)
    used[rows.bins[entries]] = True
    if used.all() or not used.any():
        return folk
    kept = used[rows.bins]
    place = (np.cumsum(used) - 1).astype(np.int32)
    smaller = BinnedRows(
        indptr=np.concatenate([[0], np.cumsum(kept)])[rows.indptr].astype(np.int64),
        bins=place[rows.bins[kept]],
        values=rows.values[kept],
        n_bins=int(used.sum()),
    )
    words = VocabularyBinning(tuple(word for word, there in zip(binning.words, used, strict=True) if there))
    return replace(folk, rows=smaller, binning=words, n_features=words.n_bins)


@dataclass(frozen=True)
class PrivateRun:
    """A run under an (ε, δ)."""

    target: PrivacyTarget
    n_hashes: int
    #: Of people's dice.
    seed: bytes
    #: At most so many of a person's features take part.
    features: int = CONTRIBUTION
    #: Where they do not follow from public numbers.
    rounds: int | None = None
    rho: float | None = None
    #: Whole rows without cover: for a server that is trusted with them, and adds noise of its own.
    trusted: bool = False


@dataclass(eq=False, repr=False)
class OfflineRun:
    """One training job: who trains, who tests, the rounds, and the curve of the tests."""

    experiment: Experiment
    #: Those who train.
    people: Population
    test_rows: BinnedRows
    #: What the curve shows, by its name in the report.
    measure: str
    #: What the tests say of evaluation weights.
    tested: Callable[[Evaluator, Weights], dict[str, Any]]
    #: What they said last.
    report: dict[str, Any]
    #: What an (ε, δ) came to, where one was asked for.
    privacy_plan: PrivacyPlan | None = None
    #: What a trusted server adds to each tally.
    noise: AddNoise | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)

    def run(
        self,
        seed: bytes,
        *,
        rounds: int,
        threads: int,
        held_out: NDArray[np.bool_] | None = None,
        on_round: Callable[[int], None] | None = None,
    ) -> Fitted:
        """All rounds. People marked in ``held_out`` do not train; they decide when a plateau is reached."""
        training = OfflineTraining(self.experiment, seed=seed, threads=threads, noise=self.noise)
        test = Evaluator(self.experiment, self.test_rows, threads=threads) if len(self.test_rows) else None
        people, count = self.people, None
        if held_out is not None:
            people = replace(people, train=~held_out)
            count = held_out_people(self.experiment, people, np.flatnonzero(held_out), threads=threads)

        def after(number: int, weights: Weights) -> None:
            if test is not None:
                self.report = self.tested(test, weights)
                self.curve.append((number, self.report[self.measure]))
            if on_round is not None:
                on_round(number)

        plateau = None if held_out is None else Plateau()
        fitted = fit_rounds(training, people, rounds=rounds, held_out=count, plateau=plateau, on_round=after)
        if test is not None:
            self.report = self.tested(test, fitted.weights)  # those that are kept, not those of the last round
        return fitted


def _split(
    folk: People, in_train: NDArray[np.bool_], testers: People | None, private: PrivateRun | None = None
) -> tuple[BinnedRows, BinnedRows]:
    """The rows of those who train, and of those who test."""
    if not in_train.any():
        raise BadInputError("there is nobody to train on")
    tested = testers.rows if testers is not None else folk.rows.take(np.flatnonzero(~in_train))
    rows = folk.rows if in_train.all() else folk.rows.take(np.flatnonzero(in_train))
    if private is not None:
        # Who is only predicted sends nothing: all of a person's bins, one unit each.
        return contributed(rows, private.features * private.n_hashes, private.seed), tested.present()
    return rows, tested


def run_of_classes(
    folk: People,
    in_train: NDArray[np.bool_],
    testers: People | None,
    *,
    rule: DescentRule,
    loss: Loss,
    thinning: Thinning,
    multiclass: str,
    class_weights: ClassWeights,
    private: PrivateRun | None = None,
) -> OfflineRun:
    """Labels to tell apart."""
    rows, test_rows = _split(folk, in_train, testers, private)
    codes = folk.label_codes[in_train]
    used = np.unique(codes)
    labels = tuple(folk.label_names[c] for c in used)
    if len(labels) < 2:
        raise BadInputError("training needs people of at least two labels, and there is only one")
    if not all(label.isprintable() for label in labels):  # predictions are written one a line
        raise BadInputError("a label has a character that cannot be printed, such as a line break")
    trained = np.searchsorted(used, codes).astype(np.int64)
    weights = class_weights(labels, np.bincount(trained, minlength=len(labels)))
    plan, more = None, dict[str, Any]()
    if private is not None:
        plan = planned(
            private.target,
            people=len(rows),
            bins=rows.n_bins,
            labels=len(labels),
            features=private.features,
            n_hashes=private.n_hashes,
            multiclass=multiclass,
            rounds=private.rounds,
            rho=private.rho,
        )
        rule = plan.settings.rule
        thinning = Thinning() if private.trusted else plan.settings.thinning
        more = {"features_per_person": private.features, "cover": None if private.trusted else plan.cover}
    experiment = ask(
        rows,
        labels=labels,
        rule=rule,
        loss=loss,
        thinning=thinning,
        class_weights=weights,
        multiclass=multiclass,
        **more,
    )
    whose = testers or folk
    tested = testers.label_codes if testers is not None else folk.label_codes[~in_train]
    place = {label: i for i, label in enumerate(labels)}
    texts = [whose.label_names[c] for c in tested]
    if not set(texts) <= set(place):
        raise BadInputError("a test person has a label that no training person has")
    truth = np.array([place[t] for t in texts], dtype=np.int64)
    return OfflineRun(
        experiment,
        Population(rows=rows, labels=trained),
        test_rows,
        measure="accuracy",
        tested=lambda evaluator, kept: classification_report(score_cells(evaluator.cells(kept, truth)), labels),
        report={"accuracy": None, "recall": None, "precision": None},
        privacy_plan=plan,
    )


def run_of_numbers(
    folk: People,
    in_train: NDArray[np.bool_],
    testers: People | None,
    *,
    rule: DescentRule,
    loss: Loss,
    thinning: Thinning,
    relative_epsilon: bool,
) -> OfflineRun:
    """A number to predict; with ``relative_epsilon`` nobody gave the loss a parameter: ε follows from the labels."""
    rows, test_rows = _split(folk, in_train, testers)
    every = folk.numeric_labels()
    inside = every[in_train]
    centre, spread = target_scale(inside, np.ones(len(inside)))
    experiment = ask(
        rows,
        labels=("number",),
        rule=rule,
        loss=loss.scaled_to(spread) if relative_epsilon else loss,
        thinning=thinning,
        target_centre=centre,
        target_spread=spread,
    )
    truth = testers.numeric_labels() if testers is not None else every[~in_train]
    return OfflineRun(
        experiment,
        Population(rows=rows, labels=np.zeros(len(rows), dtype=np.int64), targets=fixed_targets(inside, experiment)),
        test_rows,
        measure="mae",
        tested=lambda evaluator, kept: regression_report(evaluator.numbers(kept), truth),
        report={"mae": None, "r2": None},
    )


def classification_report(result: Score, labels: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy, recall, precision and baseline with their intervals; None where nobody was."""

    def each(shares: tuple[Share, ...]) -> dict[str, float | None]:
        return {label: _number(share.value) for label, share in zip(labels, shares, strict=True)}

    def intervals(shares: tuple[Share, ...]) -> dict[str, list[float]]:
        return {label: list(share.interval) for label, share in zip(labels, shares, strict=True)}

    return {
        "accuracy": _number(result.accuracy.value),
        "accuracy_interval": list(result.accuracy.interval),
        "recall": each(result.recall),
        "recall_interval": intervals(result.recall),
        "precision": each(result.precision),
        "precision_interval": intervals(result.precision),
        "baseline": each(result.baseline),
    }


def regression_report(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, Any]:
    """Mean absolute error and the coefficient of determination (None where all labels are equal)."""
    residual = truth - predicted
    total = float(((truth - truth.mean()) ** 2).sum())
    r2 = 1 - float((residual**2).sum()) / total if total else None
    return {"mae": float(np.abs(residual).mean()), "r2": r2}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
