"""The descent rules by name. This is the one place that says which there are, and which is meant where nobody says.

``AskedDescent`` is a rule and its thinning over devices, as a specification or a form asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent.pegasos import Pegasos
from secvm.learning.aggregate.descent.rule import DescentRule
from secvm.learning.aggregate.descent.swift import Swift
from secvm.learning.declared import Registry
from secvm.learning.thinning import Thinning, parse_thinning

#: Rules by name, as experiments and the command line say it.
RULES: Registry[DescentRule] = Registry("secvm.rules", DescentRule, Pegasos, Swift, noun="descent rule")
#: The rule where nobody says which: over devices the one that tells less, offline the paper's.
DEPLOYED: type[DescentRule] = Swift
OFFLINE: type[DescentRule] = Pegasos


def owners(constant: str) -> str:
    """Names of the built-in rules that have a constant of this name; "" where none has it."""
    return " and ".join(rule.name for rule in RULES.built_in.values() if constant in rule.setting_names())


def foreign(constant: str, kind: type[DescentRule], *, called: str) -> str:
    """What to say of a constant that this rule does not have; ``called``: as whoever gave it calls it."""
    own = ", ".join(kind.setting_names()) or "no constants"
    return f"{called} belongs to {owners(constant)}: {kind.name} has {own}"


def rule_by_name(name: str, constants: Mapping[str, object]) -> DescentRule:
    """The rule that a published experiment names, with all its constants: what is published leans on no default."""
    kind = RULES.find(name)
    missing = [setting.name for setting in kind.settings() if not setting.optional and setting.name not in constants]
    if missing:
        raise BadExperimentError(f"the rule {name} is published without {', '.join(missing)}")
    return kind.read(constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedDescent:
    """How an experiment over devices shall learn, and what of it somebody has chosen."""

    rule: DescentRule
    thinning: Thinning
    #: Names of what was given, "thinning" or constants of the rule; a plan may choose the others.
    given: frozenset[str] = frozenset()

    def rule_for(self, *, numbers: bool) -> DescentRule:
        """The rule; what nobody has given has the default for classes as the label, or for ``numbers``."""
        given = {name: value for name, value in self.rule.content().items() if name in self.given}
        return type(self.rule).read(given, numbers=numbers)

    @classmethod
    def read(cls, content: Mapping[str, object]) -> AskedDescent:
        """Out of the table ``descent`` of a specification: ``rule``, ``thinning``, and the rule's own constants."""
        constants = {name: value for name, value in content.items() if value is not None}
        name = constants.pop("rule", DEPLOYED.name)
        if not isinstance(name, str):
            raise BadExperimentError("rule must be the name of a descent rule")
        kind = RULES.find(name)
        text = constants.pop("thinning", "auto")
        for constant in constants:
            if constant not in kind.setting_names() and owners(constant):
                raise BadExperimentError(f"{constant} belongs to {owners(constant)}, not to {name}")
        if not isinstance(text, str | int | float) or isinstance(text, bool):
            raise BadExperimentError("thinning must be a number, q=Q or none")
        thinning = parse_thinning(text, kind.usual_thinning)
        if kind.normalised and not thinning.active:
            raise BadExperimentError(f"{name} over devices needs thinning: its rows are no packages otherwise")
        given = frozenset(constants) | ({"thinning"} if content.get("thinning") is not None else set())
        return cls(rule=kind.read(constants), thinning=thinning, given=given)
