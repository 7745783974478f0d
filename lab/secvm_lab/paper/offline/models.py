"""One training as a value: what is trained, what came of it, and the folder of finished work.

A figure is made of models. Two figures that need the same model get the same one: it is trained once.

From a folder of finished work an interrupted run goes on where the last finished models are. A result lies under a
digest of all that decides it, so a folder may serve many runs, and nothing in it is ever stale. Each file appears whole
or not at all, and ends with a digest of its own content: what was cut off, changed or put there by somebody else is
worked out anew, and said so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.files import write_atomically
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


def key_of(model: Model, crowd: Crowd, splits: Splits) -> str:
    """A digest of crowd, split, bins and settings: of all that decides what a model becomes; not of threads or time."""
    settings = asdict(model) | {"split": splits.digest(model.split), "lambda_": str(exact(model.lambda_))}
    return digest({"results": RESULTS, "crowd": crowd.identity(), "model": settings})


def digest(content: Any) -> str:
    """BLAKE2b-160 of a value, as JSON with sorted keys."""
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=20).hexdigest()


class Stored:
    """Results under their keys."""

    def __init__(self, folder: Path | None, note: Callable[[str], None] = lambda _: None) -> None:
        """None: nothing is kept beyond this run."""
        self._folder = None if folder is None else folder / "results"
        self._note = note
        self._known: dict[str, Any] = {}
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInputError(f"cannot write into {folder}: {error.strerror or 'input/output error'}") from None

    def get(self, key: str) -> Any | None:
        """The value under a key; None where there is none to be trusted."""
        if key not in self._known and (value := self._read(key)) is not None:
            self._known[key] = value
        return self._known.get(key)

    def take(self, key: str) -> dict[str, Any]:
        """The value under a key that is known to be there."""
        found: dict[str, Any] = self._known[key]
        return found

    def put(self, key: str, value: Any) -> None:
        """Keep a value that JSON can carry."""
        self._known[key] = value
        if self._folder is not None:
            content = {"key": key, "value": value, "digest": digest([key, value])}
            write_atomically(self._folder / f"{key}.json", orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))

    def _read(self, key: str) -> Any | None:
        if self._folder is None:
            return None
        path = self._folder / f"{key}.json"
        try:
            content = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, orjson.JSONDecodeError):
            content = None
        if isinstance(content, dict) and content.get("key") == key:
            value = content.get("value")
            if value is not None and content.get("digest") == digest([key, value]):
                return value
        self._note(f"{path} is not what was written there; it is worked out anew")
        return None


def as_json(trained: Trained) -> dict[str, Any]:
    """A trained model as a value that JSON can carry."""
    return {"cells": trained.cells.reshape(-1, 4).tolist(), "spells": [list(spell) for spell in trained.spells]}


def from_json(value: dict[str, Any]) -> Trained:
    """The same back; its digest was right, so its shape is what was written."""
    cells = np.array(value["cells"], np.int64).reshape(-1, 2, 2)
    return Trained(cells, tuple((int(first), int(last)) for first, last in value["spells"]))
