"""Many models in one pass: the loops over people and bins of the sweep (``secvm_lab.engine``).

Sixteen models stand side by side: a *line* holds one number of each, and sixteen int32 are one cache line. ``lanes`` is
a tuple of zeros as long as a line; its length is known to the compiler. The layout is that of ``layout``, and one line
more than it has slots: the last is the bias.

1. Weights come as int32 *shortened* so that nobody's sum can leave 32 bits; by how much a shortened sum may miss the
   true one is known (half a unit for each unit of a person), so most verdicts are certain, and the rest are left open.
2. Open verdicts are settled by the true mantissas in int64, made from the state person by person.
3. Counts are int32: the sweep has checked that a bin's total fits. A person's verdicts are 16 bits of one uint16; only
   people with a bit that changed are counted, up or down.

Everything is an integer: no order, no thread and no vector width shows in a result. Arrays of lines begin at a multiple
of 64 bytes (``lines``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from secvm.learning._kernels.blocked import ask_ahead, find_segments
from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.layout import PEOPLE
from secvm_lab._kernels.lane_steps import add_mantissas

_LOCAL = np.uint64(0xFFFF)
#: Bytes of a cache line.
_ALIGNMENT = 64


def lines(n: int, lanes: int, dtype: DTypeLike) -> NDArray[Any]:
    """Zeros for ``n`` lines, flat, aligned to a cache line: an unaligned line would be two loads."""
    size = n * lanes * np.dtype(dtype).itemsize
    room = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size].view(dtype)


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _line(builder, base, index, vector):
    """Pointer to the line that begins at element ``index``, and its alignment."""
    return builder.bitcast(builder.gep(base, [index]), vector.as_pointer()), 4 * vector.count


def _each_local(builder, groups, at, end, use):
    """Call ``use(k, local number)`` for the four local numbers of every group from ``at`` to ``end``."""
    i64 = ir.IntType(64)
    with cgutils.for_range_slice(builder, at, end, i64(1), i64) as (i, _):
        four = builder.load(builder.gep(groups, [i]))
        for k in range(4):
            local = builder.lshr(four, i64(16 * k)) if k else four
            use(k, local if k == 3 else builder.and_(local, i64(0xFFFF)))


@intrinsic
def add_segment(typing_context, sums, row, weights, base, groups, at, end, lanes):
    """``sums[row:row+L] +=`` the lines of int32 weights that a segment names, counted from line ``base``.

    Four sums run side by side in registers. Written as LLVM's vectors: left to itself LLVM emits gathers.
    """

    def generate(context, builder, signature, args):
        width = signature.args[7].count
        i64, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), width)
        sums_at, weights_at, groups_at = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4))
        shift = i64(width.bit_length() - 1)
        first = builder.gep(weights_at, [builder.shl(args[3], shift)])
        partial = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(4)]

        def add(k, local):
            pointer, align = _line(builder, first, builder.shl(local, shift), vector)
            builder.store(builder.add(builder.load(partial[k]), builder.load(pointer, align=align)), partial[k])

        _each_local(builder, groups_at, args[5], args[6], add)
        a, b, c, d = (builder.load(p) for p in partial)
        target, align = _line(builder, sums_at, args[1], vector)
        whole = builder.add(builder.load(target, align=align), builder.add(builder.add(a, b), builder.add(c, d)))
        builder.store(whole, target, align=align)
        return context.get_dummy_value()

    return types.void(sums, row, weights, base, groups, at, end, lanes), generate


@intrinsic
def count_segment(typing_context, counts, base, units, row, groups, at, end, lanes):
    """Add ``units[row:row+L]`` to each line of int32 counts that a segment names, counted from line ``base``."""

    def generate(context, builder, signature, args):
        width = signature.args[7].count
        i64, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), width)
        counts_at, units_at, groups_at = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4))
        shift = i64(width.bit_length() - 1)
        first = builder.gep(counts_at, [builder.shl(args[1], shift)])
        pointer, align = _line(builder, units_at, args[3], vector)
        unit = builder.load(pointer, align=align)

        def add(_, local):
            target, align = _line(builder, first, builder.shl(local, shift), vector)
            builder.store(builder.add(builder.load(target, align=align), unit), target, align=align)

        _each_local(builder, groups_at, args[5], args[6], add)
        return context.get_dummy_value()

    return types.void(counts, base, units, row, groups, at, end, lanes), generate


@compiled
def score_people(
    groups, group_counts, starts, first_slots, cold_indptr, cold_slots, cold_values, weights, sums, first, last, lanes
):
    """Shortened sums of the people in blocks ``first`` to ``last``; the bias is the last line of weights."""
    width = len(lanes)
    stride = np.uint64(width)
    n_people = len(cold_indptr) - 1
    bias = len(weights) - width
    for people in range(first, last):
        low = people * PEOPLE
        high = min(n_people, low + PEOPLE)
        for i in range(low, high):
            for k in range(width):
                sums[i * width + k] = weights[bias + k]
            for j in range(cold_indptr[i], cold_indptr[i + 1]):
                line = np.int64(cold_slots[j]) * width
                value = np.int32(cold_values[j])
                for k in range(width):
                    # Wraps where it must: the whole sum fits, so it comes back.
                    sums[i * width + k] += np.int32(weights[line + k] * value)
        for block in range(group_counts.shape[1]):
            base = np.uint64(first_slots[block])
            at = np.uint64(starts[people, block])
            for i in range(low, high):
                end = at + np.uint64(group_counts[people, block, i - low])
                add_segment(sums, np.uint64(i) * stride, weights, base, groups, at, end, lanes)
                at = end


@compiled
def score_some(
    groups,
    group_counts,
    starts,
    first_slots,
    cold_indptr,
    cold_slots,
    cold_values,
    weights,
    chosen,
    firsts,
    sums,
    first,
    last,
    lanes,
):
    """As ``score_people`` for chosen people of blocks ``first`` to ``last``; a line of ``sums`` for each of them.

    ``firsts`` says where each block of people begins in ``chosen``.
    """
    width = len(lanes)
    stride = np.uint64(width)
    bias = len(weights) - width
    for c in range(firsts[first], firsts[last]):
        for k in range(width):
            sums[c * width + k] = weights[bias + k]
        for j in range(cold_indptr[chosen[c]], cold_indptr[chosen[c] + 1]):
            line = np.int64(cold_slots[j]) * width
            value = np.int32(cold_values[j])
            for k in range(width):
                sums[c * width + k] += np.int32(weights[line + k] * value)
    positions = np.empty(PEOPLE + 1, np.uint64)
    # Few people of a block are chosen, so it is the weights of a block of bins that should stay near.
    for block in range(group_counts.shape[1]):
        base = np.uint64(first_slots[block])
        for people in range(first, last):
            if firsts[people] == firsts[people + 1]:
                continue
            find_segments(group_counts, starts, people, block, positions)
            for c in range(firsts[people], firsts[people + 1]):
                ask_ahead(groups, positions, chosen, c, firsts[people + 1])
                here = chosen[c] % PEOPLE
                add_segment(
                    sums, np.uint64(c) * stride, weights, base, groups, positions[here], positions[here + 1], lanes
                )


@compiled
def true_scores(
    groups,
    group_counts,
    starts,
    first_slots,
    cold_indptr,
    cold_slots,
    cold_values,
    state,
    bits,
    chosen,
    out,
    first,
    last,
    lanes,
):
    """Integer scores, as all the world computes them, of the people ``chosen[first:last]``.

    ``state`` are int64 lines and ``bits`` what each lane's mantissas leave out of them.
    """
    width = np.uint64(len(lanes))
    positions = np.empty(PEOPLE + 1, np.uint64)
    for c in range(first, last):
        i = chosen[c]
        people, place = i // PEOPLE, i % PEOPLE
        row = np.uint64(c) * width
        add_mantissas(out, row, state, np.uint64(len(state)) - width, bits, np.int64(1), lanes)
        for j in range(cold_indptr[i], cold_indptr[i + 1]):
            line = np.uint64(cold_slots[j]) * width
            add_mantissas(out, row, state, line, bits, np.int64(cold_values[j]), lanes)
        for block in range(group_counts.shape[1]):
            find_segments(group_counts, starts, people, block, positions)
            base = np.uint64(first_slots[block])
            for group in range(positions[place], positions[place + 1]):
                four = groups[group]
                for _ in range(4):
                    add_mantissas(out, row, state, (base + (four & _LOCAL)) * width, bits, np.int64(1), lanes)
                    four >>= np.uint64(16)


@compiled
def add_own_scores(own, first_line, state, bits, chosen, out, first, last, lanes):
    """Add to true scores what people's own words weigh: their counter's mantissa, so many times."""
    width = np.uint64(len(lanes))
    for c in range(first, last):
        i = chosen[c]
        line = np.uint64(first_line + i) * width
        add_mantissas(out, np.uint64(c) * width, state, line, bits, np.int64(own[i]), lanes)


@compiled
def count_own(own, first_line, active, units, counts, width):
    """Add the units of active people to their own counters; once, however many own words there are."""
    for a in range(len(active)):
        i = active[a]
        if own[i] > 0:
            line = (first_line + i) * width
            for k in range(width):
                counts[line + k] += units[a * width + k]


@compiled
def settle(scores, chosen, signs, lowers, left_open, violates):
    """Write the verdicts that were left open, from true scores."""
    for c in range(len(chosen)):
        i = chosen[c]
        bits = np.uint32(violates[i])
        for k in range(scores.shape[1]):
            if np.uint32(left_open[i]) >> np.uint32(k) & np.uint32(1):
                bits |= np.uint32(signs[i] * scores[c, k] < lowers[k]) << np.uint32(k)
        violates[i] = bits


@compiled
def changes(now, then, active, units, width):
    """For each active person a line: 1 where a verdict is new, -1 where it is no longer, else 0."""
    for a in range(len(active)):
        i = active[a]
        for k in range(width):
            units[a * width + k] = np.int32((now[i] >> k) & 1) - np.int32((then[i] >> k) & 1)


@compiled
def count_people(groups, group_counts, starts, first_slots, block, active, firsts, units, counts, offset, lanes):
    """Add the units of active people to the counts of one block of bins, which begin at line ``offset``.

    ``firsts`` says where each block of people begins in ``active``. All of them are of one side: the counts of both
    would not stay near together.
    """
    stride = np.uint64(len(lanes))
    base = np.uint64(first_slots[block] + offset)
    positions = np.empty(PEOPLE + 1, np.uint64)
    for people in range(group_counts.shape[0]):
        if firsts[people] == firsts[people + 1]:
            continue
        find_segments(group_counts, starts, people, block, positions)
        for a in range(firsts[people], firsts[people + 1]):
            ask_ahead(groups, positions, active, a, firsts[people + 1])
            here = active[a] % PEOPLE
            row = np.uint64(a) * stride
            count_segment(counts, base, units, row, groups, positions[here], positions[here + 1], lanes)


@compiled
def count_cold(cold_indptr, cold_slots, cold_values, active, units, side, counts, half, width):
    """As ``count_people`` for cold entries; a negative value is a unit of the other side.

    Counts are two halves of ``half`` lines: units of + (side 0), then of - (side 1).
    """
    for a in range(len(active)):
        i = active[a]
        for j in range(cold_indptr[i], cold_indptr[i + 1]):
            value = cold_values[j]
            line = (np.int64(cold_slots[j]) + (side if value > 0 else 1 - side) * half) * width
            for k in range(width):
                counts[line + k] += np.int32(units[a * width + k] * abs(value))


@compiled
def cold_units(cold_indptr, cold_slots, cold_values, of_person, of_slot):
    """Add the units of cold entries to each person's and each slot's."""
    for i in range(len(cold_indptr) - 1):
        for j in range(cold_indptr[i], cold_indptr[i + 1]):
            units = abs(np.int64(cold_values[j]))
            of_person[i] += units
            of_slot[cold_slots[j]] += units


@compiled
def count_lanes(bits, chosen_bits, out):
    """How many people have each lane's bit, among those ``chosen_bits`` names by a bit; per lane."""
    for i in range(len(bits)):
        both = np.uint32(bits[i]) & np.uint32(chosen_bits[i])
        for k in range(len(out)):
            out[k] += np.int64((both >> np.uint32(k)) & np.uint32(1))
