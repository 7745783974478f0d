"""One training as a value: what is trained, and what came of it.

A figure is made of models. Two figures that need the same model get the same one: it is trained once.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm_lab.paper.offline.crowd import Crowd
from secvm_lab.paper.offline.splits import Split, Splits

#: Part of every key. Another number where a change of code changes what a model becomes.
RESULTS = 1


@dataclass(frozen=True)
class Model:
    """Full-batch Pegasos for one split."""

    split: Split
    #: None: unhashed.
    bins: int | None
    hashes: int
    #: Of the hash, in hexadecimal; empty where nothing is hashed.
    salt: str
    #: As people write it, so that 1e-4 is one ten-thousandth exactly.
    lambda_: str
    averaging: int
    rounds: int

    def experiment(self, n_bins: int, labels: tuple[str, str]) -> Experiment:
        """The question it answers, for rows of so many bins."""
        return Experiment(n_bins=n_bins, labels=labels, rule=Pegasos(exact(self.lambda_), self.averaging))


@dataclass(frozen=True, eq=False)
class Trained:
    """What became of a model: counts of its test people, by round."""

    #: int64, rounds x true label x predicted label.
    cells: NDArray[np.int64]
    #: Two-cycles, as (first round, last round).
    spells: tuple[tuple[int, int], ...]

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of its test people who are right, after each round."""
        right = np.trace(self.cells, axis1=1, axis2=2)
        return np.asarray(right / self.cells.sum(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class Names:
    """Names models by everything that decides what they become."""

    crowd: Crowd
    splits: Splits

    def key(self, model: Model) -> str:
        """A digest of crowd, split, bins and settings; not of threads, folders or the time."""
        return digest(self.content(model))

    def content(self, model: Model) -> dict[str, Any]:
        """What the key is a digest of."""
        settings = asdict(model) | {"split": self.splits.digest(model.split), "lambda_": str(exact(model.lambda_))}
        return {"results": RESULTS, "crowd": self.crowd.identity(), "model": settings}


def digest(content: Any) -> str:
    """BLAKE2b-160 of a value, as JSON with sorted keys."""
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=20).hexdigest()
