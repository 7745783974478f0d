"""How far can a score be from what is known of it? The loops behind lazy scoring (``engine.lazy``).

The integer sums of everybody are known under a few *references*, weights of earlier rounds. New weights are a
combination of the references plus a remainder r, whatever the coefficients; so a new score is the same combination of
known sums, give or take Σ_c ‖x_c‖ ‖r_c‖, where c runs over *classes* of bins (bins of about one frequency). By
Cauchy-Schwarz that is a bound, and no guess. Whatever of it is a float is rounded up by more than floats can lose.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.layout import PEOPLE
from secvm_lab._kernels.lane_steps import broadcast, vectors

_LOCAL = np.uint64(0xFFFF)
_I32, _I64, _F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()


@compiled
def slot_units(groups, group_counts, starts, first_slots, some, counts):
    """Units in each slot of the people in some blocks."""
    for s in range(len(some)):
        for block in range(group_counts.shape[1]):
            at = starts[some[s], block]
            end = at
            for i in range(PEOPLE):
                end += group_counts[some[s], block, i]
            for group in range(at, end):
                four = groups[group]
                for _ in range(4):
                    counts[first_slots[block] + np.int64(four & _LOCAL)] += 1
                    four >>= np.uint64(16)


@compiled
def class_norms(
    groups, group_counts, starts, first_slots, cold_indptr, cold_slots, cold_values, classes, squares, first, last
):
    """Add the squared values of people in blocks ``first`` to ``last`` to ``squares``, people x classes.

    ``classes`` has dummies in a class of their own.
    """
    n_people = len(cold_indptr) - 1
    for people in range(first, last):
        low = people * PEOPLE
        high = min(n_people, low + PEOPLE)
        for block in range(group_counts.shape[1]):
            at = starts[people, block]
            for i in range(low, high):
                before, run = np.int64(-1), 0
                for group in range(at, at + group_counts[people, block, i - low]):
                    four = groups[group]
                    for _ in range(4):
                        slot = first_slots[block] + np.int64(four & _LOCAL)
                        # A value of v is its slot said v times: 1 + 3 + … + (2v - 1) = v².
                        run = run + 1 if slot == before else 0
                        squares[i, classes[slot]] += 2 * run + 1
                        before = slot
                        four >>= np.uint64(16)
                at += group_counts[people, block, i - low]
    for i in range(first * PEOPLE, min(n_people, last * PEOPLE)):
        for j in range(cold_indptr[i], cold_indptr[i + 1]):
            squares[i, classes[cold_slots[j]]] += np.float64(cold_values[j]) * np.float64(cold_values[j])


@intrinsic
def _add_square(typing_context, target, at, references, coefficients, out, row, lanes):
    """``out[row:row+L] +=`` the squares of one line of the remainder."""

    def generate(context, builder, signature, args):
        width = signature.args[6].count
        load, store, combined = vectors(context, builder, signature, args, width)
        target_line = builder.sitofp(load(0, args[1], _I32), ir.VectorType(_F64, width))
        rest = builder.fsub(target_line, combined(2, 3, args[1], _I32))
        store(builder.fadd(load(4, args[5], _F64), builder.fmul(rest, rest)), 4, args[5], _F64)
        return context.get_dummy_value()

    return types.void(target, at, references, coefficients, out, row, lanes), generate


@compiled
def remainder_squares(target, references, coefficients, classes, out, first, last, lanes):
    """Add Σ r² of lines ``first`` to ``last`` to ``out``, classes x lanes, flat."""
    width = np.uint64(len(lanes))
    for line in range(first, last):
        row = np.uint64(classes[line]) * width
        _add_square(target, np.uint64(line) * width, references, coefficients, out, row, lanes)


@intrinsic
def _verdict(
    typing_context,
    sums,
    at,
    coefficients,
    norms,
    place,
    n_classes,
    remainders,
    units,
    constants,
    sign,
    weights,
    own_at,
    own,
    lanes,
):
    """Bits of lanes that are surely below the threshold, and of those surely above, in one integer (below << 16)."""

    def generate(context, builder, signature, args):
        width = signature.args[13].count
        load, _, combined = vectors(context, builder, signature, args, width)
        floats = ir.VectorType(_F64, width)
        splat = partial(broadcast, builder, width=width)
        middle = combined(0, 2, args[1], _I32)
        own_line = builder.sitofp(load(10, args[11], _I32), floats)
        middle = builder.fadd(middle, builder.fmul(splat(args[12]), own_line))
        lowers, misses, slack = (load(8, _I64(row * width), _F64) for row in range(3))
        apart = builder.fsub(builder.fmul(splat(args[9]), middle), lowers)
        miss = builder.fadd(builder.fmul(splat(args[7]), misses), slack)
        # Σ over classes, in a loop: their number is not known to the compiler.
        bound = cgutils.alloca_once_value(builder, miss)
        norm_data = context.make_array(signature.args[3])(context, builder, args[3]).data
        with cgutils.for_range(builder, args[5], intp=_I64) as loop:
            norm = builder.fpext(builder.load(builder.gep(norm_data, [builder.add(args[4], loop.index)])), _F64)
            far = load(6, builder.mul(loop.index, _I64(width)), _F64)
            builder.store(builder.fadd(builder.load(bound), builder.fmul(splat(norm), far)), bound)
        bound = builder.load(bound)
        zero = ir.Constant(floats, [ir.Constant(_F64, 0.0)] * width)
        below = builder.fcmp_ordered("<", builder.fadd(apart, bound), zero)
        above = builder.fcmp_ordered(">", builder.fsub(apart, bound), zero)
        both = [builder.zext(builder.bitcast(b, ir.IntType(width)), _I32) for b in (below, above)]
        return builder.or_(builder.shl(both[0], _I32(16)), both[1])

    given = (sums, at, coefficients, norms, place, n_classes, remainders, units, constants, sign, weights, own_at, own)
    return types.uint32(*given, lanes), generate


@compiled
def judge(
    sums,
    coefficients,
    norms,
    remainders,
    n_classes,
    constants,
    units,
    most_units,
    signs,
    wanted,
    chosen,
    below,
    left_open,
    weights,
    own,
    own_first,
    first,
    last,
    lanes,
):
    """Bits of people whose signed score is surely below the lane's threshold, and bits left open.

    ``sums`` are one or more arrays of int32 lines, a line for each of ``chosen``; their combination is the score.
    ``norms``, people x classes, and ``remainders``, classes x lanes, bound what it misses; ``constants`` are lines of
    thresholds, of what may be missed for each unit, and of what floats lose. Sums are without people's own words:
    ``own`` says how many each has (or is empty), and their line of ``weights``, counted from ``own_first``, is exact.
    """
    width = np.uint64(len(lanes))
    for c in range(first, last):
        i = chosen[c]
        here = np.uint32(wanted[i])
        below[i] = 0
        left_open[i] = 0
        if here == 0:
            continue
        if units[i] > most_units:
            left_open[i] = here
            continue
        both = _verdict(
            sums,
            np.uint64(c) * width,
            coefficients,
            norms,
            np.uint64(i) * np.uint64(norms.shape[1]),
            np.uint64(n_classes),
            remainders,
            np.float64(units[i]),
            constants,
            np.float64(signs[i]),
            weights,
            np.uint64(own_first + i) * width if len(own) else np.uint64(0),
            np.float64(own[i]) if len(own) else 0.0,
            lanes,
        )
        sure = both >> np.uint32(16)
        below[i] = sure & here
        left_open[i] = here & ~(sure | both)
