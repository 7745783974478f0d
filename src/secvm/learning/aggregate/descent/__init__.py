"""Descent rules as values: state t = rule(state t-1, tally), weights a pure function of the state.

A rule is computed by whoever holds the public tallies, and anyone recomputes it bit for bit. A new rule is one class
that inherits from ``DescentRule``. A built-in one stands in ``rules.RULES``; one of another package is found by an
entry point in the group ``secvm.rules``. Nothing else quotes its name.
"""

from secvm.learning.aggregate.descent.pegasos import Pegasos
from secvm.learning.aggregate.descent.rule import DescentRule, State
from secvm.learning.aggregate.descent.rules import DEPLOYED, OFFLINE, RULES, AskedDescent, foreign, rule_by_name
from secvm.learning.aggregate.descent.swift import Swift

__all__ = [
    "DEPLOYED",
    "OFFLINE",
    "RULES",
    "AskedDescent",
    "DescentRule",
    "Pegasos",
    "State",
    "Swift",
    "foreign",
    "rule_by_name",
]
