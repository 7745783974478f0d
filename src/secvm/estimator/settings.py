"""Parameters of the estimators: what they mean, and, where an experiment's parts declare them, what they may be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real

from sklearn.utils._param_validation import Interval, StrOptions

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import RULES
from secvm.learning.declared import Setting
from secvm.learning.losses import LOSSES, LossShape

PARAMETERS_DOC = """
    n_bins : int, "auto" or None, default="auto"
        Number of hash bins; None leaves features unhashed, and so does "auto" without ``epsilon``. With it, bins follow
        from public numbers: 256 for each column of an array or a data frame, at least 1024 and at most 4096.
    n_hashes, salt, features_per_person, edges : int, str or bytes, int, dict, default=1, None, None, None
        As in ``FeatureBinner``. Prediction looks at all features of a person: it sends nothing.
    values : {"auto", "counts", "presence", "one-per-bin"}, default="auto"
        As in ``FeatureBinner``: "auto" takes words and counts as they are, and other numbers by their place between a
        few knots (the regressor: as levels).
    descent : {"swift", "pegasos"}, the name of another package's rule, or DescentRule
        A rule by name, with the constants below, or with constants of its own as an object
        (docs/reference/experiment.md has them all). "pegasos" is the paper's.
    thinning : "auto", None, float or "q=Q", default="auto"
        How much of an update a device would send. A number is ρ (rules that normalise rows); "q=Q" a constant share
        (others). None is all of it, and so is "auto" without ``epsilon``; over devices swift has ρ = 3.
    lambda_, averaging, decay : float, int, float or None, default=None
    step_cap : float, "auto" or None, default="auto"
        Constants of the rule; one that it does not have is refused. None, and "auto" for ``step_cap``: as the rule has
        them for this kind of label.
    rounds : int or "auto", default="auto"
        Rounds to train for. "auto": of swift 50, of another rule as many as it usually takes; with ``epsilon`` as
        planned.
    stop : {"none", "plateau"}, default="none"
        Whether to stop early on held-out people, and keep the best round.
    validation_fraction : float, default=0.1
        Share of people held out for ``stop="plateau"`` (unless ``fit`` is given cohorts).
    budget : int or None, default=None
        Packages per participant and round, as in a deployment.
    epsilon : float or None, default=None
        An ε to train under, over all rounds, by the cover of two relays one of which is honest; smaller hides more. The
        rule is swift then and values are one per bin; ``rounds`` and ``thinning`` follow from public numbers where they
        are left as they are; where ``features_per_person`` is None, it is 300, or as many as the columns of an array
        or a data frame can make. None: no formal guarantee.
    delta : float, default=1e-6
        The δ that goes with it: a chance left aside, far below one in all people.
    dice_seed : bytes or None, default=None
        Seed of the people's dice; None draws one from ``random_state``.
    random_state : int, RandomState or None, default=None
        With ``epsilon`` cover follows from it, too, and whoever knows it can take the cover away: None for a model that
        others see.
    n_jobs : int or None, default=None
        Threads; -1 is one for each processor. The result does not depend on it.
    device : {"cpu", "cuda"}, default="cpu"
        Where the rounds are computed; the result does not depend on it. A GPU needs the laboratory's extra ``cuda``.
    verbose : int, default=0
        A line about each round where it is not 0.
"""
#: What ``fit`` leaves behind, of both estimators.
ATTRIBUTES_DOC = """
    coef_, intercept_ : arrays
        Weights of the bins, models x bins, and of the bias, one per model.
    n_iter_, kept_round_ : int
        Rounds that were run, and the one whose model was kept: the last, or the best before a plateau.
    stopped_because_ : {"rounds", "plateau", "abandoned"}
    history_ : list of dicts
        For each round its number ("round"), the share of people who sent something ("sent"), packages a person
        ("packages"), and what share of held-out people it was right about ("held_out"), where there are any. With
        ``epsilon`` packages are those that everybody sends, and who sends something is nobody's business.
        ``pandas.DataFrame(model.history_).plot(x="round")`` draws it.
    packages_per_person_ : float
        Of all rounds together. With ``epsilon`` those that everybody sends, whatever the data are.
    two_cycle_ : bool
        Whether it ended in a two-cycle (docs/learning.md).
    epsilon_spent_ : float
        The ε at ``delta`` that all rounds came to; infinite without ``epsilon``.
    privacy_ : PrivacyPlan
        With ``epsilon``: what it costs; ``print(model.privacy_)`` says it in words.
    experiment_, state_, weights_, binner_, seed_
        The question that was asked, the rule's state, the weights, what became of features, and the seed of all dice.
    n_features_in_, feature_names_in_
        Of arrays, matrices and data frames.
"""
#: Constants of built-in rules that are parameters of the estimators; others are given with a rule as an object.
_CONSTANTS = ("lambda_", "averaging", "step_cap", "decay")


class NamesOf(StrOptions):
    """One of the names in a registry; those of other packages are looked up when they are needed, not on import."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.type, self.hidden, self._names = str, False, names
        self.deprecated: set[str] = set()

    @property
    def options(self) -> set[str]:
        """The names."""
        return set(self._names())


def interval(setting: Setting) -> Interval:
    """The range of a setting."""
    low = setting.at_least if setting.above is None else setting.above
    high = setting.at_most if setting.below is None else setting.below
    closed = {(True, True): "both", (True, False): "left", (False, True): "right", (False, False): "neither"}
    kind, number = (Integral, int) if setting.is_whole else (Real, float)
    ends = [None if end is None else number(end) for end in (low, high)]
    return Interval(kind, *ends, closed=closed[setting.at_least is not None, setting.at_most is not None])


def rule_settings() -> dict[str, Setting]:
    """What the estimators' parameters about rules mean, by their names."""
    declared = {setting.attribute: setting for rule in RULES.built_in.values() for setting in rule.settings()}
    return {name: declared[name] for name in _CONSTANTS}


def threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` means, as in joblib: below zero counts from the number of processors."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise BadInputError("n_jobs must not be 0; -1 takes all processors")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def losses(*, regression: bool, among: Mapping[str, type[LossShape]] = LOSSES) -> list[str]:
    """Names of the losses for numbers as labels, or for classes."""
    return [name for name, shape in among.items() if shape.regression == regression]
