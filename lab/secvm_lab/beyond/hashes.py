"""More hashes for each feature: does accuracy fall, and by how much? (The paper: it falls slightly, appendix A.)

Numbers of bins go with the words of a person: what matters is how many bins there are for each. For each number of bins
and of hashes both rules are trained on random 90/10 splits: the paper's Pegasos (averaging two; many models at once,
``engine.sweep``), and swift, because Pegasos may be caught in a two-cycle, and a hash shall not be blamed for
that. The number of rounds is chosen as the paper chooses λ: on one half of the salts, applied to the other, both ways.

Several salts: what one hash function happens to join is chance too. A salt with its splits is one observation, and
standard errors count salts. Differences to one hash are taken split by split, under the same split and salt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.learning.individual.dice import hold_out
from secvm.learning.rows import BinnedRows
from secvm_lab.beyond.problems import Text, salt_of
from secvm_lab.beyond.trial import Mean
from secvm_lab.engine import sweep

#: Bins for each word of a mean person.
BINS_PER_WORD = (4, 16, 64, 256)
HASHES = (1, 2, 3, 4)
SALTS = 8
LAMBDA = Fraction(1, 10_000)
#: A difference beyond so many standard errors is called one: with eight salts a false alarm in 50 comparisons.
CLEAR = 3.0
#: Rounds after which it is evaluated: so many, evenly spaced. Swift is done early.
MARKS = 10
SWIFT_ROUNDS = 30

#: (rows, labels, train: people x splits, marks, threads) → accuracy, splits x marks, and models caught at the end.
Learner = Callable[
    [BinnedRows, NDArray[np.int64], NDArray[np.bool_], Sequence[int], int], tuple[NDArray[np.float64], int]
]


@dataclass(frozen=True, eq=False)
class Cell:
    """One rule, one number of bins and of hashes."""

    rule: str
    bins: int
    hashes: int
    #: Salts x splits x marks: share of test people who are right.
    accuracies: NDArray[np.float64]
    marks: tuple[int, ...]
    #: Units of a person, mean.
    units: float
    #: Models that were in a two-cycle at the end.
    caught: int

    @property
    def at_chosen(self) -> NDArray[np.float64]:
        """Salts x splits: each half of the salts at the round that is best for the other half."""
        salts = len(self.accuracies)
        if salts == 1:
            return self.accuracies[:, :, -1]
        found = np.empty(self.accuracies.shape[:2])
        half = np.arange(salts) % 2 == 0
        for side in (half, ~half):
            best = int(np.argmax(self.accuracies[side].mean(axis=(0, 1))))
            found[~side] = self.accuracies[~side, :, best]
        return found

    @property
    def accuracy(self) -> Mean:
        return Mean.of(self.at_chosen.mean(axis=1).tolist())

    @property
    def last(self) -> Mean:
        """After the last round."""
        return Mean.of(self.accuracies[:, :, -1].mean(axis=1).tolist())

    def ahead_of(self, other: Cell) -> Mean:
        return Mean.of((self.at_chosen - other.at_chosen).mean(axis=1).tolist())


def verdict(difference: Mean) -> str:
    """Whether a difference is seen."""
    if difference.error <= 0 or abs(difference.value) <= CLEAR * difference.error:
        return "no difference seen"
    return "lower" if difference.value < 0 else "higher"


def by_pegasos(
    rows: BinnedRows, labels: NDArray[np.int64], train: NDArray[np.bool_], marks: Sequence[int], threads: int
) -> tuple[NDArray[np.float64], int]:
    """The paper's rule, all splits at once."""
    experiment = Experiment(n_bins=rows.n_bins, labels=("0", "1"), rule=Pegasos(lambda_=LAMBDA, averaging=2))
    models = [experiment] * train.shape[1]
    found = list(sweep(rows, labels, models, train=train, rounds=marks[-1], evaluate=marks, threads=threads))
    caught = sum(any(last >= marks[-1] for _, last in one.two_cycle_spells) for one in found)
    return np.stack([one.accuracy for one in found]), caught


