"""How many rounds, and how large a step, real people need under noise: curves beside what the planner picks.

People come from a file (``--data``; the made-up ones of ``examples`` where none is given). Each seed draws who tests,
the hash, the features that take part, and the noise. Noise is normal, of the variance that the covers of two relays
have together, each of them enough for (ε, δ): what everybody sees. For every ε there are

- ``own``: accuracy by rounds with swift's own step, and ρ and floor as they follow from the noise;
- ``law``: accuracy by rounds with the step that follows from the noise;
- ``picked``: rounds, step and ρ of the planner (``secvm.privacy.planning.noise_settings``), and their accuracy;
- ``regret``: the best accuracy of all curves less that of what is picked.

``plain`` is swift without noise. With ``--top-words`` the bins are the most frequent words of the file, which stand for
a public list; with ``--sides`` a label that begins with one of these words is one side, and all others are the other.

    ./secvm bench noise_rounds [--data PEOPLE] [--bins 500 | --top-words K] [--contribution 100] [--seeds 2]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import say
from benchmarks.planner import NoisyCounts
from secvm.cli.offline import options
from secvm.errors import BadInputError
from secvm.estimator.privacy import contributed
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.descent import Swift
from secvm.learning.arithmetic import exact
from secvm.learning.cover_law import MAX_PACKAGES, RELAYS
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.people.person import People
from secvm.people.reader import read_people
from secvm.privacy.planning.noise_settings import NoiseSettings, noise_settings
from secvm.privacy.planning.relay_plan import RelayPlan, RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import Fitted
from secvm_lab.baselines.plain import run_rounds

EXAMPLE = Path(__file__).parents[1] / "examples" / "people.jsonl"
PLAIN_ROUNDS, PLAIN_RHO = 30, Fraction(8)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--data", type=Path, default=EXAMPLE, help="people file")
    parser.add_argument("--sides", nargs="*", default=[], metavar="WORD", help="labels that begin so are one side")
    parser.add_argument("--people", type=int, help="people to train on; all but those who test, unless given")
    parser.add_argument("--test-people", type=int, default=4_000, help="a quarter of the file at most")
    parser.add_argument("--bins", type=int, default=500)
    parser.add_argument("--top-words", type=int, help="instead of hashing: so many words of the file are the bins")
    parser.add_argument("--contribution", type=int, default=100, help="bins of a person that take part, at most")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4, 8])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 2, 4, 8, 16, 24, 32])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One seed's people. Secret: it does not print itself."""

    train: Population
    test_rows: BinnedRows
    test_labels: NDArray[np.int64]
    contribution: int
    seed: int

    @property
    def bins(self) -> int:
        return self.test_rows.n_bins

    def settings(self, epsilon: float, delta: float, rounds: int | None = None) -> NoiseSettings:
        """Those of the planner."""
        return noise_settings(
            people=len(self.train), bins=self.bins, contribution=self.contribution, epsilon=epsilon, delta=delta,
            covers=RELAYS, rounds=rounds,
        )  # fmt: skip

    def noise(self, settings: NoiseSettings, epsilon: float, delta: float) -> float:
        """Standard deviation of all covers in each count."""
        target = PrivacyTarget(exact(epsilon), exact(delta), most_packages=MAX_PACKAGES)
        question = RelayQuestion(
            target=target, people=len(self.train), bins=self.bins,
            features=self.contribution, rounds=settings.rounds, thinning=settings.thinning, train_share=Fraction(1),
        )  # fmt: skip
        return _planned(question).noise_per_cell

    def accuracy(self, rule: Swift, rho: Fraction, rounds: int, sigma: float) -> float:
        """Of the last model, on those who did not train."""
        experiment = Experiment(n_bins=self.bins, labels=("0", "1"), rule=rule, thinning=Thinning(rho=rho))
        noise = NoisyCounts(sigma, self.seed)
        training = OfflineTraining(experiment, seed=options.seed_bytes(self.seed), noise=noise)
        weights, _ = run_rounds(training, self.train.rows, self.train.labels, rounds)
        return Fitted("", weights, experiment.models).evaluate(self.test_rows, self.test_labels)


