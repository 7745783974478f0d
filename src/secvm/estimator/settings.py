"""Parameters of the estimators that an experiment's parts declare, as scikit-learn's constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real

from sklearn.utils._param_validation import Interval, StrOptions

from secvm.learning.aggregate.descent import RULES
from secvm.learning.declared import Setting
from secvm.learning.losses import LOSSES, LossShape

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


def losses(*, regression: bool, among: Mapping[str, type[LossShape]] = LOSSES) -> list[str]:
    """Names of the losses for numbers as labels, or for classes."""
    return [name for name, shape in among.items() if shape.regression == regression]
