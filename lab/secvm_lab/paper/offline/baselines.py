"""Other ways to learn from the same people, on the same splits, beside ours: accuracy, and what it costs whom.

A large crowd is cut to so many people that all ways take minutes. Every way is run on every split and gives a small
value that JSON can carry; each is kept by itself, so that who is interrupted goes on after the last one.

A way that spends an ε sees clipped rows: a word is there or not, and at most ``CONTRIBUTION`` of a person's bins take
part. All others see whole rows, and but for federated averaging their counts.

Rounds and floor of the ways with noise follow from public numbers (``privacy.noise_settings``), the trusted server's
from the same ones as ours. Scikit-learn's regularisation and the rounds of swift without noise are chosen on a fifth of
the people who train.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.errors import BadInputError
from secvm.estimator.privacy import PrivacyPlan, planned
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.arithmetic import exact
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import Baseline, Fitted
from secvm_lab.baselines.central_gaussian import CentralGaussian
from secvm_lab.baselines.local_dp import OneShot
from secvm_lab.baselines.plain import Packages, RelayedCover
from secvm_lab.baselines.unprotected import FederatedAveraging, Scikit
from secvm_lab.paper.offline.models import Stored
from secvm_lab.paper.offline.settings import RULE_BINS, Job, Parts, Sample, Settings

#: The privacy that is asked for, over the whole training.
EPSILONS = (1.0, 2.0, 4.0)
DELTA = 1e-6
#: At most so many bins of a person where an ε is spent.
CONTRIBUTION = 300
#: People times bins up to which the sphere's reports are drawn: each has all dimensions.
_MOST_DRAWN = 10**9
#: Of a large crowd so many people, and so many of its splits, keep all of it to some minutes.
MOST_PEOPLE, SPLITS = 10_000, 3
#: Most rounds of swift, and units of a row of length 1 that it sends.
SWIFT_ROUNDS, RHOS = 30, (10, 3)
#: Of federated averaging, and its step: the best of .3, 1, 3, 10 and 30 on other made-up people.
FEDERATED_ROUNDS, FEDERATED_STEP = 100, 1.0
#: A number on the wire, and a package in its capsule with all that a request needs around it.
_NUMBER_BYTES, _PACKAGE_BYTES = 4, CAPSULE_BYTES + OVERHEAD_BYTES

IN_CLEAR = "one server, with everybody’s data in clear"
SERVER = "one server, with everybody’s data; only its model is private"
MODELS = "the server: a person’s own model tells it row and label"
NOBODY = "nobody"
APART = "relay and coordinator not to join; counts alone carry no formal guarantee"
RELAYED = "one of two relays"

Value = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to learn, and what a person sends in it."""

    name: str
    #: In whom one must trust, in a few words.
    trust: str
    settings: str
    make: Callable[[BinnedRows], Baseline]
    #: A model and the rows it is of: packages of a person (None: it sends none) and bytes, over the whole training.
    sends: Callable[[Fitted, BinnedRows], tuple[float | None, float]]
    #: Whether it sees how often a person has a word, or only that.
    counts: bool = True
    #: What was asked for; None: no ε.
    epsilon: float | None = None


def ways(
    *, lambda_: str = "1e-4", rounds: int = 100, epsilons: Sequence[float] = EPSILONS, threads: int = 1
) -> list[Way]:
    """All that are compared, in the order of the table."""
    whole = f"{rounds} rounds, λ = {lambda_}, every package of every violator"
    federated = f"{FEDERATED_ROUNDS} rounds of five local steps, one person to a client"
    found = [
        Way("LinearSVC", IN_CLEAR, "C chosen", lambda _: Scikit("svc"), _row),
        Way("averaged SGD", IN_CLEAR, "alpha chosen, 10 passes", lambda _: Scikit("sgd"), _row),
        Way("federated averaging", MODELS, federated, _federated, _models, counts=False),
        Way(
            "SecVM, Pegasos",
            APART,
            whole,
            lambda _: Packages("pegasos", Pegasos(exact(lambda_), 2), rounds, threads=threads),
            _packages,
        ),
        *(_swift(rho, threads) for rho in RHOS),
    ]
    for epsilon in epsilons:
        found += _private(epsilon, threads)
    return found


