"""Other ways to learn from the same people: a trusted server, DP-SGD, local privacy, federated averaging, exact sums.

People are generated (Zipf and Mandelbrot, see ``secvm_lab.population``) or read from ``--data``, hashed and split;
each seed has its own people, hash and noise. All baselines train on the same clipped rows. Those that share our rule
(plain, central Gaussian, secure summation) run it with the constants given here; the others have their own.
``points_below_plain`` is 100 times what is lost against the same rule without noise. ``peak_rss_mb`` is the largest
memory of the process until then, so that it can only grow from row to row.

    ./secvm bench baselines [--data PEOPLE] [--epsilon 1] [--rounds 10] [--seeds 5]
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from pathlib import Path

from benchmarks._measuring import memory_mb, say
from secvm.cli.offline import options
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.individual.binning import HashBinning
from secvm_lab.baselines.baseline import Baseline
from secvm_lab.baselines.central_gaussian import CentralGaussian
from secvm_lab.baselines.compare import Split, compare, file_split, zipf_split
from secvm_lab.baselines.dp_sgd import DPSGD
from secvm_lab.baselines.local_dp import FedSel, OneShot
from secvm_lab.baselines.plain import Plain, SecureSummation
from secvm_lab.baselines.unprotected import FederatedAveraging
from secvm_lab.population import ZipfPeople

#: Of federated averaging: it spends no ε, so that its rounds need not be few.
FREE_ROUNDS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--data", type=Path, help="people file with two labels instead of generated people")
    parser.add_argument("--people", type=int, default=10_000, help="people to train on")
    parser.add_argument("--test-people", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=100, help="words of each person")
    parser.add_argument("--vocabulary", type=int, default=20_000)
    parser.add_argument("--signal", type=float, default=0.3, help="how much a word leans to one side")
    parser.add_argument("--label-noise", type=float, default=0.05, help="share of labels turned over")
    parser.add_argument("--bins", type=int, default=1_000)
    parser.add_argument("--contribution", type=int, default=100, help="F: at most so many bins of a person")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--rule", choices=("swift", "pegasos"), default="swift")
    parser.add_argument("--step-size", default="30", help="of swift")
    parser.add_argument("--floor", default="1", help="of swift's popularity: the larger, the evener its steps")
    parser.add_argument("--lambda", default="1e-3", dest="lambda_", help="of Pegasos")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All baselines on the same people."""
    began = time.perf_counter()
    if arguments.seeds < 1:
        raise BadInputError("--seeds must be at least 1")
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    sizes: list[int] = []

    def people(seed: int) -> Split:
        split = _people(arguments, seed)
        sizes.append(len(split.rows))
        return split

    found = compare(baselines(arguments), people, seeds, on_fit=_say)
    plain = found["plain"].mean
    rows = {
        name: {**row.told(), "points_below_plain": round(100 * (plain - row.mean), 2)} for name, row in found.items()
    }
    return {
        "baselines": rows,
        "people": sizes[-1],
        "bins": arguments.bins,
        "contribution": arguments.contribution,
        "rounds": arguments.rounds,
        "rule": {"name": arguments.rule, **rule(arguments).parameters()},
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "seeds": list(seeds),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_rss_mb": round(memory_mb(), 1),
    }


def baselines(arguments: argparse.Namespace) -> list[Baseline]:
    """What is compared."""
    ours = rule(arguments)
    epsilon, delta = arguments.epsilon, arguments.delta
    rounds, contribution = arguments.rounds, arguments.contribution
    return [
        Plain(rounds, contribution, ours),
        CentralGaussian(epsilon, delta, rounds, contribution, ours),
        DPSGD(epsilon, delta, contribution),
        OneShot(epsilon, 1, contribution, "sphere"),
        OneShot(epsilon, 5, contribution, "cell"),
        FedSel(epsilon, delta, rounds, contribution),
        FederatedAveraging(FREE_ROUNDS, contribution),
        SecureSummation(rounds, contribution, ours),
    ]


def rule(arguments: argparse.Namespace) -> DescentRule:
    """The rule that plain, central Gaussian and secure summation share."""
    if arguments.rule == "pegasos":
        return Pegasos(lambda_=options.number(arguments.lambda_, "--lambda"))
    return Swift(
        step_size=options.number(arguments.step_size, "--step-size"), floor=options.number(arguments.floor, "--floor")
    )


def _people(arguments: argparse.Namespace, seed: int) -> Split:
    salt = options.salt_bytes(None, seed)
    if arguments.data is not None:
        binning = HashBinning(n_bins=arguments.bins, salt=salt)
        return file_split(arguments.data, binning, test_share=Fraction(1, 10), seed=options.seed_bytes(seed))
    recipe = ZipfPeople(
        n_people=arguments.people + arguments.test_people,
        words_per_person=arguments.words,
        vocabulary=arguments.vocabulary,
        signal=arguments.signal,
        label_noise=arguments.label_noise,
    )
    return zipf_split(recipe, bins=arguments.bins, test_people=arguments.test_people, salt=salt, seed=seed)


def _say(seed: int, name: str, accuracy: float) -> None:
    say(f"seed {seed}: {name} {accuracy:.4f}")
