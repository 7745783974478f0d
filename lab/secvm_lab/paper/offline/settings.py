"""What is asked for, which numbers of bins follow from it, and some of the people where everybody would take hours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.arithmetic import exact
from secvm.learning.declared import MAX_BINS
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm_lab.paper.offline.crowd import Crowd, MadeUpCrowd
from secvm_lab.paper.offline.models import RESULTS, Model, Stored, digest
from secvm_lab.paper.offline.splits import Split, Splits

#: The figures, in the order of the report.
FIGURES = ("1a", "1b", "lambda", "hashes", "rules", "baselines")
#: λ that the paper chooses from, and the range in which it calls the choice marginal.
LAMBDAS = ("1e-9", "1e-8", "1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")
MARGINAL = ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2")
#: Numbers of averaged weight vectors of Fig. 1a.
AVERAGED = (1, 2, 3, 5, 10)
#: What every other figure averages.
AVERAGING = 2
#: Words per bin in Fig. 1b.
FACTORS = (10, 100, 1000)
#: Splits of figures that ask for more than one model of each.
FEW_SPLITS = 16
#: Fewer bins have nothing to say about λ or hashes.
FEWEST_BINS = 10
#: With more bins than these a model of a large crowd takes minutes.
MANY_BINS = 2**21
#: Up to so many words of people, all together (of 55,000 of the paper's), another hash, or many bins, cost little.
SMALL_CROWD = 100_000_000
TINY_CROWD = 8_000_000
SPLITS_PER_HASH = 4
#: BLAKE2b personalisation.
_SALT_TAG = b"secvm-lab-hashes"
#: Bins for rules of descent, if there are so many words.
RULE_BINS = 10_000
#: Of the dice that choose among people of a file.
_SAMPLE_DICE = 39


@dataclass(frozen=True, eq=False)
class Settings:
    """One evaluation of one crowd."""

    crowd: Crowd
    splits: Splits
    figures: tuple[str, ...]
    #: As asked for; empty: shares of the crowd's words. None among them: unhashed.
    asked_bins: tuple[int | None, ...] = ()
    #: As asked for; empty: 1, and 1, 2, 3 for the figure that compares them.
    asked_hashes: tuple[int, ...] = ()
    lambda_: str = "1e-4"
    rounds: int = 100
    #: Of the hash, and of people's dice.
    salt: bytes = b""
    seed: bytes = b""
    threads: int = 1

    def __post_init__(self) -> None:
        unknown = [name for name in self.figures if name not in FIGURES]
        if unknown or not self.figures:
            raise BadInputError(f"a figure is one of {', '.join(FIGURES)}, or all")
        if "1a" in self.figures:
            self.splits.half("A")
        if self.rounds < 1:
            raise BadInputError("a training needs at least one round")
        # Each says itself what it cannot be: better now than when others are trained already.
        Pegasos(exact(self.lambda_), AVERAGING)
        for bins in self.asked_bins or (None,):
            for hashes in self.asked_hashes or (1,):
                HashBinning(bins or 1, bytes(16), hashes)

    @property
    def bins(self) -> tuple[int | None, ...]:
        """Numbers of bins of Fig. 1b, most first; unhashed before all."""
        return self.asked_bins or (None, *self._hashed(FACTORS))

    @property
    def few_bins(self) -> tuple[int | None, ...]:
        """Those of figures that need many models of each."""
        some = tuple(bins for bins in self._hashed(FACTORS[1:]) if bins >= FEWEST_BINS)
        return self.asked_bins or some or self._hashed(FACTORS[:1])

    def _hashed(self, factors: Sequence[int]) -> tuple[int, ...]:
        words = self.crowd.n_words
        return tuple(dict.fromkeys(min(MAX_BINS, max(1, words // factor)) for factor in factors))

    def splits_with(self, bins: int | None) -> int:
        """Splits of Fig. 1b: all, but for so many bins of a large crowd that nobody asked for by name."""
        if self.asked_bins or self.crowd.n_entries <= SMALL_CROWD or (bins is not None and bins <= MANY_BINS):
            return self.n_splits
        return min(self.n_splits, FEW_SPLITS)

    @property
    def rule_bins(self) -> int | None:
        """Bins on which rules of descent are compared."""
        if self.asked_bins:
            return self.asked_bins[0]
        words = self.crowd.n_words
        if words <= RULE_BINS:
            return None if self.crowd.unhashed_bins == words else words
        return min(MAX_BINS, max(RULE_BINS, words // FACTORS[-1]))

    @property
    def hashes(self) -> tuple[int, ...]:
        """Hashes per feature that are compared."""
        return self.asked_hashes or (1, 2, 3)

    @property
    def name(self) -> str:
        """Names people and splits, not what is asked of them: figures of the same crowd share a folder."""
        whole = [self.crowd.identity(), self.salt.hex(), self.splits.digest(0)]
        return f"{self.crowd.n_people}-{digest(whole)[:8]}"

    @property
    def n_splits(self) -> int:
        return len(self.splits.tests)

    @property
    def few_splits(self) -> int:
        """Splits of figures that need many models of each."""
        return min(self.n_splits, FEW_SPLITS)

    def model(
        self, split: Split, bins: int | None, *, hashes: int = 1, lambda_: str = "", averaging: int = AVERAGING
    ) -> Model:
        """A model of this evaluation; its λ and averaging where no others are given."""
        salt = b"" if bins is None else self.salt_of(split)
        return Model(split, bins, hashes, salt.hex(), lambda_ or self.lambda_, averaging, self.rounds)

    @property
    def splits_per_hash(self) -> int:
        """Splits that share a hash: as few as time allows. In a large crowd one draw of the hash is like another."""
        if self.crowd.n_entries > SMALL_CROWD:
            return self.n_splits
        return SPLITS_PER_HASH if self.crowd.n_entries > TINY_CROWD else 1

    def salt_of(self, split: Split) -> bytes:
        """Every few splits have a hash of their own, so that a mean is over hashes too, and not over one draw of it."""
        number = split // self.splits_per_hash if isinstance(split, int) else 0
        return hashlib.blake2b(self.salt + number.to_bytes(4, "little"), digest_size=16, person=_SALT_TAG).digest()

    @property
    def salts(self) -> list[str]:
        """The salt of each hash, for who wants to hash alike."""
        return [self.salt_of(split).hex() for split in range(0, self.n_splits, self.splits_per_hash)]

    def tested(self, n_splits: int) -> int:
        """Different people who are tested by the first so many splits."""
        seen = np.zeros(self.crowd.n_people, np.bool_)
        for test in self.splits.tests[:n_splits]:
            seen[test] = True
        return int(seen.sum())


#: Who trains, and who tests.
Parts = tuple[NDArray[np.int64], NDArray[np.int64]]
K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Job:
    """One result that is kept by itself, on one split."""

    key: str
    split: int
    #: As how much work it counts.
    rounds: int
    #: From everybody's rows, labels and the split to a value that JSON can carry.
    run: Callable[[BinnedRows, NDArray[np.int64], Parts], Any]


@dataclass(frozen=True, eq=False)
class Sample:
    """Some of a crowd's people and splits, for figures that would take hours with all of them."""

    settings: Settings
    #: At most.
    most_people: int
    most_splits: int
    bins: int | None

    @cached_property
    def people(self) -> NDArray[np.int64]:
        """The first of made-up people, who are as good as any; of a file, which may be in some order, a sample."""
        crowd = self.settings.crowd
        n_people = min(self.most_people, crowd.n_people)
        if n_people == crowd.n_people or isinstance(crowd, MadeUpCrowd):
            return np.arange(n_people)
        return np.sort(np.random.default_rng(_SAMPLE_DICE).permutation(crowd.n_people)[:n_people])

    @property
    def splits(self) -> range:
        """Splits that are run."""
        return range(min(self.most_splits, self.settings.n_splits))

    def split(self, number: int) -> Parts:
        """Who of the people trains, and who tests."""
        train, test = (np.flatnonzero(mask[self.people]) for mask in self.settings.splits.masks(number))
        return train, test

    def rows(self) -> BinnedRows:
        """Their rows, under the hash of the first split."""
        crowd = self.settings.crowd.first(int(self.people[-1]) + 1)
        rows = crowd.rows(self.bins, 1, self.settings.salt_of(0), threads=self.settings.threads)
        return rows if len(rows) == len(self.people) else rows.take(self.people)

    def work(self, jobs: Mapping[Any, Job], stored: Stored) -> int:
        """Rounds still to be run."""
        return sum(job.rounds for job in jobs.values() if stored.get(job.key) is None)

    def values(
        self, jobs: Mapping[K, Job], labels: NDArray[np.int64], stored: Stored, advance: Callable[[int], None]
    ) -> dict[K, Any]:
        """What came of each job; whatever is missing is run, and rows are made for that alone."""
        rows: BinnedRows | None = None
        for job in jobs.values():
            if stored.get(job.key) is None:
                rows = self.rows() if rows is None else rows
                stored.put(job.key, job.run(rows, labels[self.people], self.split(job.split)))
                advance(job.rounds)
        return {name: stored.take(job.key) for name, job in jobs.items()}

    def key(self, split: int, lambda_: str | None, **trained: Any) -> str:
        """The digest of all that decides one result: of these people, by what is trained."""
        settings = self.settings
        return digest(
            {
                "results": RESULTS,
                **trained,
                "lambda": None if lambda_ is None else str(exact(lambda_)),
                "crowd": settings.crowd.identity(),
                "people": min(self.most_people, settings.crowd.n_people),
                "bins": self.bins,
                "salt": None if self.bins is None else settings.salt_of(0).hex(),
                "dice": settings.seed.hex(),
                "split": settings.splits.digest(split),
            }
        )

    def described(self) -> dict[str, Any]:
        """How much of the crowd it is, as results say it."""
        return {
            "bins": self.bins,
            "people": len(self.people),
            "of_people": self.settings.crowd.n_people,
            "splits": len(self.splits),
            "of_splits": self.settings.n_splits,
        }
