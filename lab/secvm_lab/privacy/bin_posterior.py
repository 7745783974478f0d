"""How well a word hides in the traffic of its bin, whatever the dictionary says.

Whoever sees a bin in a package and knows how popular words are guesses the bin's most popular word. How often is that
right? Let words be sorted by traffic, t₁ ≥ t₂ ≥ …, and hashed into n bins. Word i is the guess of its bin exactly if
none of the i - 1 words before it fell there, which has the probability (1 - 1/n)^(i-1). So over all salts the expected
share of traffic that is guessed rightly, the **traffic-weighted posterior**, is

    Σ t_i (1 - 1/n)^(i-1)  /  Σ t_i

and nothing has to be simulated. With Zipf's law t_i = 1/i and many more words than bins it is close to
ln n / (ln m + 0.5772): it falls slowly with fewer bins, and hardly with more words.

These are expectations over the salt, in floats, and no bounds. ``secvm audit collisions`` gives the share for one salt.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import check_size

#: Ranks that are summed one by one; sums over the rest are integrals, right to about 1e-10 of themselves.
_HEAD = 1 << 17
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def bin_posterior(popularities: ArrayLike, n_bins: int) -> float:
    """The traffic-weighted posterior of words whose traffic is given: counts or shares, in any order."""
    check_size(n_bins, "the number of bins")
    try:
        traffic = np.sort(np.asarray(popularities, dtype=np.float64).ravel())[::-1]
    except (TypeError, ValueError):
        raise BadInputError("popularities must be numbers") from None
    if not traffic.size or not np.isfinite(traffic).all() or traffic[-1] < 0 or not traffic[0] > 0:
        raise BadInputError("popularities must be finite numbers, none negative and not all zero")
    traffic = traffic / traffic[0]
    return float(traffic @ _first_in_bin(np.arange(traffic.size, dtype=np.float64), n_bins) / traffic.sum())


def zipf_posterior(n_words: int, n_bins: int, *, exponent: float = 1.0, shift: float = 0.0) -> float:
    """The same for words after Zipf and Mandelbrot: the word of rank i has the traffic (i + shift)^-exponent."""
    check_size(n_words, "the number of words")
    check_size(n_bins, "the number of bins")
    if not 0 <= exponent <= 10:
        raise BadInputError("the exponent of Zipf's law must lie between 0 and 10")
    if not 0 <= shift <= 1e9:
        raise BadInputError("the shift of Zipf's and Mandelbrot's law must lie between 0 and 10^9")

    def traffic(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        # Relative to the first rank, so that no power underflows.
        return ((ranks + shift) / (1.0 + shift)) ** -exponent

    guessed = _sum_over_ranks(lambda ranks: traffic(ranks) * _first_in_bin(ranks - 1.0, n_bins), n_words)
    return guessed / _sum_over_ranks(traffic, n_words)


def _first_in_bin(before: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """With which probability none of so many words before fell into a word's bin."""
    if n_bins == 1:
        return np.where(before == 0, 1.0, 0.0)
    return np.exp(before * math.log1p(-1.0 / n_bins))


def _sum_over_ranks(term: Callable[[NDArray[np.float64]], NDArray[np.float64]], last: int) -> float:
    """Σ term(i) for i from 1 to last: the head one by one, then ∫ from i - 1/2 to i + 1/2 for each i.

    That replaces a term by its mean around it, an error of a twenty-fourth of its second derivative: below 1e-10 of the
    term where terms change over scales of 10^5 ranks or more. Where they fall faster, the head has all of the sum.
    """
    total = math.fsum(term(np.arange(1, min(last, _HEAD) + 1, dtype=np.float64)))
    start = _HEAD + 0.5
    while start < last + 0.5:
        end = min(last + 0.5, 1.5 * start)
        half = (end - start) / 2
        total += half * float(_WEIGHTS @ term(start + half + half * _NODES))
        start = end
    return total