@cache
def _planned(question: RelayQuestion) -> RelayPlan:
    """Takes seconds, and every seed asks for the same."""
    return plan_relays(question)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Curves, what the planner picks, and how far that is from the best, as means over seeds."""
    began = time.perf_counter()
    if arguments.seeds < 1 or min(arguments.rounds) < 1:
        raise BadInputError("--seeds and --rounds must be at least 1")
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    splits = [_split(arguments, seed) for seed in seeds]
    plain = [split.accuracy(Swift(), PLAIN_RHO, PLAIN_ROUNDS, 0.0) for split in splits]
    curves = [_curves(arguments, splits, epsilon) for epsilon in arguments.epsilons]
    regrets = [float(str(curve["regret"])) for curve in curves]
    return {
        "data": arguments.data.name,
        "people": len(splits[0].train),
        "test_people": len(splits[0].test_labels),
        "bins": splits[0].bins,
        "contribution": arguments.contribution,
        "seeds": list(seeds),
        "plain": _mean(plain),
        "curves": curves,
        "regret_worst": max(regrets),
        "regret_mean": round(math.fsum(regrets) / len(regrets), 4),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _curves(arguments: argparse.Namespace, splits: list[Split], epsilon: float) -> dict[str, object]:
    def reached(settings: NoiseSettings, rule: Swift) -> float:
        return _mean(
            [
                split.accuracy(rule, settings.rho, settings.rounds, split.noise(settings, epsilon, arguments.delta))
                for split in splits
            ]
        )

    own: dict[str, float] = {}
    law: dict[str, float] = {}
    for rounds in arguments.rounds:
        settings = splits[0].settings(epsilon, arguments.delta, rounds)
        own[str(rounds)] = reached(settings, replace(settings.rule, step_size=Swift().step_size))
        law[str(rounds)] = reached(settings, settings.rule)
        say(f"ε = {epsilon:g}, {rounds} rounds: {own[str(rounds)]:.4f}, {law[str(rounds)]:.4f}")
    picked = splits[0].settings(epsilon, arguments.delta)
    accuracy = reached(picked, picked.rule)
    return {
        "epsilon": epsilon,
        "own": own,
        "law": law,
        "picked": {
            "rounds": picked.rounds,
            "step_size": float(picked.step_size),
            "rho": float(picked.rho),
            "accuracy": accuracy,
        },
        "regret": round(max(accuracy, *own.values(), *law.values()) - accuracy, 4),
    }


def _split(arguments: argparse.Namespace, seed: int) -> Split:
    people, labels = _people(arguments, seed)
    order = np.random.default_rng([seed, 1]).permutation(len(people))
    testers = min(arguments.test_people, len(people) // 4)
    test, train = order[:testers], order[testers:][: arguments.people]
    if not len(test) or not len(train):
        raise BadInputError("there must be somebody to train on and somebody to test")
    rows = contributed(people.rows.take(train), arguments.contribution, options.seed_bytes(seed))
    return Split(
        train=Population(rows=rows, labels=labels[train]),
        test_rows=people.rows.take(test).present(),
        test_labels=labels[test],
        contribution=arguments.contribution,
        seed=seed,
    )


def _people(arguments: argparse.Namespace, seed: int) -> tuple[People, NDArray[np.int64]]:
    """Everybody of the file with the sides 0 and 1."""
    if arguments.top_words is None:
        binning = HashBinning(n_bins=arguments.bins, salt=options.salt_bytes(None, seed))
        people = read_people(arguments.data, binning, presence=True)
    else:
        people = read_people(arguments.data, None, presence=True)
        words, counts = people.binning, np.bincount(people.rows.bins, minlength=people.rows.n_bins)
        assert isinstance(words, VocabularyBinning)
        top = np.sort(np.argsort(-counts, kind="stable")[: arguments.top_words])
        kept = VocabularyBinning(tuple(words.words[i] for i in top.tolist()))
        people = read_people(arguments.data, kept, presence=True)
    one_side = [name.startswith(tuple(arguments.sides)) for name in people.label_names]
    if not arguments.sides:
        if len(people.label_names) != 2:
            raise BadInputError("this benchmark needs people of exactly two labels, or --sides")
        one_side = [False, True]
    return people, np.array(one_side, dtype=np.int64)[people.label_codes]


def _mean(values: list[float]) -> float:
    return round(math.fsum(values) / len(values), 4)
