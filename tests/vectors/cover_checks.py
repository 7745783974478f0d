"""Checks of cover.json: by this package, and the draws by a second writing of docs/protocol.md §4.10."""

import hashlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, factorial
from typing import Any

import numpy as np
import siphash24  # type: ignore[import-not-found]  # compiled, without types

from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.cover import draw_cells
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice
from secvm.learning.package import (
    Cohort,
    NullPackage,
    Package,
    ParticipationPackage,
    TestPackage,
    TrainPackage,
)
from secvm.learning.weights import Weights
from secvm.protocol.experiment_document import ExperimentDocument

JSON = dict[str, Any]


def words(case: JSON) -> Iterator[int]:
    """Blocks of 256, 512, … and then always 4096 words, by an implementation of SipHash that is not ours."""
    seed = bytes.fromhex(case["seed"])
    message = case["participant"].to_bytes(8, "little") + len(seed).to_bytes(4, "little") + seed
    person = b"secvm-v1-dice\0\0\0"
    key = hashlib.blake2b(message + case["purpose"].encode(), digest_size=16, person=person).digest()
    for block in range(4096):
        for index in range(min(256 << block, 4096)):
            counter = (case["round"] << 44 | block << 32 | index).to_bytes(8, "little")
            yield int.from_bytes(siphash24.siphash24(counter, key=key).digest(), "little")


def below(chance: Fraction, stream: Iterator[int]) -> bool:
    while 0 < chance < 1:
        digit, chance = int(chance * 2**64), chance * 2**64 % 1
        word = next(stream)
        if word != digit:
            return word < digit
    return chance >= 1


def uniform(n: int, stream: Iterator[int]) -> int:
    if n == 1:
        return 0
    while True:
        word = next(stream)
        if word < 2**64 // n * n:
            return word % n


def poisson_of_one(stream: Iterator[int]) -> int:
    while True:
        k = 0
        while True:
            ones = f"{next(stream):064b}"[::-1].find("0")
            k += 64 if ones < 0 else ones
            if ones >= 0:
                break
        if below(Fraction(2**k, 2 * factorial(k)), stream):
            return k


def size_of(p: Fraction, stream: Iterator[int]) -> int:
    """One comparison after the other, all of the same U, as long as p^i is above 2^-4; then anew."""
    table = next(n for n in range(1, 10**6) if p ** (n + 1) < Fraction(1, 16)) if p >= Fraction(1, 4) else 1
    passed = 0
    while True:
        word = next(stream)
        above = sum(int(p**i * 2**64) > word for i in range(1, table + 1))
        undecided = [i for i in range(1, table + 1) if int(p**i * 2**64) == word]
        for i in undecided:
            above += below(p**i * 2**64 % 1, stream)
        if above < table:
            return passed + above + 1
        passed += above


def drawn(case: JSON) -> list[int]:
    stream = words(case)
    odds = Fraction(case["odds"])
    mean = case["cells"] * Fraction(case["share"]) * odds
    points = sum(poisson_of_one(stream) for _ in range(ceil(mean)))
    found: list[int] = []
    for _ in range(sum(below(mean / ceil(mean), stream) for _ in range(points))):
        size = size_of(odds / (1 + odds), stream)
        if uniform(size, stream) == 0:
            found += [uniform(case["cells"], stream)] * size
    return found[: case["cap"]]


def read_package(told: JSON) -> Package:
    match told["kind"]:
        case "train":
            return TrainPackage(model=told["model"], bin_index=told["bin"], sign=told["sign"])
        case "test":
            return TestPackage(true_class=told["true_class"], predicted_class=told["predicted_class"])
        case "participation":
            return ParticipationPackage(cohort=Cohort(told["cohort"]), class_index=told["class"])
    return NullPackage()


def check_draws(content: JSON) -> None:
    for case in content["draws"]:
        noise = CoverNoise(
            cells=case["cells"], share=Fraction(case["share"]), odds=Fraction(case["odds"]), cap=case["cap"]
        )
        dice = UnsafeSeededDice(bytes.fromhex(case["seed"]), case["participant"])
        ours = draw_cells(noise, Purpose(case["purpose"]), dice=dice, round_number=case["round"])
        assert ours == case["drawn"] == drawn(case)
    assert any(case["drawn"] for case in content["draws"])


def check_contributions(content: JSON) -> None:
    for case in content["contributions"]:
        experiment = ExperimentDocument.from_bytes(case["experiment"].encode()).experiment
        weights = Weights(
            np.array(case["mantissas"], dtype=np.int32), Fraction(case["unit"]), normalised=case["normalised"]
        )
        vector = BinnedVector(values=dict(case["vector"]), n_bins=experiment.n_bins)
        packages = contribute(
            Individual(vector, label=case["label"], target=int(case["target"]), cohort=Cohort(case["cohort"])),
            experiment=experiment,
            training=weights,
            evaluation=weights,
            dice=UnsafeSeededDice(bytes.fromhex(case["seed"]), case["participant"]),
            round_number=case["round"],
        )
        assert packages == [read_package(told) for told in case["packages"]]
        assert len(packages) == experiment.budget


def check_uncovered(content: JSON) -> None:
    for case in content["uncovered"]:
        document = ExperimentDocument.from_bytes(case["experiment"].encode())
        cover, counts = document.experiment.cover, case["tally"]
        assert cover is not None
        tally = Tally(*(np.array(counts[name], dtype=np.int64) for name in ("plus", "minus", "participants", "cells")))
        here = cover.participation
        labels = len(counts["participants"])
        devices = sum(counts["participants"]) / (document.train_share + labels * here.share * here.odds)
        assert devices == Fraction(case["devices"]) == cover.devices(tally)
        assert devices * document.train_share == Fraction(case["people"]) == cover.people(counts["participants"])
        mean = {
            "plus": cover.train,
            "minus": cover.train,
            "participants": here,
            "cells": cover.test,
        }
        uncovered = cover.uncovered(tally)
        for name, noise in mean.items():
            taken = 0 if noise is None else round(devices * noise.share * noise.odds)
            expected = np.array(counts[name]) - taken
            if name in {"participants", "cells"}:
                expected = np.maximum(expected, 0)
            assert expected.tolist() == case["uncovered"][name] == getattr(uncovered, name).tolist()


def check_cover(content: JSON) -> None:
    check_draws(content)
    check_contributions(content)
    check_uncovered(content)


CHECKS: dict[str, Callable[[JSON], None]] = {"cover": check_cover}
