"""Both descent rules once more, written from docs/protocol.md §6 alone, in plain Python numbers.

It shares no line with ``secvm.learning.aggregate``: what two people wrote and what agrees bit for bit is the protocol,
not a habit of one of them. Slow, and meant to be read beside the document.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.learning.experiment import Experiment

Rows = list[list[int]]
_ONE = 2**32


@dataclass(frozen=True, slots=True)
class Counts:
    """A tally as plain lists: rows of models, columns of bins with the bias."""

    plus: Rows
    minus: Rows
    participants: list[int]


@dataclass(frozen=True, slots=True)
class Side:
    """One model's direction: integers and scale, popularity likewise, imbalance (§6.1)."""

    numerators: list[int]
    scale: Fraction
    totals: list[int]
    total_scale: Fraction
    imbalance: Fraction


def taken(
    experiment: Experiment, vectors: dict[str, Any], counts: Counts, model: int
) -> tuple[Side, dict[str, list[Any]]]:
    """§6.8: the direction that a rule is given, and what is remembered of this one."""
    robust = experiment.robust
    if robust is None:
        return direction(experiment, counts, model), {}
    if robust.clip is not None:
        counts = _clipped(experiment, counts, model, robust.clip)
    side = direction(experiment, counts, model)
    if robust.trim == 1:
        return side, {}
    last = [round(_ONE * n * side.scale) for n in side.numerators]
    rounds = [last, *(vectors[f"recent_{i}"][model] for i in range(1, robust.trim))]
    middle = [sorted(each)[robust.trim // 2] for each in zip(*rounds, strict=True)]
    remembered = {f"recent_{i}": rounds[i - 1] for i in range(1, robust.trim)}
    return replace(side, numerators=middle, scale=Fraction(1, _ONE)), remembered


def _clipped(experiment: Experiment, counts: Counts, model: int, clip: Fraction) -> Counts:
    signs = [int(sign) for sign in experiment.models.signs[:, model]]
    weights = list(experiment.class_weights) or [Fraction(1)] * len(signs)
    _, a = _mean_weight(signs, weights, counts.participants, 1)
    _, b = _mean_weight(signs, weights, counts.participants, -1)
    up, down = _smallest(a * experiment.loss.factors[0], b * experiment.loss.factors[1])
    plus, minus = [row[:] for row in counts.plus], [row[:] for row in counts.minus]
    for j, (p, m) in enumerate(zip(counts.plus[model], counts.minus[model], strict=True)):
        ours, theirs, both = up**2 * max(p, 0), down**2 * max(m, 0), up**2 + down**2
        inside = min(ours + theirs, 4 * min(ours, theirs) + 8 * both)
        limit = math.isqrt(math.floor(clip**2 * inside))
        if up * p - down * m > limit:
            plus[model][j] = (limit + down * m) // up
        if down * m - up * p > limit:
            minus[model][j] = (limit + up * p) // down
    return replace(counts, plus=plus, minus=minus)


def direction(experiment: Experiment, counts: Counts, model: int) -> Side:
    """§6.1."""
    signs = [int(sign) for sign in experiment.models.signs[:, model]]
    weights = list(experiment.class_weights) or [Fraction(1)] * len(signs)
    n_plus, a = _mean_weight(signs, weights, counts.participants, 1)
    n_minus, b = _mean_weight(signs, weights, counts.participants, -1)
    plus, minus = counts.plus[model], counts.minus[model]
    totals = [p + m for p, m in zip(plus, minus, strict=True)]
    if n_plus + n_minus == 0:
        return Side([0] * len(plus), Fraction(0), totals, Fraction(0), Fraction(0))
    divisor = experiment.thinning.q or experiment.thinning.rho or Fraction(1)
    up, down = experiment.loss.factors
    left, right = _smallest(a * up, b * down)
    numerators = [left * p - right * m for p, m in zip(plus, minus, strict=True)]
    weighted = a * n_plus + b * n_minus
    unit = a * up / left if left else (b * down / right if right else Fraction(0))
    scale = unit / (divisor * weighted) if weighted else Fraction(0)
    imbalance = abs(a * n_plus - b * n_minus) / weighted if weighted else Fraction(0)
    return Side(numerators, scale, totals, 1 / (divisor * (n_plus + n_minus)), imbalance)


def _mean_weight(signs: list[int], weights: list[Fraction], people: list[int], sign: int) -> tuple[int, Fraction]:
    members = [label for label, one in enumerate(signs) if one == sign]
    n = sum(people[label] for label in members)
    if n:
        return n, Fraction(sum(weights[label] * people[label] for label in members), n)
    return 0, weights[members[0]] if members else Fraction(1)


def _smallest(first: Fraction, second: Fraction) -> tuple[int, int]:
    """The smallest integers in this proportion."""
    common = math.lcm(first.denominator, second.denominator)
    whole = int(first * common), int(second * common)
    divisor = math.gcd(*whole) or 1
    return whole[0] // divisor, whole[1] // divisor


# ── Pegasos, §6.2 to §6.4 ────────────────────────────────────────────────────────────────────────────────────────────


def pegasos_step(
    experiment: Experiment, step: int, vectors: dict[str, Rows], counts: Counts
) -> tuple[int, dict[str, Rows]]:
    """The next number of steps and vectors."""
    constants = {name: Fraction(text) for name, text in experiment.rule.parameters().items()}
    t, averaging, cap = step + 1, int(constants["averaging"]), constants.get("step_cap")
    new = {name: [row[:] for row in rows] for name, rows in vectors.items()}
    for i in range(averaging - 1, 0, -1):
        new[f"sum_{i}"] = [row[:] for row in vectors[f"sum_{i - 1}"]]
    for model in range(len(counts.plus)):
        side, remembered = taken(experiment, vectors, counts, model)
        for name, row in remembered.items():
            new[name][model] = row
        increment = [round(_ONE * n * side.scale) for n in side.numerators]
        if cap is not None:
            if t == 1:
                new["popularity"][model] = [round(_ONE * n * side.total_scale) for n in side.totals]
            moved = sum(abs(g) * p for g, p in zip(increment, new["popularity"][model], strict=True))
            halvings = 0
            while Fraction(moved, 2**halvings) > cap * constants["lambda"] * t * 2**64:
                halvings += 1
            increment = [round(Fraction(g, 2 ** min(halvings, 62))) for g in increment]
        old = vectors["sum_0"][model]
        new["sum_0"][model] = [s + g for s, g in zip(old, increment, strict=True)]
    return t, new


def pegasos_weights(
    experiment: Experiment, step: int, vectors: dict[str, Rows]
) -> tuple[tuple[Rows, Fraction], tuple[Rows, Fraction]]:
    """Mantissas and unit of training and of evaluation weights."""
    constants = {name: Fraction(text) for name, text in experiment.rule.parameters().items()}
    rate = constants["lambda"]
    if step == 0:
        zero = [[0] * len(row) for row in vectors["sum_0"]]
        return (zero, Fraction(1)), (zero, Fraction(1))
    mantissas, e = _whole_mantissas(vectors["sum_0"])
    k = min(int(constants["averaging"]), step)
    added = [[0] * len(row) for row in vectors["sum_0"]]
    for i in range(k):
        for row, sums in zip(added, vectors[f"sum_{i}"], strict=True):
            for j, value in enumerate(sums):
                row[j] += round(Fraction(256 * value, step - i))
    averaged, shift = _whole_mantissas(added)
    power = Fraction(2)
    return (mantissas, power ** (e - 32) / (rate * step)), (averaged, power ** (shift - 40) / (rate * k))


def _whole_mantissas(rows: Rows) -> tuple[Rows, int]:
    """§3.3."""
    e = 0
    while True:
        rounded = [[round(Fraction(value, 2**e)) for value in row] for row in rows]
        if all(abs(value) <= 2**31 - 1 for row in rounded for value in row):
            return rounded, e
        e += 1


# ── Swift, §6.5 and §6.6 ─────────────────────────────────────────────────────────────────────────────────────────────

Floats = list[list[float]]


def swift_step(
    experiment: Experiment, step: int, vectors: dict[str, Floats], counts: Counts
) -> tuple[int, dict[str, Floats]]:
    """The next number of steps and vectors."""
    constants = {name: Fraction(text) for name, text in experiment.rule.parameters().items()}
    eta, momentum, floor, decay = (float(constants[name]) for name in ("step_size", "momentum", "floor", "decay"))
    t = step + 1
    r = eta / math.sqrt(t)
    new: dict[str, Floats] = {name: [row[:] for row in rows] for name, rows in vectors.items()}
    for model in range(len(counts.plus)):
        side, remembered = taken(experiment, vectors, counts, model)
        popularity, precondition = vectors["popularity"][model], vectors["precondition"][model]
        if t == 1 or not any(popularity):
            popularity = [max(value, 0.0) for value in _over(side.totals, side.total_scale)]
            precondition = _precondition(popularity, floor)
        g = _over(side.numerators, side.scale)
        v = [momentum * old + now for old, now in zip(vectors["velocity"][model], g, strict=True)]
        z = [p * q for p, q in zip(popularity, precondition, strict=True)]
        move = r * _sum([a * b for a, b in zip(z, v, strict=True)])
        most = float(constants["mean_move"] + constants["mean_move_imbalance"] * side.imbalance)
        if not -most <= move <= most:
            excess = move - most if move > 0 else move + most
            factor = excess / (r * _sum([a * b for a, b in zip(z, popularity, strict=True)]))
            v = [value - factor * p for value, p in zip(v, popularity, strict=True)]
        w = [
            (1.0 - decay) * old + (r * q) * value
            for old, q, value in zip(vectors["weights"][model], precondition, v, strict=True)
        ]
        average = w if t == 1 else [0.5 * a + 0.5 * b for a, b in zip(vectors["average"][model], w, strict=True)]
        told = {"popularity": popularity, "precondition": precondition, "velocity": v, "weights": w, "average": average}
        for name, row in (told | remembered).items():
            new[name][model] = row
    return t, new


def _over(counts: list[int], scale: Fraction) -> list[float]:
    return [float(count) / float(1 / scale) for count in counts] if scale else [0.0] * len(counts)


def _precondition(popularity: list[float], floor: float) -> list[float]:
    total = _sum(popularity)
    if total == 0.0:
        return [0.0] * len(popularity)
    raised = [p + floor * (total / len(popularity)) for p in popularity]
    powers = [1.0 / (math.sqrt(q) * math.sqrt(math.sqrt(q))) for q in raised]
    factor = total / _sum([p * power for p, power in zip(popularity, powers, strict=True)])
    return [power * factor for power in powers]


def _sum(values: list[float]) -> float:
    """From left to right: Python's own sum may do better than that."""
    found = values[0]
    for value in values[1:]:
        found += value
    return found


def swift_weights(step: int, rows: Floats) -> tuple[Rows, Fraction]:
    """Mantissas and unit of ``weights`` or ``average``, §3.4."""
    largest = max(abs(value) for row in rows for value in row)
    if step == 0 or largest == 0.0:
        return [[0] * len(row) for row in rows], Fraction(1)
    e = math.frexp(largest)[1] - 31
    while True:
        rounded = [[round(Fraction(value) / Fraction(2) ** e) for value in row] for row in rows]
        if all(abs(value) < 2**31 for row in rounded for value in row):
            return rounded, Fraction(2) ** e
        e += 1
