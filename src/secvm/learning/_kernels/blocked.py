"""The compiled loops over the blocked layout: scores, and counts of units.

Every loop is over integers and exact, so neither the order of blocks nor the number of threads shows in a result.

Several models stand side by side: a *line* holds one number of each. ``lanes`` is a tuple of as many zeros as there
are models, a power of two: its length is known to the compiler. What is done to a line is written as LLVM's vectors:
left to itself LLVM takes lanes one by one, or emits gathers.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from secvm.learning._kernels.compiling import compiled, element, prefetch
from secvm.learning._kernels.layout import PEOPLE

_I64 = ir.IntType(64)
#: No group of four looks like this: a local number is below 2^16 - 1.
_NEVER = _I64(2**64 - 1)
#: A sum of a line may be of so many bits that four of them stay in registers.
_REGISTERS_BITS = 512
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


def _line(builder, base, line, shift, vector):
    """Pointer to the line of this number, counted from ``base``, and what alignment it has: an element's."""
    at = builder.gep(base, [builder.shl(line, shift)])
    return builder.bitcast(at, vector.as_pointer()), vector.element.width // 8


def _each_group(builder, groups, at, end, lanes, use):
    """Call ``use`` with the four local numbers of every group from ``at`` to ``end``."""
    with cgutils.for_range(builder, builder.sub(end, at), intp=_I64) as loop:
        four = builder.load(builder.gep(groups, [builder.add(at, loop.index)]))
        if lanes == 1:
            # Never true. A loop whose end depends on the data is not vectorised: LLVM would emit gathers, which are
            # slower than four scalar sums.
            with builder.if_then(builder.icmp_unsigned("==", four, _NEVER)):
                loop.do_break()
        shifted = [four, *(builder.lshr(four, _I64(16 * k)) for k in (1, 2, 3))]
        use([*(builder.and_(local, _I64(0xFFFF)) for local in shifted[:3]), shifted[3]])


def _segment(context, builder, signature, args):
    """Of both operations on a segment: the array that is written, the one that is read and the groups, as pointers, the
    vector of a line of each of the first two, and by how much a line's number is shifted to become an element's.
    """
    width = signature.args[7].count
    arrays = [element(context, builder, signature.args[k], args[k], _I64(0)) for k in (0, 2, 4)]
    vectors = [ir.VectorType(ir.IntType(signature.args[k].dtype.bitwidth), width) for k in (0, 2)]
    return arrays, vectors, _I64(width.bit_length() - 1)


@intrinsic
def add_segment(typing_context, sums, row, weights, base, groups, at, end, lanes):
    """``sums`` of line ``row`` += the lines of weights that a segment names, counted from line ``base``."""

    def generate(context, builder, signature, args):
        (sums_at, weights_at, groups_at), (wide, vector), shift = _segment(context, builder, signature, args)
        first = builder.gep(weights_at, [builder.shl(args[3], shift)])
        # Side by side in registers: four where they fit.
        n_partial = 4 if wide.count * wide.element.width <= _REGISTERS_BITS else 1
        partial = [cgutils.alloca_once_value(builder, ir.Constant(wide, None)) for _ in range(n_partial)]

        def add(local_numbers):
            for k, local in enumerate(local_numbers):
                pointer, align = _line(builder, first, local, shift, vector)
                line = builder.load(pointer, align=align)
                line = line if wide == vector else builder.sext(line, wide)
                total = partial[k % n_partial]
                builder.store(builder.add(builder.load(total), line), total)

        _each_group(builder, groups_at, args[5], args[6], wide.count, add)
        target, align = _line(builder, sums_at, args[1], shift, wide)
        whole = builder.load(target, align=align)
        for total in partial:
            whole = builder.add(whole, builder.load(total))
        builder.store(whole, target, align=align)
        return context.get_dummy_value()

    return types.void(sums, row, weights, base, groups, at, end, lanes), generate


@intrinsic
def count_segment(typing_context, counts, base, units, row, groups, at, end, lanes):
    """Add line ``row`` of units to each line of counts that a segment names, counted from line ``base``."""

    def generate(context, builder, signature, args):
        (counts_at, units_at, groups_at), (vector, _), shift = _segment(context, builder, signature, args)
        first = builder.gep(counts_at, [builder.shl(args[1], shift)])
        pointer, align = _line(builder, units_at, args[3], shift, vector)
        unit = builder.load(pointer, align=align)

        def add(local_numbers):
            for local in local_numbers:
                target, _ = _line(builder, first, local, shift, vector)
                builder.store(builder.add(builder.load(target, align=align), unit), target, align=align)

        _each_group(builder, groups_at, args[5], args[6], vector.count, add)
        return context.get_dummy_value()

    return types.void(counts, base, units, row, groups, at, end, lanes), generate


@compiled
def score_people(
    groups, group_counts, starts, first_slots, cold_indptr, cold_slots, cold_values, weights, sums, first, last, lanes
):
    """Sums of the people in blocks ``first`` to ``last``, a line each; the bias is the last line of weights.

    Sums may be of more bits than weights. Where they are not they wrap, and come back if the whole sum fits.
    """
    width = len(lanes)
    n_people = len(cold_indptr) - 1
    bias = len(weights) - width
    for people in range(first, last):
        low = people * PEOPLE
        high = min(n_people, low + PEOPLE)
        for i in range(low, high):
            if width == 1:  # the sum stays in a register
                total = np.int64(weights[bias])
                for j in range(cold_indptr[i], cold_indptr[i + 1]):
                    value = cold_values[j]
                    if value == 0:  # never; see above
                        break
                    total += np.int64(weights[cold_slots[j]]) * value
                sums[i] = total
                continue
            for k in range(width):
                sums[i * width + k] = weights[bias + k]
            for j in range(cold_indptr[i], cold_indptr[i + 1]):
                line = np.uint64(cold_slots[j]) * np.uint64(width)
                value = np.int64(cold_values[j])
                for k in range(width):
                    sums[i * width + k] += weights[line + np.uint64(k)] * value
        for block in range(group_counts.shape[1]):
            base = np.uint64(first_slots[block])
            at = np.uint64(starts[people, block])
            for i in range(low, high):
                end = at + np.uint64(group_counts[people, block, i - low])
                add_segment(sums, np.uint64(i), weights, base, groups, at, end, lanes)
                at = end


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
def count_people(groups, group_counts, starts, block, first, last, active, firsts, units, counts, base, lanes):
    """Add the units of active people in blocks ``first`` to ``last`` to the counts of one block of bins.

    ``active`` are the people with a coefficient, ``firsts`` where each block of people begins in it, ``units`` a line
    of what each adds. The counts of the block begin at line ``base``.
    """
    positions = np.empty(PEOPLE + 1, np.uint64)
    for people in range(first, last):
        if firsts[people] == firsts[people + 1]:
            continue
        find_segments(group_counts, starts, people, block, positions)
        for j in range(firsts[people], firsts[people + 1]):
            ask_ahead(groups, positions, active, j, firsts[people + 1])
            here = active[j] % PEOPLE
            count_segment(
                counts, np.uint64(base), units, np.uint64(j), groups, positions[here], positions[here + 1], lanes
            )


@compiled
def unpack(counts, stride, bins, plus, minus):
    """Add packed counts, bins of a block x stride, to the tally, models x bins."""
    for local in range(len(bins)):
        for model in range(plus.shape[0]):
            count = counts[local * stride + model]
            plus[model, bins[local]] += count & _PLUS_MASK
            minus[model, bins[local]] += count >> _MINUS_SHIFT


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