def by_swift(
    rows: BinnedRows, labels: NDArray[np.int64], train: NDArray[np.bool_], marks: Sequence[int], threads: int
) -> tuple[NDArray[np.float64], int]:
    """The quick rule with whole rows; half of a salt's splits, as it takes one model at a time."""
    experiment = Experiment(n_bins=rows.n_bins, labels=("0", "1"), rule=Swift(), fixed_point_rows=True)
    quick = kernels()
    found: list[list[float]] = []
    for learners in train.T[: (train.shape[1] + 1) // 2]:
        training = OfflineTraining(experiment, threads=threads)
        people = Population(rows=rows, labels=labels, train=learners)
        judges = quick.prepare(rows.take(np.flatnonzero(~learners)))
        found.append([])
        for t in range(1, marks[-1] + 1):
            training.advance(people)
            if t in marks:
                weights = aggregate.evaluation_weights(experiment, training.state)
                predicted = experiment.models.predict(quick.scores(judges, weights.mantissas, threads=threads))
                found[-1].append(float(np.mean(predicted == labels[~learners])))
    return np.array(found), 0


RULES: dict[str, Learner] = {"pegasos": by_pegasos, "swift": by_swift}


def marks_of(rule: str, rounds: int) -> tuple[int, ...]:
    """The rounds after which a rule is evaluated."""
    last = min(rounds, SWIFT_ROUNDS) if rule == "swift" else rounds
    return tuple(sorted({max(1, round(last * k / MARKS)) for k in range(1, MARKS + 1)}))


def try_hashes(
    text: Text,
    *,
    bins_per_word: Sequence[int] = BINS_PER_WORD,
    hashes: Sequence[int] = HASHES,
    splits: int,
    rounds: int,
    seed: int,
    threads: int = 1,
    advance: Callable[[int], None] | None = None,
) -> list[Cell]:
    """All cells; ``splits`` are dealt out evenly to the salts. ``advance`` is called with 1 after each hashing."""
    salts = max(1, min(SALTS, splits))
    n = len(text.labels)
    masks = [
        np.stack([hold_out(n, Fraction(1, 10), f"{seed} {salt} {i}".encode()) for i in range(splits // salts)], axis=1)
        for salt in range(salts)
    ]
    cells = []
    for factor in bins_per_word:
        n_bins = factor * max(1, round(text.words_per_person))
        for n_hashes in hashes:
            found: dict[str, list[NDArray[np.float64]]] = {rule: [] for rule in RULES}
            caught = dict.fromkeys(RULES, 0)
            units = []
            for salt, train in enumerate(masks):
                rows = text.binned(HashBinning(n_bins, salt_of(seed, salt), n_hashes))
                units.append(float(rows.units.mean()) - 1)
                for rule, learn in RULES.items():
                    accuracies, stuck = learn(rows, text.labels, train, marks_of(rule, rounds), threads)
                    found[rule].append(accuracies)
                    caught[rule] += stuck
                if advance is not None:
                    advance(1)
            mean_units = float(np.mean(units))
            for rule in RULES:
                marks = marks_of(rule, rounds)
                cells.append(Cell(rule, n_bins, n_hashes, np.stack(found[rule]), marks, mean_units, caught[rule]))
    return cells


def told(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Cells as stable keys, each beside one hash at its number of bins."""
    return [_told(cell, one_hash(cells, cell)) for cell in cells]


def _told(cell: Cell, single: Cell) -> dict[str, object]:
    difference = None if cell is single else cell.ahead_of(single)
    return {
        "rule": cell.rule,
        "bins": cell.bins,
        "hashes": cell.hashes,
        "accuracy": cell.accuracy.told(),
        "accuracy_last_round": cell.last.told(),
        "ahead_of_one_hash": None if difference is None else difference.told(),
        "verdict": None if difference is None else verdict(difference),
        "units_per_person": round(cell.units, 1),
        "two_cycles_at_the_end": cell.caught,
        "salts": cell.accuracies.shape[0],
        "splits": cell.accuracies.shape[0] * cell.accuracies.shape[1],
    }


def verdicts(cells: Sequence[Cell], rule: str) -> list[str]:
    """Of one rule, all that have more hashes beside their one."""
    pairs = [(cell, one_hash(cells, cell)) for cell in cells if cell.rule == rule]
    return [verdict(cell.ahead_of(single)) for cell, single in pairs if cell is not single]


def one_hash(cells: Sequence[Cell], cell: Cell) -> Cell:
    """What a cell is compared with: the fewest hashes of its rule and bins."""
    alike = (other for other in cells if other.rule == cell.rule and other.bins == cell.bins)
    return min(alike, key=lambda other: other.hashes)
