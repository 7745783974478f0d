"""Whether a person sends its update, at random, with most scores on an edge of the band or one unit beside it."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np

from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.update import MAX_TARGET, band, fixed_norm, local_update, score, squared_norm
from secvm.learning.losses import ONE
from secvm.learning.rows import MAX_UNITS
from secvm.learning.weights import Weights
from tests.contract.parity.channel import JSON

_LARGEST = 2**31 - 1


def draw_margin(dice: random.Random) -> JSON:
    """A question for both languages."""
    bins = dice.choice((0, 1, 1, 2, 5, 40))
    # Not beyond the units that a person may have: then every score is below 2^53.
    most = dice.choice((1, 3, (MAX_UNITS - 1) // max(1, bins)))
    values = {b: v for b in range(bins) if (v := dice.choice((1, most, -most, dice.randint(-most, most))))}
    row = [dice.choice((0, 1, -1, _LARGEST, -_LARGEST, dice.randint(-_LARGEST, _LARGEST))) for _ in range(bins + 1)]
    sign = dice.choice((-1, 1, None))
    numbers = (0, 1, -1, ONE, MAX_TARGET * ONE - ONE, -(MAX_TARGET - 1) * ONE, dice.randint(-4 * ONE, 4 * ONE))
    question: JSON = {
        "values": list(values.items()),
        "mantissas": row,
        "unit": str(_unit(dice)),
        "normalised": dice.random() < 0.5,
        "first": dice.random() < 0.05,
        "threshold": str(dice.choice(numbers)),
        "width": str(0 if sign else dice.choice((0, 1, ONE // 7, dice.randint(0, ONE)))),
        "sign": sign,
    }
    # The bias moves the score onto an edge where it can.
    vector = BinnedVector(values, bins)
    for_edge = dice.choice(_band(question, vector)) * (sign or 1) + dice.choice((-1, 0, 0, 0, 1))
    bias = for_edge - (score(_weights(question), 0, vector) - row[-1])
    if abs(bias) <= _LARGEST:
        row[-1] = bias
    return question


def answer_margin(question: JSON) -> JSON:
    """What Python's device computes."""
    weights = _weights(question)
    vector = BinnedVector(dict(question["values"]), len(question["mantissas"]) - 1)
    update = local_update(
        weights=weights,
        model=0,
        vector=vector,
        label_sign=question["sign"],
        threshold=int(question["threshold"]),
        width=int(question["width"]),
    )
    return {
        "score": score(weights, 0, vector),
        "norm": str(fixed_norm(squared_norm(vector))) if weights.normalised else None,
        "band": list(map(str, _band(question, vector))),
        "update": None if update is None else list(update.values.items()),
    }


def on_edge(question: JSON, answer: JSON) -> bool:
    """Whether the score is exactly an end of the band."""
    return str(answer["score"] * (question["sign"] or 1)) in answer["band"]


def _unit(dice: random.Random) -> Fraction:
    if dice.random() < 0.5:
        return Fraction(1, 1 << dice.randint(0, 60))
    return Fraction(dice.randint(1, 10**6), dice.randint(1, 10**9) << dice.randint(0, 50))


def _weights(question: JSON) -> Weights:
    return Weights(
        mantissas=np.array([question["mantissas"]], np.int32),
        unit=Fraction(question["unit"]),
        normalised=question["normalised"],
        first=question["first"],
    )


def _band(question: JSON, vector: BinnedVector) -> tuple[int, int]:
    return band(
        threshold=int(question["threshold"]),
        width=int(question["width"]),
        norm=fixed_norm(squared_norm(vector)) if question["normalised"] else None,
        unit=Fraction(question["unit"]),
    )
