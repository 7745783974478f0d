"""The step of Pegasos for many models at once, line by line; ``learning.arithmetic`` is the specification.

``secvm_lab.engine`` checks all ranges first; these loops assume them. They are written as LLVM's vectors of integers:
left to itself LLVM takes a line number by number, five times slower.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from secvm.learning._kernels.compiling import compiled

_I32, _I64, _F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()


def vectors(context, builder, signature, args, width):
    """(load, store, combined) of lines: ``load(k, index, type)`` takes argument k, an array, at an element."""

    def pointer(array_type, array, index, element):
        data = context.make_array(array_type)(context, builder, array).data
        at = builder.gep(data, [index])
        return builder.bitcast(at, ir.VectorType(element, width).as_pointer()), element_bytes(element)

    def load(k, index, element):
        at, align = pointer(signature.args[k], args[k], index, element)
        return builder.load(at, align=align)

    def store(value, k, index, element):
        at, align = pointer(signature.args[k], args[k], index, element)
        builder.store(value, at, align=align)

    def combined(known, coefficients, index, element):
        """Σ coefficient * known line, in float64."""
        floats, parts = ir.VectorType(_F64, width), signature.args[known]
        total = ir.Constant(floats, [ir.Constant(_F64, 0.0)] * width)
        for part in range(parts.count):
            at, align = pointer(parts.dtype, builder.extract_value(args[known], part), index, element)
            line = builder.sitofp(builder.load(at, align=align), floats)
            total = builder.fadd(total, builder.fmul(line, load(coefficients, _I64(part * width), _F64)))
        return total

    return load, store, combined


def element_bytes(element):
    """What alignment may be assumed: one element's."""
    return 4 if element == _I32 else 8


