"""Rounds and packages that thinned swift needs for the accuracy of 200 rounds of Pegasos.

People are generated (Zipf and Mandelbrot, see ``secvm_lab.population``) or read from ``--data``, hashed and split.
Pegasos runs 200 rounds with each λ of 1e-4 … 1e-1; the λ that is best at round 200, over all seeds, is the one that
counts, and the accuracy it has there is the target. All curves are means over the seeds. A rule has *reached* the
target in the first round in which its mean curve is at least as high, and ``packages`` are all train packages of a
person up to then. So the ratios do not count the rounds that Pegasos spends after it has first come that far;
``rounds_ratio_to_200`` and ``packages_ratio_to_200`` do.

    ./secvm bench rounds [--data PEOPLE] [--rho 3] [--plot FILE.png]
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks._measuring import memory_mb, say
from secvm.cli.offline import options
from secvm.estimator.fitting import Evaluator, fit_rounds
from secvm.estimator.training import OfflineTraining, Population
from secvm.files import write_atomically
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm_lab.baselines.compare import Split, file_split, zipf_split
from secvm_lab.population import ZipfPeople

LAMBDAS = ("1e-4", "1e-3", "1e-2", "1e-1")
PEGASOS_ROUNDS = 200
#: Beside the ρ that is asked for, to show what it costs and buys.
OTHER_RHOS = ("1", "10")


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy and packages per person so far, by round."""

    accuracy: NDArray[np.float64]
    packages: NDArray[np.float64]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--data", type=Path, help="people file with two labels instead of generated people")
    parser.add_argument("--people", type=int, default=17_000, help="people to train on")
    parser.add_argument("--test-people", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=1_260, help="words of each person")
    parser.add_argument("--signal", type=float, default=0.16, help="how much a word leans to one side")
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--rho", default="3", help="thinning of swift")
    parser.add_argument("--swift-rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", type=Path, default=Path("bench-rounds.png"))


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Train, compare, draw."""
    started = time.perf_counter()
    options.check_writable(arguments.plot, "--plot")
    pegasos: dict[str, list[Curve]] = {text: [] for text in LAMBDAS}
    n_people = 0
    rhos = sorted({arguments.rho, *OTHER_RHOS}, key=Fraction)
    swift: dict[str, list[Curve]] = {rho: [] for rho in rhos}
    for seed in range(1, arguments.seeds + 1):
        split = _people(arguments, seed)
        n_people = len(split.rows)
        say(f"seed {seed} of {arguments.seeds}: {n_people} people")
        for text in LAMBDAS:
            rule = Pegasos(lambda_=Fraction(text))
            pegasos[text].append(_curve(rule, Thinning(), split, PEGASOS_ROUNDS, arguments))
        for rho in rhos:
            swift[rho].append(_curve(Swift(), Thinning(rho=Fraction(rho)), split, arguments.swift_rounds, arguments))
    means = {text: _mean(curves) for text, curves in pegasos.items()}
    best = max(LAMBDAS, key=lambda text: means[text].accuracy[-1])
    target = float(means[best].accuracy[-1])
    slow = _reach(means[best], target)
    assert slow is not None
    thinned = {rho: _mean(curves) for rho, curves in swift.items()}
    reached = {rho: _reach(curve, target) for rho, curve in thinned.items()}
    quick = reached[arguments.rho]
    result: dict[str, object] = {
        "rounds_ratio": None if quick is None else slow[0] / quick[0],
        "packages_ratio": None if quick is None else slow[1] / quick[1],
        "rounds_ratio_to_200": None if quick is None else PEGASOS_ROUNDS / quick[0],
        "packages_ratio_to_200": None if quick is None else float(means[best].packages[-1]) / quick[1],
        "target_accuracy": target,
        "pegasos": {"lambda": best, "rounds": slow[0], "packages": slow[1]},
        "swift": {f"rho={rho}": _told(reached[rho], thinned[rho]) for rho in rhos},
        "pegasos_accuracy": {text: _at(means[text]) for text in LAMBDAS},
        "people": n_people,
        "bins": arguments.bins,
        "seeds": arguments.seeds,
    }
    curves = {f"pegasos, λ = {best}": means[best]} | {f"swift, ρ = {rho}": thinned[rho] for rho in rhos}
    drawn = _draw_curves({name: (c.accuracy, c.packages) for name, c in curves.items()}, target=target)
    write_atomically(arguments.plot, drawn)
    result["plot"] = str(arguments.plot)
    result["seconds"] = round(time.perf_counter() - started, 1)
    result["peak_rss_mb"] = round(memory_mb(), 1)
    return result


def _people(arguments: argparse.Namespace, seed: int) -> Split:
    salt = options.salt_bytes(None, seed)
    if arguments.data is not None:
        binning = HashBinning(n_bins=arguments.bins, salt=salt)
        return file_split(arguments.data, binning, test_share=Fraction(1, 10), seed=options.seed_bytes(seed))
    recipe = ZipfPeople(
        n_people=arguments.people + arguments.test_people, words_per_person=arguments.words, signal=arguments.signal
    )
    return zipf_split(recipe, bins=arguments.bins, test_people=arguments.test_people, salt=salt, seed=seed)


def _curve(rule: DescentRule, thinning: Thinning, split: Split, rounds: int, arguments: argparse.Namespace) -> Curve:
    experiment = Experiment(n_bins=arguments.bins, labels=("a", "b"), rule=rule, thinning=thinning)
    training = OfflineTraining(experiment, seed=b"bench", threads=arguments.threads)
    evaluator = Evaluator(experiment, split.test_rows, threads=arguments.threads)
    people = Population(rows=split.rows, labels=split.labels)
    accuracy, packages = [], []

    def note(_round: int, weights: Weights) -> None:
        accuracy.append(float((evaluator.labels(weights) == split.test_labels).mean()))
        packages.append(training.packages_sent / len(people))

    fit_rounds(training, people, rounds=rounds, on_round=note)
    return Curve(np.array(accuracy), np.array(packages))


def _mean(curves: list[Curve]) -> Curve:
    return Curve(
        np.mean([c.accuracy for c in curves], axis=0, dtype=np.float64),
        np.mean([c.packages for c in curves], axis=0, dtype=np.float64),
    )


def _reach(curve: Curve, target: float) -> tuple[int, float] | None:
    """First round at the target, and the packages until then."""
    there = np.flatnonzero(curve.accuracy >= target)
    return (int(there[0]) + 1, float(curve.packages[there[0]])) if there.size else None


def _told(reached: tuple[int, float] | None, curve: Curve) -> dict[str, Any]:
    rounds, packages = reached or (None, None)
    return {"rounds": rounds, "packages": packages, "accuracy": _at(curve)}


def _at(curve: Curve) -> dict[str, float]:
    """Accuracy at a few rounds."""
    marks = [t for t in (1, 5, 10, 20, 30, 60, 100, 200) if t <= len(curve.accuracy)]
    return {str(t): round(float(curve.accuracy[t - 1]), 4) for t in marks}


def _draw_curves(curves: Mapping[str, tuple[Any, Any]], *, target: float) -> bytes:
    """Accuracy of several rules, by rounds and by packages per person: pairs of both, one entry per round."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    by_rounds, by_packages = figure.subplots(1, 2, sharey=True)
    for name, (accuracy, packages) in curves.items():
        by_rounds.plot(range(1, len(accuracy) + 1), accuracy, linewidth=1.6, label=name)
        by_packages.plot(packages, accuracy, linewidth=1.6, label=name)
    for axes, label in ((by_rounds, "rounds"), (by_packages, "train packages per person so far")):
        axes.axhline(target, color="#8a8a8a", linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
    by_rounds.set_ylabel("test accuracy")
    by_rounds.legend(frameon=False, loc="center left")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=130, metadata={"Software": None})
    return drawn.getvalue()
