"""The laws that people at Twitter's shape follow, as tables of integers: the same people on every machine.

- **Words** come in pairs. Pair k (from 0) has the weight of Zipf and Mandelbrot, the integral of (x + shift)^-exponent
  from k to k + 1, and shares it evenly between words 2k and 2k + 1. The table has the edges of 2^12 cells of equal
  probability, worked out in decimal arithmetic; within a cell the density is constant.
- **Leans.** Pair k leans by a normal draw l of standard deviation ``signal``: its even word is the pick of side c = ±1
  with odds exp(2cl) against the odd one. So a word's odds between the sides are those of ``secvm_lab.population``,
  words of one person are still drawn without rejection, and over both sides each word keeps its weight exactly.
- **Strengths.** People differ in how much of it shows: a person of strength a follows the leans in a share a of its
  words and tosses a fair coin for the others. Strengths are uniform between ``weakest`` and 1.
- **Lengths**, how many different words a person has, are log-normal: ``spread`` is the standard deviation of the
  logarithm, and the mean is the one asked for. The paper gives the mean only; the spread is our choice.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm_lab._kernels.twitter_numbers import CELL_BITS, COIN_BITS, PLACE_BITS, POINT_BITS, QUANTILE_BITS

#: A cell reaches this much further than it begins, at most: a constant density would else not be the law's.
_THICKEST = 1.25
#: Words are int32, and the edges of their pairs have ten bits more.
MAX_VOCABULARY = 2**30


@cache
def word_edges(vocabulary: int, exponent: float, shift: float) -> NDArray[np.uint64]:
    """Edges of the cells, 2^12 + 1, in pairs of words, with ``POINT_BITS`` bits after the point."""
    cells, pairs = 2**CELL_BITS, vocabulary // 2
    with localcontext() as context:
        context.prec = 28
        low, high, power = Decimal(shift), Decimal(pairs) + Decimal(shift), 1 - Decimal(exponent)
        if power == 0:
            ratio = (high / low).ln() / cells
            positions = [low * (ratio * c).exp() - low for c in range(cells + 1)]
        else:
            first, step = low**power, (high**power - low**power) / cells
            positions = [(first + step * c) ** (1 / power) - low for c in range(cells + 1)]
        edges = np.array([round(position * 2**POINT_BITS) for position in positions], np.uint64)
    edges[0], edges[-1] = 0, pairs << POINT_BITS
    x = edges.astype(np.float64) + shift * 2**POINT_BITS
    if int(np.diff(edges).max()) >= 2 ** (64 - PLACE_BITS) or (x[1:] / x[:-1]).max() > _THICKEST:
        raise BadInputError("the rarest words are too many for so steep a law", next_step="lower the exponent")
    edges.setflags(write=False)
    return edges


def _normal_quantiles() -> list[float]:
    n = 2**QUANTILE_BITS
    return [NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)]


def leans(signal: float) -> NDArray[np.int64]:
    """By how many of 2^21 tosses side 1 prefers the even word of a pair; 2^12 leans, all equally likely."""
    shares = [1 / (1 + math.exp(-2 * signal * z)) - 0.5 for z in _normal_quantiles()]
    return np.array([round(2**COIN_BITS * share) for share in shares], np.int64)


def lengths(mean: float, spread: float) -> NDArray[np.int64]:
    """Numbers of different words, all equally likely."""
    raw = np.exp(spread * np.array(_normal_quantiles()))
    return np.asarray(np.maximum(1, np.rint(raw * (mean / raw.mean()))), dtype=np.int64)