def broadcast(builder, value, width):
    """A number on every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(builder.insert_element(undefined, value, _I32(0)), undefined, mask)


def _splat(value, width):
    return ir.Constant(ir.VectorType(_I64, width), [value] * width)


@intrinsic
def _step_line(typing_context, counts, minus_at, older, newer, at, factors, guesses, largest, lanes):
    """One line of ``step``."""

    def generate(context, builder, signature, args):
        width = signature.args[8].count
        wide = ir.VectorType(_I64, width)
        load, store, _ = vectors(context, builder, signature, args, width)
        zero = _I64(0)
        ups, downs, ps, qs = (load(5, _I64(row * width), _I64) for row in range(4))
        plus = builder.sext(load(0, args[4], _I32), wide)
        minus = builder.sext(load(0, args[1], _I32), wide)
        numerator = builder.mul(builder.sub(builder.mul(ups, plus), builder.mul(downs, minus)), ps)
        floats = ir.VectorType(_F64, width)
        guess = builder.fmul(builder.sitofp(numerator, floats), load(6, zero, _F64))
        value = builder.fptosi(guess, wide)
        # The guess is off by less than a quarter and then cut off, so the remainder lies between -1/4 and 5/4 of q,
        # counted in the direction of the cut: one step in the direction of the remainder puts it right.
        rest = builder.sub(builder.shl(numerator, _splat(32, width)), builder.mul(value, qs))
        negative = builder.ashr(rest, _splat(63, width))  # -1 or 0
        toward = builder.or_(negative, _splat(1, width))  # -1 or 1
        size = builder.mul(rest, toward)
        twice = builder.shl(size, _splat(1, width))
        odd = builder.trunc(builder.and_(value, _splat(1, width)), ir.VectorType(ir.IntType(1), width))
        beyond = builder.or_(
            builder.icmp_signed(">", twice, qs), builder.and_(builder.icmp_signed("==", twice, qs), odd)
        )
        value = builder.add(value, builder.mul(toward, builder.zext(beyond, wide)))
        value = builder.add(value, load(2, args[4], _I64))
        store(value, 3, args[4], _I64)
        minus_value = builder.sub(ir.Constant(wide, None), value)
        size = builder.select(builder.icmp_signed("<", value, minus_value), minus_value, value)
        before = load(7, zero, _I64)
        store(builder.select(builder.icmp_signed("<", before, size), size, before), 7, zero, _I64)
        return context.get_dummy_value()

    return types.void(counts, minus_at, older, newer, at, factors, guesses, largest, lanes), generate


@compiled
def step(counts, half, older, newer, factors, guesses, largest, first, last, lanes):
    """Newer = older + round_half_even(2^32 * (up N⁺ - down N⁻) * p / q), lines ``first`` to ``last``.

    ``factors`` are lines of ups, downs, numerators and denominators, ``guesses`` the floats 2^32 / q. ``largest``
    becomes each lane's greatest absolute value. Needs |numerator * p| < 2^30 and a quotient below 2^49.
    """
    width = np.uint64(len(lanes))
    for line in range(first, last):
        at = np.uint64(line) * width
        _step_line(counts, at + np.uint64(half) * width, older, newer, at, factors, guesses, largest, lanes)


def _mantissas(builder, value, cut, width):
    """round_half_even(value / 2^cut), 0 <= cut < 63."""
    wide, one = ir.VectorType(_I64, width), _splat(1, width)
    whole = builder.ashr(value, cut)
    rest = builder.sub(value, builder.shl(whole, cut))
    half = builder.lshr(builder.shl(one, cut), one)
    odd = builder.trunc(whole, ir.VectorType(ir.IntType(1), width))
    up = builder.or_(builder.icmp_signed(">", rest, half), builder.and_(builder.icmp_signed("==", rest, half), odd))
    # With nothing cut off, rest and half are both 0, which is no tie.
    up = builder.and_(up, builder.icmp_signed(">", cut, ir.Constant(wide, None)))
    return builder.add(whole, builder.zext(up, wide))


@intrinsic
def add_mantissas(typing_context, sums, row, state, at, bits, value, lanes):
    """``sums[row:row+L] += value *`` the mantissas of a line of the state, which leave ``bits`` out; all int64."""

    def generate(context, builder, signature, args):
        width = signature.args[6].count
        load, store, _ = vectors(context, builder, signature, args, width)
        mantissas = _mantissas(builder, load(2, args[3], _I64), load(4, _I64(0), _I64), width)
        values = builder.mul(mantissas, broadcast(builder, args[5], width))
        store(builder.add(load(0, args[1], _I64), values), 0, args[1], _I64)
        return context.get_dummy_value()

    return types.void(sums, row, state, at, bits, value, lanes), generate


@intrinsic
def _shorten_line(typing_context, state, at, bits, shorter, weights, lanes):
    """One line of ``shorten``."""

    def generate(context, builder, signature, args):
        width = signature.args[5].count
        load, store, _ = vectors(context, builder, signature, args, width)
        zero, one = _I64(0), _splat(1, width)
        value, cut, more = load(0, args[1], _I64), load(2, zero, _I64), load(3, zero, _I64)
        mantissa = _mantissas(builder, value, cut, width)
        short = builder.ashr(builder.add(mantissa, builder.lshr(builder.shl(one, more), one)), more)
        store(builder.trunc(short, ir.VectorType(_I32, width)), 4, args[1], _I32)
        return context.get_dummy_value()

    return types.void(state, at, bits, shorter, weights, lanes), generate


@compiled
def shorten(state, bits, shorter, weights, first, last, lanes):
    """Shortened weights: mantissas (``bits`` left out, half to even), then ``shorter`` bits more, half up."""
    width = np.uint64(len(lanes))
    for line in range(first, last):
        _shorten_line(state, np.uint64(line) * width, bits, shorter, weights, lanes)


@intrinsic
def _mean_line(typing_context, states, at, factors, weights, largest, lanes):
    """One line of ``mean``."""

    def generate(context, builder, signature, args):
        width = signature.args[5].count
        load, store, combined = vectors(context, builder, signature, args, width)
        floats = ir.VectorType(_F64, width)
        total = combined(0, 2, args[1], _I64)
        # Half away from zero: add a half with the sign of the number, then cut off.
        half, minus_half = (ir.Constant(floats, [ir.Constant(_F64, h)] * width) for h in (0.5, -0.5))
        zero = ir.Constant(floats, [ir.Constant(_F64, 0.0)] * width)
        negative = builder.fcmp_ordered("<", total, zero)
        shift = builder.select(negative, minus_half, half)
        size, before = builder.select(negative, builder.fsub(zero, total), total), load(4, _I64(0), _F64)
        store(builder.select(builder.fcmp_ordered("<", before, size), size, before), 4, _I64(0), _F64)
        short = builder.fptosi(builder.fadd(total, shift), ir.VectorType(_I32, width))
        store(short, 3, args[1], _I32)
        return context.get_dummy_value()

    return types.void(states, at, factors, weights, largest, lanes), generate


@compiled
def mean(states, factors, weights, largest, first, last, lanes):
    """Weights = Σ factor * state, rounded to int32, lines ``first`` to ``last``; good to a little more than a half.

    ``largest`` becomes each lane's greatest absolute value before rounding; where that is no int32, neither are the
    weights.
    """
    width = np.uint64(len(lanes))
    for line in range(first, last):
        _mean_line(states, np.uint64(line) * width, factors, weights, largest, lanes)
