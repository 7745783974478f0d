"""Experiment: the question asked, and everything that decides how it is answered.

One value, public, the same for everyone. All that learns (estimator, simulator, coordinator, device) takes its rule,
loss, thinning and normalisers from here, so that they cannot disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import common_integers
from secvm.learning.cover_law import COHORTS, RelayCover, check_relay_budget
from secvm.learning.declared import MAX_BUDGET, Declared, Setting, number, whole
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import Loss
from secvm.learning.package import MAX_ROUNDS
from secvm.learning.thinning import Thinning

#: Standard deviations of the number of units for which a default budget leaves room.
_ROOM = 4
#: A delay of more than four rounds is no learning any more.
MAX_TRIM = 9


class PublishedRule(Declared):
    """The name, constants and habits of a descent rule, as an experiment publishes them.

    How it goes from counts to weights is the other side's (``aggregate.descent.rule.DescentRule``).
    """

    __slots__ = ()

    #: As documents, specifications and the command line say it.
    name: ClassVar[str]
    #: What somebody who chooses among rules should know of it, in a few words.
    about: ClassVar[str] = ""
    #: Whether rows count as x / ‖x‖.
    normalised: ClassVar[bool] = False
    #: Rounds that it usually takes: with classes as the label, and with numbers.
    converges_after: ClassVar[tuple[int, int]] = (200, 400)
    #: Thinning where nobody says which.
    usual_thinning: ClassVar[Thinning] = Thinning()

    @classmethod
    def usual_rounds(cls, *, numbers: bool = False) -> int:
        """Rounds where nobody says how many; ``numbers``: whether the label is a number."""
        return cls.converges_after[numbers]

    @classmethod
    def rounds(cls) -> Setting:
        """The declaration of the number of rounds."""
        classes, numbers = cls.converges_after
        return Setting(
            name="rounds",
            sentence="Rounds of the experiment, abandoned ones included.",
            default=classes,
            for_numbers=None if numbers == classes else numbers,
            is_whole=True,
            at_least=1,
            at_most=MAX_ROUNDS,
        )

    def parameters(self) -> dict[str, str]:
        """The rule's constants as text, as an experiment publishes them."""
        return {name: str(value) for name, value in self.content().items() if value is not None}


@dataclass(frozen=True, slots=True)
class Robust(Declared):
    """What an experiment does against devices that lie (``aggregate.robust`` says how)."""

    clip: Fraction | None = number(
        None, "A bin's net count is cut to so many standard deviations of chance; 5 over the number of rounds is good.",
        at_least="1/1000", at_most=1000,
    )  # fmt: skip
    trim: int = whole(
        1, "The median of so many rounds is taken, an odd number; 1: each by itself.", at_least=1, at_most=MAX_TRIM
    )

    def __post_init__(self) -> None:
        Declared.__post_init__(self)
        if self.trim % 2 == 0:
            raise BadExperimentError(f"rounds are trimmed by an odd number, at most {MAX_TRIM}; 1 takes each by itself")
        if self.clip is None and self.trim == 1:
            raise BadExperimentError("a robust experiment clips bins, or trims rounds, or both")

    @property
    def names(self) -> tuple[str, ...]:
        """The vectors that a state has besides the rule's: directions of the rounds before, the newest first."""
        return tuple(f"recent_{i}" for i in range(1, self.trim))


@dataclass(frozen=True)
class Experiment:
    """One question put to many devices: data alone, and what follows from it.

    >>> from secvm.learning.aggregate.descent import Pegasos
    >>> question = Experiment(n_bins=1000, labels=("tea", "coffee", "water"), rule=Pegasos(), budget=20)
    >>> question.models.n_models, question.train_budget
    (3, 19)
    """

    #: Bins without the bias.
    n_bins: int
    #: The labels' names in the order of their indices; a single name when the label is a number.
    labels: tuple[str, ...]
    rule: PublishedRule
    loss: Loss = Loss("hinge")  # noqa: RUF009  (frozen values: sharing them harms nobody)
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
        if self.loss.regression and len(self.labels) != 1:
            raise BadExperimentError(
                f"the loss {self.loss.name} has a number as the label: labels names that one, and not"
                f" {len(self.labels)}"
            )
        if not self.loss.regression and len(self.labels) < 2:
            raise BadExperimentError(
                f"labels has {len(self.labels)} of them, and a classifier tells two apart at least; where the answer is"
                " a number, set loss to one for numbers (docs/learning.md lists them)"
            )
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

    @property
    def update_weights(self) -> tuple[tuple[int, ...], tuple[int, int]]:
        """With ``weighted_updates``: the integers that multiply a person's update, per label and per sign."""
        by_label = common_integers(self.class_weights or (Fraction(1),) * len(self.labels))
        positive, negative = common_integers(self.loss.factors)
        return by_label, (positive, negative)


def default_budget(experiment: Experiment, *, hashes: int, presence: bool) -> int:
    """B without cover: so many packages that nearly every update fits.

    A participant sends exactly B packages in every round, whatever it has to say: one tells that it takes part, and the
    others must hold its update in nearly every round. With F features of H hashes each a person fills at most
    n = F · H + 1 bins, and takes part in m models. Then, on average, at most

        m · n units are sent without thinning,   m · q · n with q,   m · ρ · √n with ρ      (Σ|x| / ‖x‖ ≤ √n, always)

    and B leaves room for four standard deviations more: of a person's rounds about one in 30,000 is cut. Without F, or
    for values that are no presence and not thinned by ρ, there is no such bound, and the budget must be given.
    """
    if experiment.features_per_person is None:
        raise BadExperimentError("give a budget, or features.per_participant, from which one is computed")
    if not presence and experiment.thinning.rho is None:
        raise BadExperimentError("give a budget: values that are no presence have no bound without thinning by rho")
    bins = experiment.features_per_person * hashes + 1
    models = experiment.models.most_per_person
    needed = models * bins
    if experiment.thinning.active:
        share = float(experiment.thinning.divisor)
        mean = models * share * (bins if experiment.thinning.rho is None else math.sqrt(bins))
        with_room = math.ceil(mean + _ROOM * math.sqrt(mean))
        # Presence also bounds the units themselves.
        needed = min(needed, with_room) if presence else with_room
    budget = needed + 1
    if budget > MAX_BUDGET:
        raise BadExperimentError(
            f"{budget} packages would be needed in every round, and {MAX_BUDGET} are the most: thin, or ask for less"
        )
    return max(2, budget)
