"""Many people's forward passes and coins of a network, quickly. ``tests.rigs.network_device`` is the specification."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.siphash import siphash24_word

_BITS = 16
_ONE = 65536.0
_MARGIN = 1 << 32
_ALL = 2.0**53
_DROPPED_BITS = np.uint64(11)
#: Entries whose dice are thrown at once: enough for the CPU's vectors, few enough for its first cache.
_CHUNK = 512


@nb.njit(inline="always")
def _forward(bins, values, start, end, weights, first, second, third, hidden, scores):
    """Write z of each unit and s of each output; gives Σ x²."""
    h, n_outputs = len(hidden), len(scores)
    hidden[:] = 0
    square = np.int64(0)
    for at in range(start, end):
        x = np.int64(values[at])
        square += x * x
        row = np.int64(bins[at]) * h
        for u in range(h):
            hidden[u] += np.int64(weights[row + u]) * x
    # floor(2^16 ‖x‖): the float's root is right to a unit, the integers say which.
    wide = square << np.int64(2 * _BITS)
    norm = np.int64(math.sqrt(np.float64(wide)))
    while norm * norm > wide:
        norm -= 1
    while (norm + 1) * (norm + 1) <= wide:
        norm += 1
    for u in range(h):
        z = (hidden[u] << np.int64(_BITS)) // norm if norm > 0 else np.int64(0)
        hidden[u] = z + np.int64(weights[first + u])
    for k in range(n_outputs):
        s = np.int64(weights[third + k]) << np.int64(_BITS)
        for u in range(h):
            s += np.int64(weights[second + u * n_outputs + k]) * max(np.int64(0), hidden[u])
        scores[k] = s
    return square


@compiled
def score_people(indptr, bins, values, weights, ends, h, n_outputs, low, high, out):
    """Scores of people ``low`` to ``high``, in units of 2^-32."""
    hidden = np.empty(h, np.int64)
    for i in range(low, high):
        _forward(bins, values, indptr[i], indptr[i + 1], weights, ends[0], ends[1], ends[2], hidden, out[i])


@nb.njit(inline="always")
def _errors(label, scores, error):
    """Write the error of each output; gives whether there is any."""
    if len(scores) == 1:
        sign = 2 * label - 1
        error[0] = sign if sign * scores[0] < _MARGIN else 0
        return error[0] != 0
    error[:] = 0
    rival = 1 if label == 0 else 0
    for k in range(len(scores)):
        if k != label and scores[k] > scores[rival]:
            rival = k
    if scores[label] - scores[rival] >= _MARGIN:
        return False
    error[label], error[rival] = 1, -1
    return True


@nb.njit(inline="always")
def _below(word, chance):
    return np.int64(word >> _DROPPED_BITS) < np.int64(min(1.0, chance) * _ALL)


@compiled
def _sent(k0, k1, counter, chance):
    """One coin. Not inlined: a hash at each of its places would be compiled for long."""
    return _below(siphash24_word(k0, k1, counter), chance)


@compiled
def count_packages(
    indptr,
    bins,
    values,
    labels,
    weights,
    ends,
    h,
    n_outputs,
    bounds,
    keys,
    counters,
    low,
    high,
    plus,
    minus,
    seen,
):
    """Add the packages of people ``low`` to ``high`` to the counts.

    ``counters`` holds the dice counter of word 0 of each unit and output. ``seen`` gets numbers of violators, entries,
    clipped entries and people with a clipped entry.
    """
    first, second, third = ends[0], ends[1], ends[2]
    c_words, c_hidden, c_outputs, c_last = bounds[0], bounds[1], bounds[2], bounds[3]
    hidden, scores, error = np.empty(h, np.int64), np.empty(n_outputs, np.int64), np.empty(n_outputs, np.int64)
    kept = np.empty(_CHUNK, np.bool_)
    for i in range(low, high):
        start, end = indptr[i], indptr[i + 1]
        square = _forward(bins, values, start, end, weights, first, second, third, hidden, scores)
        if not _errors(labels[i], scores, error):
            continue
        seen[0] += 1
        before = seen[2]
        k0, k1 = keys[i, 0], keys[i, 1]
        below = math.sqrt(np.float64(square)) * _ONE
        for u in range(h):
            z = hidden[u]
            if z <= 0:
                continue
            slope = np.int64(0)
            for k in range(n_outputs):
                slope += error[k] * np.int64(weights[second + u * n_outputs + k])
            if slope != 0:
                size, counter = abs(slope), counters[u]
                for done in range(start, end, _CHUNK):
                    n = min(_CHUNK, end - done)
                    # A loop of its own, without branches, so that LLVM throws several dice at once.
                    for t in range(n):
                        x = abs(np.int64(values[done + t]))
                        chance = np.float64(size * x) / below / c_words
                        kept[t] = _below(siphash24_word(k0, k1, counter + np.uint64(bins[done + t])), chance)
                        seen[2] += np.float64(size * x) / below > c_words
                    for t in range(n):
                        if kept[t]:
                            side = plus if (slope > 0) == (values[done + t] > 0) else minus
                            side[np.int64(bins[done + t]) * h + u] += 1
                seen[1] += end - start + 1
                seen[2] += np.float64(size) / _ONE > c_hidden
                if _sent(k0, k1, counter + np.uint64(first // h), np.float64(size) / _ONE / c_hidden):
                    side = plus if slope > 0 else minus
                    side[first + u] += 1
            for k in range(n_outputs):
                if error[k] != 0:
                    value = np.float64(abs(error[k]) * z) / _ONE
                    seen[1] += 1
                    seen[2] += value > c_outputs
                    if _sent(k0, k1, counters[h + k] + np.uint64(u), value / c_outputs):
                        side = plus if error[k] > 0 else minus
                        side[second + u * n_outputs + k] += 1
        for k in range(n_outputs):
            if error[k] != 0:
                value = np.float64(abs(error[k]))
                seen[1] += 1
                seen[2] += value > c_last
                if _sent(k0, k1, counters[h + k] + np.uint64(h), value / c_last):
                    side = plus if error[k] > 0 else minus
                    side[third + k] += 1
        seen[3] += seen[2] > before
