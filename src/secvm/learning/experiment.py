"""Experiment: the question asked, and everything that decides how it is answered.

One value, public, the same for everyone. All that learns (estimator, simulator, coordinator, device) takes its rule,
loss, thinning and normalisers from here, so that they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import DescentRule, Pegasos, State
from secvm.learning.aggregate.direction import check_participants, direction, side_weights
from secvm.learning.aggregate.robust import Robust
from secvm.learning.aggregate.scoring import Score, score
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import common_integers
from secvm.learning.cover_law import COHORTS, RelayCover, check_relay_budget
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning


@dataclass(frozen=True)
class Experiment:
    """One question put to many devices."""

    #: Bins without the bias.
    n_bins: int
    #: The labels' names in the order of their indices; a single name when the label is a number.
    labels: tuple[str, ...]
    rule: DescentRule = Pegasos()  # noqa: RUF009  (frozen values: sharing them harms nobody)
    loss: Loss = Loss("hinge")  # noqa: RUF009
    thinning: Thinning = Thinning()  # noqa: RUF009
    #: One weight per label; empty: all one.
    class_weights: tuple[Fraction, ...] = ()
    #: "ovr" or "ovo".
    multiclass: str = "ovr"
    #: At most so many of a person's features take part, drawn once; None: all.
    features_per_person: int | None = None
    #: Packages a participant sends in every round; None offline, where nothing is sent.
    budget: int | None = None
    #: A number as the label is centred and scaled before it is compared.
    target_centre: Fraction = Fraction(0)
    target_spread: Fraction = Fraction(1)
    #: Swift without thinning counts x / ‖x‖ as integers in units of 2^-32. Offline only: no package can carry it.
    fixed_point_rows: bool = False
    #: Class weights and the loss's factors multiply people's updates instead of counts. Offline only, for features with
    #: negative values: there a package's sign no longer tells which side it comes from.
    weighted_updates: bool = False
    #: The cover that each of two relays adds, and with it a guarantee; None: plain.
    cover: RelayCover | None = None
    #: What is done against devices that lie; None: every count is taken as it is.
    robust: Robust | None = None

    def __post_init__(self) -> None:
        self._check_question()
        self._check_sending()
        if self.robust is not None and (self.fixed_point_rows or self.weighted_updates):
            raise BadExperimentError("clipping and trimming look at counts of packages: thin swift by rho")
        if self.cover is not None:
            self._check_cover(self.cover)

    def _check_question(self) -> None:
        if self.n_bins < 1:
            raise BadExperimentError("an experiment needs at least one bin")
        if self.loss.regression != (len(self.labels) == 1):
            raise BadExperimentError("a loss for numbers needs exactly one label name, any other at least two")
        if len(set(self.labels)) != len(self.labels):
            raise BadExperimentError("a label has the same name as another")
        LabelModels(n_labels=len(self.labels), multiclass=self.multiclass)  # refuses what cannot be
        if self.class_weights and len(self.class_weights) != len(self.labels):
            raise BadExperimentError("there must be as many class weights as labels")
        if any(w < 0 for w in self.class_weights) or (self.class_weights and not any(self.class_weights)):
            raise BadExperimentError("class weights must not be negative, and not all zero")
        if self.loss.regression and self.class_weights:
            raise BadExperimentError("class weights need classes, not numbers")
        if self.target_spread <= 0:
            raise BadExperimentError("the spread of the target must be above zero")

    def _check_sending(self) -> None:
        if self.thinning.rho is not None and not self.rule.normalised:
            raise BadExperimentError("thinning by rho belongs to normalised rows (swift); this rule takes q=Q or none")
        if self.thinning.q is not None and self.rule.normalised:
            raise BadExperimentError("swift counts x/|x|: it is thinned by rho (or not at all), not by a constant q")
        if self.fixed_point_rows != (self.rule.normalised and not self.thinning.active):
            raise BadExperimentError("rows are in fixed point exactly when normalised rows are not thinned")
        if self.fixed_point_rows and self.budget is not None:
            raise BadExperimentError("a budget counts packages, and rows in fixed point are none")
        if self.weighted_updates and (self.budget is not None or self.thinning.active):
            raise BadExperimentError(
                "with negative values, class weights and pinball go with neither thinning nor a budget"
            )
        if self.features_per_person is not None and self.features_per_person < 1:
            raise BadExperimentError("the number of features per person must be at least 1")
        if self.budget is not None and self.budget < 2:
            raise BadExperimentError("the budget must be at least 2: one participation package and one other")

    def _check_cover(self, cover: RelayCover) -> None:
        labels = len(self.labels)
        fits = (
            cover.train.cells == 2 * self.models.n_models * (self.n_bins + 1)
            and cover.participation.cells == COHORTS * labels
            and (cover.test is None) == self.loss.regression
            and (cover.test is None or cover.test.cells == labels**2)
        )
        if not fits:
            raise BadExperimentError("the cover is made for other bins, models or labels")
        if self.fixed_point_rows or self.weighted_updates:
            raise BadExperimentError("cover needs rows that packages can carry: thin swift by rho, or use pegasos")
        if self.features_per_person is None:
            raise BadExperimentError("cover needs a bound on the features per person")
        if self.budget is not None:
            check_relay_budget(self.budget, violable=self.models.most_per_person, features=self.features_per_person)

    @cached_property
    def models(self) -> LabelModels:
        """The binary models of this experiment."""
        return LabelModels(n_labels=len(self.labels), multiclass=self.multiclass)

    @property
    def train_budget(self) -> int | None:
        """Packages left for an update once participation is told; None: nothing is ever cut.

        With relays' cover the budget holds every unit.
        """
        return None if self.budget is None or self.cover is not None else self.budget - 1

    def start(self) -> State:
        """The state before round 1."""
        first = self.rule.start(self.models.n_models, self.n_bins)
        if self.robust is None:
            return first
        return replace(first, vectors=first.vectors | self.robust.start(self.models.n_models, self.n_bins))

    def empty_tally(self) -> Tally:
        """A tally with nothing counted."""
        return Tally.empty(n_models=self.models.n_models, n_bins=self.n_bins, n_labels=len(self.labels))

    @property
    def known_means(self) -> Tally:
        """The mean of cover in each cell of a tally, in whole numbers; nothing without cover."""
        empty = self.empty_tally()
        return empty if self.cover is None else self.cover.means(empty)

    def uncovered(self, tally: Tally) -> Tally:
        """The counts without the known mean of cover, where there is cover."""
        return tally if self.cover is None else self.cover.uncovered(tally)

    def step(self, state: State, tally: Tally) -> State:
        """State t = rule(state t-1, tally): the one place where a round becomes a model."""
        check_participants(tally)
        variance = Fraction(0)
        if self.cover is not None:
            variance = self.cover.train_variance
            tally = self.uncovered(tally)
            check_participants(tally)
        weights = self.class_weights or (Fraction(1),) * len(self.labels)
        if self.robust is not None:
            sides = side_weights(tally, models=self.models, class_weights=weights, factors=self.loss.factors)
            tally = self.robust.clipped(tally, sides, variance)
        divisor = self.thinning.divisor * (2**32 if self.fixed_point_rows else 1)
        taken = direction(
            tally,
            models=self.models,
            class_weights=weights,
            factors=self.loss.factors,
            divisor=divisor,
            weighted_updates=self.weighted_updates,
        )
        if self.robust is None:
            return self.rule.step(state, taken)
        own = {name: vector for name, vector in state.vectors.items() if name not in self.robust.names}
        taken, remembered = self.robust.trimmed(taken, state.vectors)
        stepped = self.rule.step(replace(state, vectors=own), taken)
        return replace(stepped, vectors=stepped.vectors | remembered)

    def score(self, tally: Tally) -> Score:
        """What a round's test cells say; cover is taken off, and is part of the intervals."""
        if self.cover is None:
            return score(tally.cells)
        return score(self.cover.uncovered(tally).cells, variance=self.cover.test_variance)

    @property
    def update_weights(self) -> tuple[tuple[int, ...], tuple[int, int]]:
        """With ``weighted_updates``: the integers that multiply a person's update, per label and per sign."""
        by_label = common_integers(self.class_weights or (Fraction(1),) * len(self.labels))
        positive, negative = common_integers(self.loss.factors)
        return by_label, (positive, negative)
