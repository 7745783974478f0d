"""Baselines side by side: the same people for all, new people and new dice for every seed."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.learning.individual.dice import hold_out
from secvm.learning.rows import BinnedRows
from secvm.people.reader import read_people
from secvm_lab.baselines.baseline import Baseline, Fitted, Guarantee
from secvm_lab.population import ZipfPeople


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """People who train, and people on whom the model is measured. Secret: it does not print itself."""

    rows: BinnedRows
    labels: NDArray[np.int64]
    test_rows: BinnedRows
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class Compared:
    """One baseline over all seeds."""

    name: str
    accuracies: tuple[float, ...]
    guarantee: Guarantee | None
    #: Means of what the baseline notes.
    notes: dict[str, float]
    #: Mean time of training.
    seconds: float
    #: The largest memory that the process has had until this baseline was done.
    peak_rss_mb: float

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def sd(self) -> float:
        """Standard deviation over seeds (people, hashes and noise together); 0 for one seed."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0

    def told(self) -> dict[str, object]:
        """The row as stable keys."""
        bound = self.guarantee
        return {
            "accuracy": round(self.mean, 4),
            "accuracy_sd": round(self.sd, 4),
            "epsilon": None if bound is None else bound.epsilon,
            "delta": None if bound is None else bound.delta,
            "trust": None if bound is None else bound.trust,
            "accounting": None if bound is None else bound.accounting,
            **{name: float(f"{value:.4g}") for name, value in self.notes.items()},
            "seconds": round(self.seconds, 2),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
        }


def compare(
    baselines: Sequence[Baseline],
    people: Callable[[int], Split],
    seeds: Iterable[int],
    *,
    on_fit: Callable[[int, str, float], None] | None = None,
) -> dict[str, Compared]:
    """Every baseline on the people of every seed.

    ``people`` makes those of a seed; ``on_fit`` is called with seed, name and accuracy after each training.
    """
    if len({baseline.name for baseline in baselines}) != len(baselines):
        raise BadInputError("two baselines have the same name")
    runs: dict[str, list[tuple[Fitted, float, float]]] = {baseline.name: [] for baseline in baselines}
    peaks = dict.fromkeys(runs, 0.0)
    for seed in seeds:
        split = people(seed)
        for baseline in baselines:
            began = time.perf_counter()
            fitted = baseline.fit(split.rows, split.labels, seed=seed)
            seconds = time.perf_counter() - began
            accuracy = fitted.evaluate(split.test_rows, split.test_labels)
            runs[baseline.name].append((fitted, accuracy, seconds))
            peaks[baseline.name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            if on_fit is not None:
                on_fit(seed, baseline.name, accuracy)
    return {
        name: Compared(
            name=name,
            accuracies=tuple(accuracy for _, accuracy, _ in of_one),
            guarantee=of_one[-1][0].guarantee,
            notes={key: statistics.fmean(fit.notes[key] for fit, _, _ in of_one) for key in of_one[-1][0].notes},
            seconds=statistics.fmean(seconds for _, _, seconds in of_one),
            peak_rss_mb=peaks[name],
        )
        for name, of_one in runs.items()
        if of_one
    }


def zipf_split(recipe: ZipfPeople, *, bins: int, test_people: int, salt: bytes, seed: int) -> Split:
    """Made-up people, their words hashed; the last ``test_people`` of them do not train."""
    if not 0 < test_people < recipe.n_people:
        raise BadInputError("some people must train, and some must not")
    words, codes = recipe.generate(seed)
    quick = kernels()
    keys = HashBinning(n_bins=bins, salt=salt).keys
    found = quick.hash_strings([f"word{i}" for i in range(recipe.vocabulary)], keys, bins)[:, 0]
    offsets = np.arange(len(words) + 1, dtype=np.int64) * recipe.words_per_person
    rows = quick.bin_rows(offsets, found[words.ravel()], None, bins)
    return _split(rows, codes.astype(np.int64), np.arange(len(rows)) < recipe.n_people - test_people)


def file_split(path: str | PathLike[str], binning: Binning, *, test_share: Fraction, seed: bytes) -> Split:
    """The people of a file with two labels; a share of them, drawn by the seed, does not train."""
    people = read_people(path, binning, presence=True)
    if len(people.label_names) != 2:
        raise BadInputError("this benchmark needs people of exactly two labels")
    train = hold_out(len(people), test_share, seed)
    return _split(people.rows, people.label_codes.astype(np.int64), train)


def _split(rows: BinnedRows, labels: NDArray[np.int64], train: NDArray[np.bool_]) -> Split:
    inside, outside = np.flatnonzero(train), np.flatnonzero(~train)
    return Split(rows.take(inside), labels[inside], rows.take(outside), labels[outside])
