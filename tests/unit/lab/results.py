"""A demonstration's result, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from secvm.learning.aggregate.scoring import score_cells
from secvm_lab.demo.attack import LabelAttack
from secvm_lab.demo.result import Checks, DemoResult, Guarantee, Leakage, Protected, RoundLine


def protected(**changes: Any) -> Protected:
    """What a run with a guarantee found; ``changes`` of the guarantee."""
    told: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "achieved": 0.98,
        "label_flip": 1.41,
        "cover_packages": 22_000,
        "parts": 9,
        "noise": 24.3,
    }
    attack = LabelAttack(auc=0.5521, interval=(0.5343, 0.5699), allowed=0.6182, plain=1.0, victims=2000)
    return Protected(Guarantee(**{**told, **changes}), 0.8813, attack)


def a_result(**changes: Any) -> DemoResult:
    """A plain result of three rounds, the second abandoned."""
    tested = score_cells(np.array([[30, 10], [5, 25]]))
    lines = tuple(
        RoundLine(
            number=number,
            participants=(120, 80) if number != 2 else (0, 0),
            score=tested if number != 2 else None,
            accuracy=0.7 + number / 100,
            sent=5440,
            counted=5440,
            abandoned=number == 2,
        )
        for number in (1, 2, 3)
    )
    told: dict[str, Any] = {
        "participants": 340,
        "hosts": 2,
        "witnesses": 3,
        "rounds": 3,
        "budget": 16,
        "bins": 600,
        "seed": 7,
        "descent": "swift",
        "thinning": "3/2",
        "people": "Made-up people.",
        "labels": ("north", "south"),
        "lines": lines,
        "tested_on": 5000,
        "final": score_cells(np.array([[2700, 300], [340, 1660]])),
        "central_accuracy": 0.8642,
        "checks": Checks(16320, 16320, 0, bit_exact=True, faults=(), steps_replayed=3),
        "leakage": Leakage(q=0.18, summed=(1.9, 1.9, 5.25)),
        "protected": None,
        "seconds": 61.26,
        "setup_seconds": 14.5,
        "arrivals": (810, 790, 820, 800),
        "capsule_bytes": 137,
        "report": "report.html",
    }
    return DemoResult(**{**told, **changes})
