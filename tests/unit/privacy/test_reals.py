"""Functions of which everybody finds the same double: near the truth, and the same bits as ever."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest

from secvm.privacy.accounting import reals
from secvm.privacy.accounting.reals import Floats

SPREAD = np.arange(-4000, 4001, dtype=np.float64)


def _units_off(found: Floats, true: Floats) -> float:
    return float(np.max(np.abs(found - true) / np.spacing(np.abs(true))))


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1 / 4096, 1 / 1024, 1 / 16, 0.17])
def test_functions_are_off_by_two_units_of_the_last_place_at_most(scale: float) -> None:
    x = SPREAD * scale
    assert _units_off(reals.exp(x), np.exp(x)) <= 2
    assert _units_off(reals.expm1(x), np.expm1(x)) <= 3
    assert _units_off(reals.log1p(np.abs(x)), np.log1p(np.abs(x))) <= 2
    above = 1 + x[x > -1]
    assert _units_off(reals.log(above), np.log(above)) <= 2


def test_numbers_alone_and_in_arrays_have_the_same_values() -> None:
    for function in (reals.exp, reals.expm1):
        assert [function(float(x)) for x in SPREAD[::97] / 7] == function(SPREAD[::97] / 7).tolist()


def test_the_ends_of_the_range() -> None:
    assert reals.exp(-1e9) == 0 == reals.exp(-746.0)
    assert reals.exp(-745.0) == math.exp(-745.0) > 0
    assert reals.log(5e-324) == pytest.approx(math.log(5e-324), rel=1e-15)
    for x in (0.0, -1.0):
        with pytest.raises(ValueError, match="only numbers above 0"):
            reals.log(x)


def test_gamma_and_the_error_function() -> None:
    for x in np.exp(SPREAD[::50] / 200):
        assert reals.log_gamma(float(x)) == pytest.approx(math.lgamma(x), rel=1e-13, abs=1e-13)
    for x in np.abs(SPREAD[::50]) / 500:
        assert reals.erf(float(x)) == pytest.approx(math.erf(x), abs=4e-15)


def test_a_sum_is_good_to_a_few_hundred_roundings() -> None:
    values = reals.exp(SPREAD / 300)
    true = sum(map(Fraction, values.tolist()))
    assert abs(Fraction(reals.total(values)) - true) < true / 2**43
    assert reals.total(values[:0]) == 0


@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 256, 2048, 8192])
def test_hartleys_transform_is_fouriers_in_real_numbers(size: int) -> None:
    values = reals.exp(-np.abs(np.arange(size, dtype=np.float64) - size / 3) / 5)
    values /= reals.total(values)
    fourier = np.fft.fft(values)
    there = reals.hartley(values)
    assert np.max(np.abs(there - (fourier.real - fourier.imag))) < 1e-15
    assert np.max(np.abs(reals.hartley(there) / size - values)) < 1e-15


def test_the_bits_are_the_same_on_every_machine() -> None:
    x = SPREAD / 64
    found = [
        reals.exp(x), reals.expm1(x / 40), reals.log(np.abs(x) + 1e-3), reals.log1p(x / 70), reals.hartley(x[:1024]),
        np.array([reals.log_gamma(y) for y in x[4001:4400].tolist()]),
        np.array([reals.erf(y) for y in x[4001:4400].tolist()]),
        np.array([reals.total(x / 3)]),
    ]  # fmt: skip
    bits = hashlib.sha256(b"".join(values.astype("<f8").tobytes() for values in found)).hexdigest()
    assert bits == "66819b15fe35fa1062294c9b6879eea6813878d1dcad0757f88884eeab20625b"
