"""Who trains and who tests: random splits of a crowd, and the file in which others find the same ones.

A tenth of the people test, the others train. For Fig. 1a the crowd is cut into two halves, A and B, and a tenth of each
half tests. Split k depends on the seed, the number of people and k alone: ten splits are the first ten of a hundred.

The file is one JSON object; a person is a position in the file of people, counted from 0:

    {"people": 600, "seed": 1,
     "splits": [[3, 17, ...], ...],
     "halves": {"A": {"people": [0, 2, ...], "test": [2, ...]}, "B": {"people": [1, ...], "test": [...]}}}

Each list under ``splits`` has the test people of one split; everybody else trains. ``seed`` may be missing, and
``halves`` where no figure needs them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.files import write_atomically

#: One in so many tests.
TEST_SHARE = 10
#: Streams of the dice: splits count from 0, halves have their own.
_HALVES = 2**32

People = NDArray[np.int64]
#: The number of a split of everybody, or a half.
Split = int | Literal["A", "B"]


@dataclass(frozen=True, eq=False, repr=False)
class Half:
    """One half of the crowd; everybody of it who does not test trains."""

    people: People
    test: People


@dataclass(frozen=True, eq=False, repr=False)
class Splits:
    """Splits of one crowd."""

    n_people: int
    seed: int | None
    #: Per split its test people, ascending.
    tests: tuple[People, ...]
    halves: Mapping[str, Half] | None

    def __repr__(self) -> str:
        return f"Splits(<{self.n_people} people>, {len(self.tests)} splits)"

    @classmethod
    def draw(cls, n_people: int, n_splits: int, seed: int) -> Splits:
        """Draw them all."""
        if n_people < 4:
            raise BadInputError("with fewer than four people there is nothing to split")
        tests = tuple(_tenth(np.arange(n_people), np.random.default_rng([seed, k])) for k in range(n_splits))
        dice = np.random.default_rng([seed, _HALVES])
        order = dice.permutation(n_people)
        halves = {}
        for name, chosen in (("A", order[: n_people // 2]), ("B", order[n_people // 2 :])):
            people = np.sort(chosen)
            halves[name] = Half(people, _tenth(people, dice))
        return cls(n_people, seed, tests, halves)

    @classmethod
    def read(cls, path: Path, n_people: int) -> Splits:
        """Read the file of splits, for a crowd of so many."""
        try:
            content = orjson.loads(path.read_bytes())
        except OSError as error:
            raise BadInputError(f"cannot read {path}: {error.strerror or 'input/output error'}") from None
        except orjson.JSONDecodeError:
            raise BadInputError(f"{path} is no file of splits: it is not JSON") from None
        if not isinstance(content, dict) or not isinstance(content.get("splits"), list):
            raise BadInputError(f"{path} is no file of splits: it has no list named splits")
        if content.get("people") != n_people:
            raise BadInputError(f"{path} splits {content.get('people')} people, and there are {n_people}")
        tests = tuple(_people(p, n_people, f"{path}: split {k}") for k, p in enumerate(content["splits"]))
        if not tests:
            raise BadInputError(f"{path} has no splits")
        if any(len(test) == n_people for test in tests):
            raise BadInputError(f"{path}: a split leaves nobody to train on")
        seed = content.get("seed")
        return cls(n_people, seed if isinstance(seed, int) else None, tests, _halves(content, n_people, path))

    def write(self, path: Path) -> None:
        """Write the file of splits."""
        halves = {} if self.halves is None else self.halves
        content = {
            "people": self.n_people,
            "seed": self.seed,
            "splits": list(self.tests),
            "halves": {name: {"people": half.people, "test": half.test} for name, half in halves.items()},
        }
        write_atomically(path, orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))

    @property
    def test_share(self) -> float:
        """Share of the people who test, on average over the splits: a file may have any."""
        return sum(map(len, self.tests)) / (len(self.tests) * self.n_people)

    def first(self, n_splits: int) -> Splits:
        """The first so many."""
        return Splits(self.n_people, self.seed, self.tests[:n_splits], self.halves)

    def masks(self, split: Split) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Who trains, who tests."""
        train, test = np.zeros((2, self.n_people), np.bool_)
        if isinstance(split, int):
            train[:] = True
            people = self.tests[split]
        else:
            half = self.half(split)
            train[half.people] = True
            people = half.test
        train[people] = False
        test[people] = True
        return train, test

    def half(self, name: str) -> Half:
        """A or B."""
        if self.halves is None:
            raise BadInputError("the file of splits has no halves A and B, which figure 1a needs")
        return self.halves[name]

    def digest(self, split: Split) -> str:
        """Names who trains and who tests."""
        hasher = hashlib.blake2b(self.n_people.to_bytes(8, "little"), digest_size=16)
        for mask in self.masks(split):
            hasher.update(np.packbits(mask).tobytes())
        return hasher.hexdigest()


def _tenth(people: People, dice: np.random.Generator) -> People:
    return np.sort(dice.permutation(people)[: max(1, len(people) // TEST_SHARE)]).astype(np.int64)


def _people(listed: Any, n_people: int, where: str) -> People:
    if not isinstance(listed, list) or not listed or not all(type(person) is int for person in listed):
        raise BadInputError(f"{where} is no list of people, as whole numbers")
    # Checked before they become an array: an integer of the file may be of any size.
    if min(listed) < 0 or max(listed) >= n_people:
        raise BadInputError(f"{where} names a person outside 0 to {n_people - 1}")
    people = np.unique(np.array(listed, np.int64))
    if len(people) != len(listed):
        raise BadInputError(f"{where} names a person twice")
    return people


def _halves(content: dict[str, Any], n_people: int, path: Path) -> dict[str, Half] | None:
    given = content.get("halves")
    if not given:
        return None
    if not isinstance(given, dict) or set(given) != {"A", "B"} or not all(isinstance(h, dict) for h in given.values()):
        raise BadInputError(f"{path}: halves must be an object with A and B")
    halves = {}
    for name, half in given.items():
        people = _people(half.get("people"), n_people, f"{path}: half {name}")
        test = _people(half.get("test"), n_people, f"{path}: the test people of half {name}")
        if len(np.setdiff1d(test, people)) or len(test) == len(people):
            raise BadInputError(f"{path}: the test people of half {name} must be some of it, and not all")
        halves[name] = Half(people, test)
    if len(np.intersect1d(halves["A"].people, halves["B"].people)):
        raise BadInputError(f"{path}: a person is in both halves")
    return halves
