"""The devices' rows and cohorts: everybody who is there on some day, as the rounds need them.

Made-up people are drawn, hashed and put into rows a few thousand at a time; nobody's words are kept. People of a file
are taken in an order drawn from the seed, each as one device. Who trains is drawn by each device's own dice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, NotInstalledError
from secvm.learning._kernels import vectorised
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import HashBinning
from secvm.learning.individual.dice import DRAW_BITS, Purpose, dice_keys
from secvm.learning.rows import BinnedRows
from secvm.people.reader import read_people
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.population.residents import Residents, needed, residents

_SALT_TAG = b"secvm-lab-salt\0\0"


@dataclass(frozen=True, eq=False, repr=False)
class Crowd:
    """A population in memory. Secret as people are: it does not print itself."""

    plan: Plan
    people: Residents
    #: True for the train cohort.
    train: NDArray[np.bool_]
    #: Rows of those who train and of those who test, each in the order of their numbers.
    train_rows: BinnedRows
    test_rows: BinnedRows
    #: The most features that somebody has.
    features: int

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        return f"Crowd(<{len(self)} devices>)"

    @property
    def trainers(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.train)

    @property
    def testers(self) -> NDArray[np.int64]:
        return np.flatnonzero(~self.train)

    def one_per_bin(self) -> Crowd:
        """The same people with one unit in a bin, or none, as cover needs it."""
        return replace(self, train_rows=self.train_rows.present(), test_rows=self.test_rows.present())


def salt(seed: int) -> bytes:
    """What the bins are hashed with."""
    return hashlib.blake2b(str(seed).encode(), digest_size=16, person=_SALT_TAG).digest()


def crowd(plan: Plan, days: int) -> Crowd:
    """The devices of so many days of a plan."""
    return _made_up(plan, days) if plan.data is None else _from_file(plan, days)


def _made_up(plan: Plan, days: int) -> Crowd:
    if find_spec("numba") is None:
        raise NotInstalledError("making people up", "numba", "estimator")
    # Slow to import, and compiled.
    from secvm_lab._kernels.hash_numbers import hash_numbers  # noqa: PLC0415

    people = residents(plan, days)
    train = _who_trains(plan, len(people))
    binning = HashBinning(n_bins=plan.bins, salt=salt(plan.seed))
    bin_rows = kernels().bin_rows
    parts: dict[bool, list[BinnedRows]] = {True: [], False: []}
    for first, words in plan.words.chunks(people.labels, plan.seed, threads=plan.threads):
        offsets = np.arange(len(words) + 1, dtype=np.int64) * words.shape[1]
        bins = hash_numbers(words.ravel(), binning.keys, binning.n_bins, threads=plan.threads)
        rows = bin_rows(offsets, bins, None, binning.n_bins)
        trains = train[first : first + len(words)]
        for cohort, kept in parts.items():
            kept.append(rows.take(np.flatnonzero(trains == cohort)))
    return Crowd(
        plan, people, train, _joined(parts[True], plan.bins), _joined(parts[False], plan.bins), plan.words.per_person
    )


def _from_file(plan: Plan, days: int) -> Crowd:
    assert plan.data is not None
    found = read_people(plan.data, HashBinning(n_bins=plan.bins, salt=salt(plan.seed)), presence=True)
    if len(found.label_names) != 2:
        raise BadInputError(f"{plan.data}: a simulation needs people of two labels")
    wanted = needed(plan, days)
    if wanted > len(found):
        # Each day brings a share more.
        fits = int(len(found) / (1 + plan.churn * days) * 0.98)
        raise BadInputError(
            f"{plan.data}: {len(found)} people, and {wanted} come and go in {days} days",
            next_step=f"With --people {max(1, fits)} there are enough.",
        )
    counts = np.bincount(found.label_codes, minlength=2)
    minority = int(np.argmin(counts))
    order = np.random.default_rng(plan.seed).permutation(len(found))[:wanted]
    labels = (found.label_codes[order] == minority).astype(np.int64)
    names = (found.label_names[1 - minority], found.label_names[minority])
    share = float(labels.mean())
    # By day the minority is what it is in the file; at night its share falls as the plan's does.
    falls = plan.rhythm.night_share / plan.rhythm.day_share
    rhythm = replace(plan.rhythm, day_share=share, night_share=share * falls)
    told = replace(plan, labels=names, rhythm=rhythm)
    train = _who_trains(plan, wanted)
    rows = found.rows.take(order)
    return Crowd(
        plan=told,
        people=residents(told, days, labels),
        train=train,
        train_rows=rows.take(np.flatnonzero(train)),
        test_rows=rows.take(np.flatnonzero(~train)),
        features=int((rows.units - 1).max()),
    )


def _who_trains(plan: Plan, devices: int) -> NDArray[np.bool_]:
    return draw_cohorts(plan.train_share, plan.device_seed, np.arange(devices, dtype=np.int64))


def _joined(parts: list[BinnedRows], n_bins: int) -> BinnedRows:
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return BinnedRows(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        bins=np.concatenate([part.bins for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        n_bins=n_bins,
    )


def draw_cohorts(train_share: Fraction, seed: bytes, participants: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for those who train: ``draw_cohort`` of many participants' seeded dice, side by side."""
    words = vectorised.dice_words(dice_keys(seed, participants, Purpose.COHORT), 0, 0, 0) >> np.uint64(64 - DRAW_BITS)
    # word · denominator < numerator · 2^53, for a whole word, is word < ceil(numerator · 2^53 / denominator).
    edge = -(-(train_share.numerator << DRAW_BITS) // train_share.denominator)
    return np.asarray(words < np.uint64(edge), dtype=np.bool_)