def bins_of(settings: Settings) -> int | None:
    """Few, for noise grows with their number; None: every word has its own."""
    if settings.asked_bins:
        return settings.asked_bins[0]
    return None if settings.crowd.n_words <= RULE_BINS else RULE_BINS


def _sample(settings: Settings) -> Sample:
    return Sample(settings, MOST_PEOPLE, SPLITS, bins_of(settings))


def _jobs(settings: Settings) -> tuple[Sample, list[Way], dict[tuple[str, int], Job]]:
    sample, seed = _sample(settings), int.from_bytes(settings.seed[:4], "little")
    compared = ways(lambda_=settings.lambda_, rounds=settings.rounds, threads=settings.threads)
    jobs = {
        (way.name, split): Job(
            sample.key(split, settings.lambda_, way=[way.name, way.settings]),
            split,
            settings.rounds,
            partial(run, way, seed=seed + split),
        )
        for way in compared
        for split in sample.splits
    }
    return sample, compared, jobs


def check(settings: Settings, labels: NDArray[np.int64]) -> None:
    """Refuse splits that some way cannot learn from, before hours are spent on the others."""
    sample = _sample(settings)
    for split in sample.splits:
        train, _ = sample.split(split)
        if len(np.unique(labels[sample.people][train])) != 2:
            raise BadInputError(
                f"in split {split} everybody who trains has the same label, and figure baselines needs both"
            )


def work(settings: Settings, stored: Stored) -> int:
    """What is still to be run, each way counted as so many rounds as Pegasos has."""
    sample, _, jobs = _jobs(settings)
    return sample.work(jobs, stored)


