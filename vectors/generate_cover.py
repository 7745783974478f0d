"""The vectors of cover: what seeded dice draw, what a person then sends, what is taken off. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from generate_protocol import covered, told  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.cover import draw_cells
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice
from secvm.learning.losses import ONE, Loss
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm.protocol.documents import ratio_text
from secvm.protocol.experiment_document import ExperimentDocument

JSON = dict[str, Any]
SEED = b"cover"
EXPERIMENTS = (
    covered(),
    covered(labels=("a", "b", "c"), multiclass="ovo", thinning=Thinning(q=Fraction(1, 2))),
    covered(labels=("n",), loss=Loss("epsilon-insensitive"), rule=Swift(), thinning=Thinning(rho=Fraction(2))),
)


def cover() -> JSON:
    """The sampler, whole contributions, and counts without their cover."""
    return {
        "description": "Cover that seeded dice draw, contributions with it, and tallies without its mean.",
        "draws": _draws(),
        "contributions": [one for document in EXPERIMENTS for one in _contributions(document)],
        "uncovered": [one for document in EXPERIMENTS for one in _uncovered(document)],
    }


def _draws() -> list[JSON]:
    noises = [
        (Purpose.COVER, CoverNoise(cells=22, share=Fraction(1, 30), odds=Fraction(9, 4), cap=12)),
        (Purpose.COVER, CoverNoise(cells=2002, share=Fraction(3, 1000), odds=Fraction(41, 7), cap=80)),
        (Purpose.COVER, CoverNoise(cells=600, share=Fraction(1, 100), odds=Fraction(64), cap=2000)),
        (Purpose.COVER_PARTICIPATION, CoverNoise(cells=4, share=Fraction(1), odds=Fraction(7, 20), cap=9)),
        (Purpose.COVER_PARTICIPATION, CoverNoise(cells=2, share=Fraction(8), odds=Fraction(1, 4096), cap=3)),
        (Purpose.COVER_TEST, CoverNoise(cells=9, share=Fraction(1, 8), odds=Fraction(3, 2), cap=0)),
        (Purpose.COVER_TEST, CoverNoise(cells=1, share=Fraction(1, 8), odds=Fraction(30), cap=100)),
    ]
    return [
        {
            "purpose": purpose.value,
            "cells": noise.cells,
            "share": ratio_text(noise.share),
            "odds": ratio_text(noise.odds),
            "cap": noise.cap,
            "seed": SEED.hex(),
            "participant": participant,
            "round": number,
            "drawn": draw_cells(noise, purpose, dice=UnsafeSeededDice(SEED, participant), round_number=number),
        }
        for purpose, noise in noises
        for participant, number in ((0, 1), (1, 1), (1, 7))
    ]


def _contributions(document: ExperimentDocument) -> list[JSON]:
    experiment = document.experiment
    row = [3, -1, 4, 2, 0, -2, 1, 5, -3, 2, 1]
    weights = Weights(
        np.array([row] * experiment.models.n_models, dtype=np.int32),
        Fraction(1, 10),
        normalised=experiment.rule.normalised,
    )
    cases = []
    for participant, cohort in ((0, Cohort.TRAIN), (1, Cohort.TRAIN), (2, Cohort.TEST)):
        label = participant % len(experiment.labels)
        target = 3 * ONE // 2 if experiment.loss.regression else 0
        vector = BinnedVector(values={0: 1, 3: 1, 5: 1, 9: 1}, n_bins=10)
        packages = contribute(
            Individual(vector, label=label, target=target, cohort=cohort),
            experiment=experiment,
            training=weights,
            evaluation=weights,
            dice=UnsafeSeededDice(SEED, participant),
            round_number=6,
        )
        cases.append(
            {
                "experiment": document.data.decode(),
                "mantissas": weights.mantissas.tolist(),
                "unit": ratio_text(weights.unit),
                "normalised": weights.normalised,
                "vector": [[b, v] for b, v in vector.values.items()],
                "label": label,
                "target": str(target),
                "cohort": cohort.value,
                "seed": SEED.hex(),
                "participant": participant,
                "round": 6,
                "packages": [told(package) for package in packages],
            }
        )
    return cases


def _uncovered(document: ExperimentDocument) -> list[JSON]:
    experiment = document.experiment
    assert experiment.cover is not None
    cases = []
    for number in range(3):
        empty = experiment.empty_tally()
        shape = empty.plus.shape
        plus, minus = ((np.arange(empty.plus.size).reshape(shape) * factor + number) % 61 for factor in (7, 11))
        participants = np.array([100 * number + 17 * label + 2 for label in range(len(experiment.labels))])
        cells = np.arange(empty.cells.size).reshape(empty.cells.shape) * (0 if experiment.loss.regression else 5)
        tally = Tally(plus=plus, minus=minus, participants=participants, cells=cells)
        taken = experiment.cover.uncovered(tally)
        cases.append(
            {
                "experiment": document.data.decode(),
                "tally": _counts(tally),
                "devices": ratio_text(experiment.cover.devices(tally)),
                "people": ratio_text(experiment.cover.people(participants.tolist())),
                "uncovered": _counts(taken),
            }
        )
    return cases


def _counts(tally: Tally) -> JSON:
    return {name: getattr(tally, name).tolist() for name in ("plus", "minus", "participants", "cells")}


FILES: dict[str, Callable[[], JSON]] = {"cover": cover}
