"""Risk: one number for what a whole experiment tells of a person's answer, one rounding, and the words for it.

Everything that says how risky it is to take part says this: the command line before and after joining, the person's
page, the statement, the planner and the operator's form.

**The number** is the largest AUC of anybody who asks which of two answers a person gave: whatever they know of the
person and of all others, whatever weights were sent, over all rounds. It follows from the whole curve δ(ε) of a flipped
label (``accounting.guarantee``), so no δ is left aside, and whoever asks is told the same. An experiment without a
guarantee has 1: whoever chooses the weights can tell every answer (docs/guarantees.md).

**The words** are true because no bet is better than the AUC. Who bets between two answers that seemed equally likely,
by any rule, is right with (1 - x + y) / 2, for x false alarms and y hits. The best attacker's curve is concave and runs
through (0, 0), (x, y) and (1, 1), so that the area below it, the AUC, is at least that of these two lines: the same
(1 - x + y) / 2. With three or more answers, or numbers, the bet is between any two of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from secvm.learning.experiment import Experiment
from secvm.privacy.accounting.guarantee import Guarantee, auc_at_most
from secvm.privacy.sentences import Sentence, say

#: The risk where nothing bounds it.
CERTAIN = 1.0


def risk_of(guarantee: Guarantee | None) -> float:
    """From 0.5, a coin toss, to 1; None: there is no guarantee."""
    return CERTAIN if guarantee is None else guarantee.auc


def together(experiments: Sequence[tuple[float, float]]) -> float:
    """Of several experiments, each with its risk and its total variation: a bound on the risk of all of them.

    Total variations add up, also where somebody writes the next experiment after a look at the last one's tallies: two
    worlds that were alike up to here differ in the next experiment with its variation at most.
    """
    if len(experiments) < 2:
        return experiments[0][0] if experiments else 0.5
    return auc_at_most([(0.0, min(1.0, math.fsum(variation for _, variation in experiments)))])


def times_in_ten(risk: float) -> float:
    """How often in ten bets, with one digit."""
    return up(10 * Fraction(risk), 10)


def in_words(risk: float, experiment: Experiment) -> Sentence:
    """What the risk is, for the person who is to decide."""
    times = times_in_ten(risk)
    if times >= 10:
        return say("risk.unbounded")
    if experiment.loss.regression:
        return say("risk.number", times=times)
    return say("risk.two" if len(experiment.labels) == 2 else "risk.several", times=times)


def up(number: float | Fraction, parts: int) -> float:
    """A number in so many parts of one, never below the truth: the rounding of every figure of risk, ε or AUC."""
    return number if isinstance(number, float) and math.isinf(number) else math.ceil(Fraction(number) * parts) / parts
