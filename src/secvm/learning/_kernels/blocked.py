"""The compiled loops over the blocked layout: scores, and counts of units.

Every loop is over integers and exact, so neither the order of blocks nor the number of threads shows in a result.
``lanes`` is a tuple of as many zeros as models are handled at once: its length is known to the compiler.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import add_four_lines, add_line, compiled, prefetch
from secvm.learning._kernels.layout import PEOPLE

_ONE = np.uint64(1)
_LOCAL = np.uint64(0xFFFF)
_SECOND = np.uint64(16)
_THIRD = np.uint64(32)
_FOURTH = np.uint64(48)
#: No group of four looks like this: a local number is below 2^16 - 1.
_NEVER = np.uint64(2**64 - 1)
#: Segments of people who send nothing are jumped over, which the CPU's own prefetcher does not follow. Eight people
#: ahead and four lines of 64 bytes (eight groups each) were the best of those tried: a quarter less time.
_AHEAD = 8
_LINES = (np.uint64(0), np.uint64(8), np.uint64(16), np.uint64(24))
#: A count holds units of + in its lower 16 bits and units of - in its upper ones.
_MINUS_SHIFT = np.uint32(16)
_PLUS_MASK = np.uint32(0xFFFF)


@compiled
def interleave(mantissas, slots, stride, weights):
    """Mantissas, models x bins, as weights, slots x stride. Bin after bin, so that one line is written at a time."""
    for bin_index in range(len(slots)):
        line = np.int64(slots[bin_index]) * stride
        for model in range(mantissas.shape[0]):
            weights[line + model] = mantissas[model, bin_index]


@compiled
def score_one(
    groups, group_counts, starts, first_slots, cold_indptr, cold_slots, cold_values, weights, bias, out, first, last
):
    """Scores under one model of the people in blocks ``first`` to ``last``."""
    for people in range(first, last):
        low = people * PEOPLE
        high = min(len(out), low + PEOPLE)
        for i in range(low, high):
            total = np.int64(bias)
            for j in range(cold_indptr[i], cold_indptr[i + 1]):
                value = cold_values[j]
                if value == 0:  # never; see below
                    break
                total += np.int64(weights[cold_slots[j]]) * value
            out[i] = total
        for block in range(group_counts.shape[1]):
            local_weights = weights[first_slots[block] :]
            at = np.uint64(starts[people, block])
            for i in range(low, high):
                end = at + np.uint64(group_counts[people, block, i - low])
                a = b = c = d = np.int64(0)
                while at < end:
                    four = groups[at]
                    # Never true. A loop whose end depends on the data is not vectorised: LLVM would emit gathers,
                    # which are slower than four scalar sums.
                    if four == _NEVER:
                        break
                    a += local_weights[four & _LOCAL]
                    b += local_weights[(four >> _SECOND) & _LOCAL]
                    c += local_weights[(four >> _THIRD) & _LOCAL]
                    d += local_weights[four >> _FOURTH]
                    at += _ONE
                out[i] += (a + b) + (c + d)


@compiled
def score_lanes(
    groups,
    group_counts,
    starts,
    first_slots,
    cold_indptr,
    cold_slots,
    cold_values,
    weights,
    bias,
    out,
    first,
    last,
    lanes,
):
    """Scores under ``len(lanes)`` models; one line of weights per bin serves all of them."""
    stride = np.uint64(len(lanes))
    for people in range(first, last):
        low = people * PEOPLE
        high = min(len(out), low + PEOPLE)
        for i in range(low, high):
            for k in range(len(lanes)):
                out[i, k] = bias[k]
            for j in range(cold_indptr[i], cold_indptr[i + 1]):
                line = np.uint64(cold_slots[j]) * stride
                value = np.int64(cold_values[j])
                for k in range(len(lanes)):
                    out[i, k] += weights[line + np.uint64(k)] * value
        for block in range(group_counts.shape[1]):
            local_weights = weights[first_slots[block] * len(lanes) :]
            at = np.uint64(starts[people, block])
            for i in range(low, high):
                end = at + np.uint64(group_counts[people, block, i - low])
                sums = out[i]
                while at < end:
                    four = groups[at]
                    add_four_lines(
                        sums,
                        local_weights,
                        (four & _LOCAL) * stride,
                        ((four >> _SECOND) & _LOCAL) * stride,
                        ((four >> _THIRD) & _LOCAL) * stride,
                        (four >> _FOURTH) * stride,
                        lanes,
                    )
                    at += _ONE


@compiled
def find_segments(group_counts, starts, people, block, positions):
    """First group of each segment of a pair of blocks, and one past the last."""
    at = np.uint64(starts[people, block])
    for i in range(PEOPLE):
        positions[i] = at
        at += np.uint64(group_counts[people, block, i])
    positions[PEOPLE] = at


@compiled
def ask_ahead(groups, positions, active, j, last):
    """Prefetch the segment of a person who comes soon."""
    soon = positions[active[min(j + _AHEAD, last - 1)] % PEOPLE]
    for line in _LINES:
        prefetch(groups, soon + line)


@compiled
def count_one(groups, group_counts, starts, block, first, last, active, firsts, units, counts):
    """Add the units of active people to the packed counts of one block of bins.

    ``active`` are the people with a coefficient, ``firsts`` where each block of people begins in it, ``units`` what
    each adds to a count: 1 for a sign of +, 2^16 for -.
    """
    positions = np.empty(PEOPLE + 1, np.uint64)
    for people in range(first, last):
        find_segments(group_counts, starts, people, block, positions)
        for j in range(firsts[people], firsts[people + 1]):
            ask_ahead(groups, positions, active, j, firsts[people + 1])
            i = np.uint64(active[j] % PEOPLE)
            unit = units[j]
            at, end = positions[i], positions[i + _ONE]
            while at < end:
                four = groups[at]
                counts[four & _LOCAL] += unit
                counts[(four >> _SECOND) & _LOCAL] += unit
                counts[(four >> _THIRD) & _LOCAL] += unit
                counts[four >> _FOURTH] += unit
                at += _ONE


@compiled
def count_lanes(groups, group_counts, starts, block, first, last, active, firsts, units, counts, lanes):
    """As ``count_one`` for ``len(lanes)`` models: ``units`` and ``counts`` have a line for each person and bin."""
    stride = np.uint64(len(lanes))
    positions = np.empty(PEOPLE + 1, np.uint64)
    for people in range(first, last):
        find_segments(group_counts, starts, people, block, positions)
        for j in range(firsts[people], firsts[people + 1]):
            ask_ahead(groups, positions, active, j, firsts[people + 1])
            i = np.uint64(active[j] % PEOPLE)
            line = np.uint64(j) * stride
            at, end = positions[i], positions[i + _ONE]
            while at < end:
                four = groups[at]
                add_line(counts, (four & _LOCAL) * stride, units, line, lanes)
                add_line(counts, ((four >> _SECOND) & _LOCAL) * stride, units, line, lanes)
                add_line(counts, ((four >> _THIRD) & _LOCAL) * stride, units, line, lanes)
                add_line(counts, (four >> _FOURTH) * stride, units, line, lanes)
                at += _ONE


@compiled
def unpack(counts, stride, bins, plus, minus):
    """Add packed counts, bins of a block x stride, to the tally, models x bins."""
    for local in range(len(bins)):
        for model in range(plus.shape[0]):
            count = counts[local * stride + model]
            plus[model, bins[local]] += count & _PLUS_MASK
            minus[model, bins[local]] += count >> _MINUS_SHIFT


@compiled
def count_any(groups, group_counts, starts, block, first, last, active, firsts, amounts, side):
    """As ``count_one`` for any coefficients of one sign, given as amounts: int64 counts, not packed."""
    positions = np.empty(PEOPLE + 1, np.uint64)
    for people in range(first, last):
        find_segments(group_counts, starts, people, block, positions)
        for j in range(firsts[people], firsts[people + 1]):
            i = np.uint64(active[j] % PEOPLE)
            amount = amounts[j]
            at, end = positions[i], positions[i + _ONE]
            while at < end:
                four = groups[at]
                side[four & _LOCAL] += amount
                side[(four >> _SECOND) & _LOCAL] += amount
                side[(four >> _THIRD) & _LOCAL] += amount
                side[four >> _FOURTH] += amount
                at += _ONE


@compiled
def add_side(side, bins, total):
    """Add the counts of a block's bins to one model's tally of one sign."""
    for local in range(len(bins)):
        total[bins[local]] += side[local]


@compiled
def count_cold(cold_indptr, cold_slots, cold_values, bin_of_slot, coefficients, low, high, plus, minus):
    """Add the cold entries of people ``low`` to ``high`` to one model's tally, for any coefficients."""
    for i in range(low, high):
        coefficient = np.int64(coefficients[i])
        if coefficient == 0:
            continue
        for j in range(cold_indptr[i], cold_indptr[i + 1]):
            units = coefficient * cold_values[j]
            bin_index = bin_of_slot[cold_slots[j]]
            if units > 0:
                plus[bin_index] += units
            else:
                minus[bin_index] -= units
