"""Small populations that several tests train on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def texts(n: int = 60, *, labels: int = 2, seed: int = 0, words: int = 14) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Token lists whose words lean by label, and the labels as 0, 1, …; rows are longer than ρ = 3 squared."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, labels, n)
    y[:labels] = np.arange(labels)
    people = []
    for label in y.tolist():
        own = [f"own{label}-{i}" for i in rng.integers(0, 12, words // 2)]
        people.append(own + [f"any{i}" for i in rng.integers(0, 25, words - len(own))])
    return people, y


def columns(n: int = 60, *, labels: int = 2, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Real columns around a centre for each label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, labels, n)
    y[:labels] = np.arange(labels)
    centres = rng.normal(0, 4, (labels, 5))
    return centres[y] + rng.normal(0, 1, (n, 5)), y


def numbers(n: int = 60, *, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Real columns and a number that depends on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (n, 4))
    return X, 10 + X @ np.array([3.0, -2.0, 0.5, 0.0]) + rng.normal(0, 0.3, n)


def state(model: Any) -> bytes:
    """The state bytes of a fitted estimator."""
    found: bytes = model.state_.to_bytes()
    return found
