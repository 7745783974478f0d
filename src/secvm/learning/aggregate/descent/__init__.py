"""Descent rules as values: state t = rule(state t-1, tally), weights a pure function of the state.

A rule is computed by whoever holds the public tallies, and anyone recomputes it bit for bit. A new rule is a small
class with the methods of ``DescentRule``, entered in ``RULES``.
"""

from secvm.learning.aggregate.descent.pegasos import Pegasos
from secvm.learning.aggregate.descent.rule import DescentRule, State
from secvm.learning.aggregate.descent.swift import Swift

#: Rules by name, as experiments and the command line say it.
RULES: dict[str, type[Pegasos] | type[Swift]] = {"pegasos": Pegasos, "swift": Swift}

__all__ = ["RULES", "DescentRule", "Pegasos", "State", "Swift"]
