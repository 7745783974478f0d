"""The one arithmetic, at random and at its limits: numbers read and written, roundings, thresholds, odds, targets."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from secvm.learning.arithmetic import divide_fixed, exact, mantissas, shift_right_half_even, to_fixed
from secvm.learning.individual.update import fixed_target
from secvm.learning.losses import COIN_BITS, LOSSES, Loss
from secvm.learning.thinning import Thinning
from tests.contract.parity.channel import JSON, or_error

_DOUBLES = (0.0, 0.125, 2.5, 0.5, 1.5, 999999.5, 9999995.0, 1e-5, 1e-4, 1e22, 5e-324, 1.7976931348623157e308)


def draw_numbers(dice: random.Random) -> JSON:
    """A question for both languages."""
    coins = [0, 1, 2**53 - 1, 1 << 41, (1 << 41) - 1, *(dice.getrandbits(COIN_BITS) for _ in range(5))]
    which = dice.choice(("q", "rho"))
    return {
        "texts": [_text(dice) for _ in range(20)],
        "loss": [dice.choice((*LOSSES, "zero-one")), dice.choice((None, None, _text(dice), str(_ratio(dice, 1024))))],
        "coins": list(map(str, coins)),
        "thinning": {which: dice.choice((str(_ratio(dice, 1 if which == "q" else 2**20)), _text(dice)))},
        "norms": [str(dice.choice((1, 2, 2**44, dice.randint(1, 2 ** dice.randint(1, 50))))) for _ in range(5)],
        "target": _double(dice),
        "centre": str(_ratio(dice, 10**6)),
        "spread": str(_ratio(dice, 10**6)),
        "doubles": [_double(dice) for _ in range(10)],
        "integers": list(map(str, _integers(dice))),
        "scale": str(_ratio(dice, 2 ** dice.randint(0, 60))),
        "divisor": dice.choice((1, 2, 3, 2**20, dice.randint(1, 2**20))),
        "bits": dice.randint(0, 62),
    }


def answer_numbers(question: JSON) -> JSON:
    """What Python makes of it."""
    integers = np.array(list(map(int, question["integers"])), np.int64)
    scale, divisor, bits = Fraction(question["scale"]), question["divisor"], question["bits"]
    doubles = np.array(question["doubles"])
    return {
        "texts": [or_error(partial(_read, text)) for text in question["texts"]],
        "loss": or_error(partial(_loss, *question["loss"], coins=question["coins"])),
        "thinning": or_error(lambda: _odds(question["thinning"], question["norms"])),
        "targets": [or_error(partial(_target, question, clamp=clamp)) for clamp in (False, True)],
        "written": [[f"{x:.6g}", f"{x:.2f}", f"{x:,.1f}"] for x in question["doubles"]],
        "fixed": or_error(lambda: _texts(to_fixed(integers, scale))),
        "divided": or_error(lambda: _texts(divide_fixed(integers, divisor, extra_bits=8))),
        "shifted": _texts(shift_right_half_even(integers, bits)),
        "whole": _mantissas(integers),
        "broken": or_error(lambda: _mantissas(doubles)),
    }


def _texts(numbers: Any) -> list[str]:
    return list(map(str, numbers.tolist()))


def _mantissas(numbers: Any) -> list[Any]:
    whole, exponent = mantissas(numbers)
    return [whole.tolist(), exponent]


def _read(text: str) -> str:
    return str(exact(text))


def _loss(name: str, parameter: str | None, *, coins: list[str]) -> JSON:
    loss = Loss(name, None if parameter is None else exact(parameter))
    thresholds = loss.thresholds(np.array(list(map(int, coins)), np.int64))
    return {
        "parameter": None if loss.parameter is None else str(loss.parameter),
        "factors": list(map(str, loss.factors)),
        "flags": [loss.regression, loss.tosses_coins],
        # Of a regression thresholds are people's targets.
        "thresholds": None if loss.regression else _texts(thresholds),
    }


def _odds(thinning: dict[str, str], norms: list[str]) -> list[str]:
    return _texts(Thinning(**{name: exact(text) for name, text in thinning.items()}).keep53(map(int, norms)))


def _target(question: JSON, *, clamp: bool) -> str:
    spread = Fraction(question["spread"])
    return str(fixed_target(question["target"], centre=Fraction(question["centre"]), spread=spread, clamp=clamp))


def _text(dice: random.Random) -> str:
    digits = str(dice.getrandbits(dice.choice((1, 8, 64, 300))))
    whole, rest = digits[: len(digits) // 2], digits[len(digits) // 2 :]
    return dice.choice(
        (
            digits,
            f"-{digits}",
            f"{whole}/{rest}",
            f"{whole}.{rest}",
            f".{rest}",
            f"{whole}.",
            f"{whole}e{dice.randint(-20, 20)}",
            f"{digits}/0",
            "".join(dice.choices("0123456789./eE+- _٣", k=dice.randint(0, 6))),
        )
    )


def _ratio(dice: random.Random, most: int) -> Fraction:
    denominator = dice.choice((1, 2, 3, 7, 2**32, 10**9, dice.randint(1, 10**12)))
    return Fraction(dice.choice((1, most * denominator, dice.randint(1, most * denominator))), denominator)


def _double(dice: random.Random) -> float:
    drawn = (dice.choice(_DOUBLES), dice.gauss(0, 1), math.ldexp(dice.random(), dice.randint(-80, 80)))
    return dice.choice(drawn) * dice.choice((1, 1, -1)) + 0.0


def _integers(dice: random.Random) -> list[int]:
    most = 2 ** dice.choice((1, 8, 31, 40, 53, 61))
    return [dice.choice((0, most, -most, most - 1, dice.randint(-most, most))) for _ in range(6)]
