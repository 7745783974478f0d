"""What the accountant says is what the packages do: δ(ε) measured on packages that the device's own code draws.

A small world: two devices with cover, two bins and a bias, one person who has one of the bins, one round. The attacker
knows everything but whether the person's units are there, counts packages per cell, and names the person whenever the
likelihood ratio is above e^ε. Its gain P(S) - e^ε Q(S) is δ(ε), no attack has more.

Seeds are fixed. Five ε, two directions, two kinds of thinning: a right implementation would be beyond three standard
errors in one of 20 with a chance of 5 % had the seed been drawn once; significantly above (4.9) with 1e-5.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual.cover import draw_cells, train_package
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice
from secvm.learning.individual.splitting import split, thin
from secvm.learning.individual.update import Update
from secvm.learning.package import TrainPackage
from secvm.learning.thinning import Thinning
from secvm.privacy.accountant import Contribution, noise_delta
from secvm.privacy.cover_loss import cell_losses, spread_of_loss
from secvm.privacy.pld import Looks

pytestmark = pytest.mark.slow

N = 8_000
DEVICES = 2
#: Cells (0, +) and (bias, +): the person's bin and the bias.
TOUCHED = [0, 4]
NOISE = CoverNoise(cells=6, share=Fraction(2), odds=Fraction(3, 2), cap=10**6)
SHAPE, P = float(DEVICES * NOISE.share), float(NOISE.p)
EPSILONS = (0.0, 0.05, 0.1, 0.15, 0.2)


def counts(packages: list[TrainPackage]) -> NDArray[np.int64]:
    cells = np.array([2 * one.bin_index + (one.sign < 0) for one in packages], dtype=np.int64)
    return np.bincount(cells, minlength=NOISE.cells)[TOUCHED]


@cache
def covered(noise: CoverNoise, seed: bytes) -> NDArray[np.int64]:
    """What the devices' cover adds to the two cells, N times."""
    found = np.empty((N, 2), dtype=np.int64)
    for i in range(N):
        packages: list[TrainPackage] = []
        for device in range(DEVICES):
            dice = UnsafeSeededDice(seed, DEVICES * i + device)
            cells = draw_cells(noise, Purpose.COVER, dice=dice, round_number=1)
            packages += [train_package(cell, 2) for cell in cells]
        found[i] = counts(packages)
    return found


@cache
def worlds(noise: CoverNoise, q: Fraction, *, there: bool) -> NDArray[np.int64]:
    """What is counted in the two cells, N times, with the person's units or without."""
    if not there:
        return covered(noise, b"not there")
    units = split(Update(values={0: 1, 2: 1}), 0)
    keep53 = int(Thinning(q=q).keep53([2])[0])
    sent = [
        thin(units, keep53=keep53, dice=UnsafeSeededDice(b"there", DEVICES * i), round_number=1, model=0)
        for i in range(N)
    ]
    found: NDArray[np.int64] = covered(noise, b"there") + np.array([counts(one) for one in sent])
    return found


def losses(seen: NDArray[np.int64], noise: CoverNoise, q: float) -> NDArray[np.float64]:
    """The attacker knows the noise as it is, also where it is not as promised."""
    with np.errstate(divide="ignore"):
        each: NDArray[np.float64] = np.log(1 - q + q * seen / ((seen + SHAPE - 1) * float(noise.p)))
    summed: NDArray[np.float64] = each.sum(axis=1)
    return summed


def measured(noise: CoverNoise, q: Fraction, epsilon: float, *, taken: bool) -> tuple[float, float]:
    """The gain of the best attack at ε, and its standard error."""
    sign = 1 if taken else -1
    named = [
        float((sign * losses(worlds(noise, q, there=there), noise, float(q)) > epsilon).mean())
        for there in (taken, not taken)
    ]
    errors = [share * (1 - share) / N for share in named]
    return named[0] - math.exp(epsilon) * named[1], math.sqrt(errors[0] + math.exp(2 * epsilon) * errors[1])


def promised(q: float, epsilon: float, *, taken: bool) -> float:
    pair = cell_losses(SHAPE, P, q, spread_of_loss(SHAPE, P, q) / 64)
    return Looks([(pair[0] if taken else pair[1], 2)]).delta(epsilon)


CASES = [(q, taken) for q in (Fraction(1), Fraction(1, 2)) for taken in (True, False)]


@pytest.mark.parametrize(("q", "taken"), CASES)
def test_what_is_measured_is_within_three_standard_errors_of_the_accountant(q: Fraction, *, taken: bool) -> None:
    told = Contribution(rounds=1, models=1, cells=2, thinning=Thinning(q=q))
    for epsilon in EPSILONS:
        found, error = measured(NOISE, q, epsilon, taken=taken)
        exact = promised(float(q), epsilon, taken=taken)
        assert exact >= 1e-3
        assert abs(found - exact) <= 3 * error, (epsilon, found, exact, error)
        assert found <= noise_delta(told, SHAPE, P, epsilon) + 4.9 * error


@pytest.mark.parametrize(("q", "taken"), CASES)
def test_cover_with_a_fault_gives_more_than_is_promised(q: Fraction, *, taken: bool) -> None:
    """A third of the cover: the measurement is able to say no."""
    faulty = replace(NOISE, odds=NOISE.odds / 3)
    beyond = []
    for epsilon in EPSILONS:
        found, error = measured(faulty, q, epsilon, taken=taken)
        beyond.append((found - promised(float(q), epsilon, taken=taken)) / error)
    assert max(beyond) > 4.9