def result(
    settings: Settings, labels: NDArray[np.int64], stored: Stored, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each way over the splits: mean and standard deviation, recall of each label, ε, trust, packages, bytes."""
    sample, compared, jobs = _jobs(settings)
    values = sample.values(jobs, labels, stored, advance)
    entries = [
        summary(way, [values[way.name, split] for split in sample.splits], settings.crowd.label_names)
        for way in compared
    ]
    return {**sample.described(), "entries": entries}


def run(way: Way, rows: BinnedRows, labels: NDArray[np.int64], split: Parts, *, seed: int) -> Value:
    """One way on one split; everything follows from the arguments."""
    train, test = split
    if len(np.unique(labels[train])) != 2:
        raise BadInputError("people who train must be of two labels, for all ways to learn from them")
    inside, outside = rows.take(train), rows.take(test)
    fitted = way.make(inside).fit(inside, labels[train], seed=seed)
    quick = kernels()
    seen = outside if way.counts else outside.present()
    predicted = fitted.models.predict(quick.scores(quick.prepare(seen), fitted.weights.mantissas))
    packages, size = way.sends(fitted, inside)
    return {
        "cells": np.bincount(2 * labels[test] + predicted, minlength=4).reshape(2, 2).tolist(),
        "packages": packages,
        "bytes": size,
        "epsilon": None if fitted.guarantee is None else fitted.guarantee.epsilon,
        "delta": None if fitted.guarantee is None else fitted.guarantee.delta,
    }


def summary(way: Way, values: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """What the splits of one way say together; means, and ε of the worst."""
    cells = [np.array(value["cells"], np.float64) for value in values]
    accuracies = [float(np.trace(one) / one.sum()) for one in cells]
    together = np.sum(cells, axis=0)
    spent = [value["epsilon"] for value in values if value["epsilon"] is not None]
    sent = [value["packages"] for value in values if value["packages"] is not None]
    return {
        "name": way.name,
        "mean": statistics.fmean(accuracies),
        "std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "accuracies": accuracies,
        "recall": {name: _share(together[i, i], together[i].sum()) for i, name in enumerate(names)},
        "asked_epsilon": way.epsilon,
        "epsilon": max(spent, default=None),
        "delta": values[0]["delta"],
        "trust": way.trust,
        "packages_per_person": statistics.fmean(sent) if sent else None,
        "bytes_per_person": statistics.fmean(value["bytes"] for value in values),
        "settings": way.settings,
    }


def _swift(rho: int, threads: int) -> Way:
    baseline = Packages("swift", Swift(), SWIFT_ROUNDS, Thinning(rho=Fraction(rho)), threads, chosen=True)
    few = f"rounds chosen, at most {SWIFT_ROUNDS}"
    return Way(f"SecVM, swift, ρ = {rho}", APART, few, lambda _: baseline, _packages)


def _private(epsilon: float, threads: int) -> list[Way]:
    asked = PrivacyTarget(exact(epsilon), exact(DELTA))

    def cover(rows: BinnedRows) -> Baseline:
        plan = _planned(asked, len(rows), rows.n_bins)
        return RelayedCover(asked, plan, CONTRIBUTION, threads=threads)

    def central(rows: BinnedRows) -> Baseline:
        settings = _planned(asked, len(rows), rows.n_bins).settings
        return CentralGaussian(epsilon, DELTA, settings.rounds, CONTRIBUTION, settings.rule)

    def local(rows: BinnedRows) -> Baseline:
        # One's whole direction where that can be drawn, else one cell: neither says much in so many dimensions.
        sphere = len(rows) * rows.n_bins <= _MOST_DRAWN and epsilon < 2
        return OneShot(epsilon, 1, CONTRIBUTION, "sphere" if sphere else "cell")

    def budget(_fitted: Fitted, rows: BinnedRows) -> tuple[float, float]:
        plan = _planned(asked, len(rows), rows.n_bins)
        sent = float(plan.budget * plan.settings.rounds)
        # All packages of a round in one request, each sealed twice.
        return sent, sent * OUTER_BYTES + plan.settings.rounds * OVERHEAD_BYTES

    few = f"at most {CONTRIBUTION} bins of a person"
    noisy = f"{few}, rounds from public numbers"
    said = f", ε = {epsilon:g}"
    return [
        Way("SecVM, swift with cover" + said, RELAYED, noisy, cover, budget, counts=False, epsilon=epsilon),
        Way("central DP" + said, SERVER, noisy, central, _few, counts=False, epsilon=epsilon),
        Way("local DP" + said, NOBODY, f"{few}, one report", local, _report, counts=False, epsilon=epsilon),
    ]


@lru_cache(maxsize=64)
def _planned(asked: PrivacyTarget, people: int, bins: int) -> PrivacyPlan:
    """Plans take seconds, and do not depend on people."""
    return planned(asked, people=people, bins=bins, labels=2, features=CONTRIBUTION)


def _federated(rows: BinnedRows) -> Baseline:
    longest = max(1, int(np.diff(rows.indptr).max(initial=1)))
    return FederatedAveraging(FEDERATED_ROUNDS, longest, step_size=FEDERATED_STEP)


def _row(_fitted: Fitted, rows: BinnedRows) -> tuple[None, float]:
    return None, _NUMBER_BYTES * len(rows.bins) / max(1, len(rows))


def _few(_fitted: Fitted, rows: BinnedRows) -> tuple[None, float]:
    return None, _NUMBER_BYTES * float(np.minimum(np.diff(rows.indptr), CONTRIBUTION).mean())


def _models(_fitted: Fitted, rows: BinnedRows) -> tuple[None, float]:
    return None, float(FEDERATED_ROUNDS * _NUMBER_BYTES * (rows.n_bins + 1))


def _report(fitted: Fitted, rows: BinnedRows) -> tuple[None, float]:
    whole = fitted.name.endswith("sphere")
    return None, float(_NUMBER_BYTES * (rows.n_bins + 1) if whole else _NUMBER_BYTES)


def _packages(fitted: Fitted, _rows: BinnedRows) -> tuple[float, float]:
    sent = fitted.notes["packages"]
    return sent, sent * _PACKAGE_BYTES


def _share(hits: float, of: float) -> float | None:
    return float(hits / of) if of else None
