"""The descent rules by name. This is the one place that says which there are, and which is meant where nobody says."""

from __future__ import annotations

from collections.abc import Mapping

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent.pegasos import Pegasos
from secvm.learning.aggregate.descent.rule import DescentRule
from secvm.learning.aggregate.descent.swift import Swift
from secvm.learning.registry import Registry

#: Rules by name, as experiments and the command line say it.
RULES: Registry[DescentRule] = Registry("secvm.rules", DescentRule, Pegasos, Swift, noun="descent rule")
#: The rule where nobody says which: over devices the one that tells less, offline the paper's.
DEPLOYED: type[DescentRule] = Swift
OFFLINE: type[DescentRule] = Pegasos


def owners(constant: str) -> str:
    """Names of the built-in rules that have a constant of this name; "" where none has it."""
    return " and ".join(rule.name for rule in RULES.built_in.values() if constant in rule.setting_names())


def rule_by_name(name: str, constants: Mapping[str, object]) -> DescentRule:
    """The rule that a published experiment names, with all its constants: what is published leans on no default."""
    kind = RULES.find(name)
    missing = [setting.name for setting in kind.settings() if not setting.optional and setting.name not in constants]
    if missing:
        raise BadExperimentError(f"the rule {name} is published without {', '.join(missing)}")
    return kind.read(constants)
