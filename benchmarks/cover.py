"""What a formal guarantee costs: accuracy x epsilon x packages x rounds, beside a trusted server and local privacy.

People are generated (Zipf and Mandelbrot, see ``secvm.lab.population.zipf``), their words hashed; each seed has its own
people, hash and noise, and every way to learn sees the same people.

- ``plain``: swift without noise, with its own constants, ten rounds, rows whole;
- ``shuffle_dp``: cover packages, settings from public numbers alone (``secvm.privacy.noise_settings``);
- ``central``: a server that is trusted with all rows and adds Gaussian noise, with the same rule and rounds;
- ``local``: nobody is trusted and there is no shuffler: the better of two local schemes.

B (``budget_per_device_round``) is what a device sends in a round, with the caps of all kinds of cover, of participation
and of tests. ``variants`` are the same with fewer honest devices, thinned and whole; ``frontier`` is the rest of the
trade. Accuracy is measured on people who did not train, without noise.

    python benchmarks/cover.py [--epsilon 1] [--gamma 1] [--seeds 10] [--picture frontier.svg]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson

from secvm.errors import BadInputError
from secvm.estimator.privacy import Privacy, PrivacyPlan
from secvm.files import write_atomically
from secvm.lab.baselines.baseline import Baseline
from secvm.lab.baselines.central_gaussian import CentralGaussian
from secvm.lab.baselines.compare import Compared, Split, compare, zipf_split
from secvm.lab.baselines.cover_packages import CoverPackages
from secvm.lab.baselines.local_dp import OneShot
from secvm.lab.baselines.plain import Plain
from secvm.lab.population.zipf import ZipfPeople
from secvm.pages.figure import Curve, Figure
from secvm.pages.ticks import Tick
from secvm.privacy.accountant import Adjacency
from secvm.privacy.shuffle_dp import epsilon_of

PLAIN_ROUNDS = 10
FRONTIER_EPSILONS = (0.5, 1.0, 2.0, 4.0)
FRONTIER_ROUNDS = (1, 2, 5, 10)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=10_000, help="people to train on")
    parser.add_argument("--test-people", type=int, default=5_000)
    parser.add_argument("--bins", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=100, help="words of each person, all of which take part")
    parser.add_argument("--vocabulary", type=int, default=2_000, help="different words, hashed into the bins")
    parser.add_argument("--signal", type=float, default=0.3, help="how much a word leans to one side")
    parser.add_argument("--label-noise", type=float, default=0.1, help="share of labels turned over")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--gamma", type=float, default=1.0, help="share of devices that must be honest")
    parser.add_argument("--rounds", type=int, help="instead of those that follow from public numbers")
    parser.add_argument("--rho", type=float, help="thinning instead of the one that follows from public numbers")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=11, help="the first of them; settings were tried out on 1 to 10")
    parser.add_argument("--frontier-seeds", type=int, default=2, help="seeds for the frontier; 0 leaves it away")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="draw the frontier into this SVG file")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Everything on the same people."""
    began = time.perf_counter()
    if arguments.seeds < 1 or arguments.frontier_seeds < 0:
        raise BadInputError("--seeds must be at least 1, and --frontier-seeds must not be negative")
    if arguments.picture is not None and not arguments.frontier_seeds:
        raise BadInputError("the picture shows the frontier, which needs --frontier-seeds")
    splits: dict[int, Split] = {}

    def people(seed: int) -> Split:
        # The frontier has the same people as the first seeds, and makes them only once.
        split = splits.pop(seed, None) or _people(arguments, seed)
        if seed - arguments.seed < arguments.frontier_seeds:
            splits[seed] = split
        return split

    asked = Privacy(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        contribution=arguments.features,
        gamma=arguments.gamma,
        rounds=arguments.rounds,
        rho=arguments.rho,
    )
    main = _covered(arguments, asked, "shuffle_dp")
    assert main.plan is not None
    variants = {name: privacy for name, privacy in _variants(arguments).items() if privacy != asked}
    others = [_covered(arguments, privacy, name) for name, privacy in variants.items()]
    local = [OneShot(arguments.epsilon, rounds, arguments.features, kind) for rounds, kind in _LOCAL]
    ways: list[Baseline] = [
        Plain(PLAIN_ROUNDS, arguments.features),
        main,
        CentralGaussian(
            arguments.epsilon,
            arguments.delta,
            main.plan.settings.rounds,
            arguments.features,
            main.plan.settings.rule,
        ),
        *local,
        *others,
    ]
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    found = compare(ways, people, seeds, on_fit=_say)
    best_local = max((found[one.name] for one in local), key=lambda one: one.mean)
    figures = {
        "plain": found["plain"],
        "shuffle_dp": found["shuffle_dp"],
        "central": found["central Gaussian"],
        "local": best_local,
    }
    result: dict[str, object] = {}
    for name, one in figures.items():
        result |= {name: round(one.mean, 4), f"{name}_sd": round(one.sd, 4)}
    mean = found["shuffle_dp"].mean
    result |= {
        "points_below_plain": round(100 * (figures["plain"].mean - mean), 2),
        "points_below_central": round(100 * (figures["central"].mean - mean), 2),
        **main.plan.told(),
        "epsilon_label_flip": round(_label_flip(main.plan), 4),
        "local_scheme": best_local.name,
        "seeds": arguments.seeds,
        "people": arguments.people,
        "bins": arguments.bins,
        "features": arguments.features,
        "variants": {one.name: _row(one, found[one.name], figures["plain"]) for one in others},
    }
    if arguments.frontier_seeds:
        frontier, plain = _frontier(arguments, people)
        result["frontier"] = frontier
        if arguments.picture is not None:
            write_atomically(arguments.picture, draw(frontier, plain=plain).encode())
    result["seconds"] = round(time.perf_counter() - began, 1)
    return result


#: Rounds and kinds of local reports that are tried: the best of them is shown.
_LOCAL = ((1, "sphere"), (1, "cell"))


def _people(arguments: argparse.Namespace, seed: int) -> Split:
    recipe = ZipfPeople(
        n_people=arguments.people + arguments.test_people,
        words_per_person=arguments.features,
        vocabulary=arguments.vocabulary,
        signal=arguments.signal,
        label_noise=arguments.label_noise,
    )
    salt = seed.to_bytes(8, "little")
    return zipf_split(recipe, bins=arguments.bins, test_people=arguments.test_people, salt=salt, seed=seed)


def _covered(arguments: argparse.Namespace, privacy: Privacy, name: str) -> CoverPackages:
    plan = privacy.planned(people=arguments.people, bins=arguments.bins, labels=2)
    return CoverPackages(privacy, name, arguments.threads, plan)


def _variants(arguments: argparse.Namespace) -> dict[str, Privacy]:
    """Whole rows and thinned ones, all devices honest and half of them."""
    asked = Privacy(epsilon=arguments.epsilon, delta=arguments.delta, contribution=arguments.features)
    # ρ of the longest row: nobody has a unit that is thinned away.
    whole = (arguments.features + 1) ** 0.5 + 1e-3
    return {
        "gamma 1, thinned": asked,
        "gamma 1, whole": replace(asked, rho=whole),
        "gamma 0.5, thinned": replace(asked, gamma=0.5),
        "gamma 0.5, whole": replace(asked, gamma=0.5, rho=whole),
    }


def _row(way: CoverPackages, found: Compared, plain: Compared) -> dict[str, object]:
    assert way.plan is not None
    told = way.plan.told()
    kept = ("epsilon", "gamma", "rounds", "rho", "budget_per_device_round", "cover_mean")
    return {
        "accuracy": round(found.mean, 4),
        "accuracy_sd": round(found.sd, 4),
        "points_below_plain": round(100 * (plain.mean - found.mean), 2),
        **{key: told[key] for key in kept},
    }


def _label_flip(plan: PrivacyPlan) -> float:
    made = plan.plan
    return epsilon_of(
        made, delta=made.delta, participants=made.participants, gamma=made.gamma, adjacency=Adjacency.LABEL_FLIP
    )


def _frontier(arguments: argparse.Namespace, people: Callable[[int], Split]) -> tuple[list[dict[str, object]], float]:
    """Every ε with every number of rounds, thinning as it follows; and the same people's accuracy without noise."""
    asked = Privacy(epsilon=1.0, delta=arguments.delta, contribution=arguments.features, gamma=arguments.gamma)
    ways = [
        _covered(arguments, replace(asked, epsilon=epsilon, rounds=rounds), f"epsilon {epsilon:g}, {rounds} rounds")
        for rounds in FRONTIER_ROUNDS
        for epsilon in FRONTIER_EPSILONS
    ]
    plain = Plain(PLAIN_ROUNDS, arguments.features)
    seeds = range(arguments.seed, arguments.seed + arguments.frontier_seeds)
    found = compare([plain, *ways], people, seeds, on_fit=_say)
    return [_row(way, found[way.name], found["plain"]) for way in ways], found["plain"].mean


def draw(frontier: list[dict[str, object]], *, plain: float) -> str:
    """Accuracy over ε for every number of rounds, as an SVG document that stands alone."""
    curves = [Curve("no noise", FRONTIER_EPSILONS, [plain] * len(FRONTIER_EPSILONS), colour=7, dashed=True)]
    for colour, rounds in enumerate(FRONTIER_ROUNDS):
        rows = [row for row in frontier if row["rounds"] == rounds]
        budgets = [int(str(row["budget_per_device_round"])) for row in rows]
        named = f"{rounds} round{'s' if rounds > 1 else ''}, B {min(budgets)} to {max(budgets)}"
        curves.append(Curve(named, FRONTIER_EPSILONS, [float(str(row["accuracy"])) for row in rows], colour=colour))
    shown = [value for curve in curves for value in curve.y]
    return Figure(
        "cover",
        title="What a formal guarantee costs",
        description="Accuracy over epsilon for several numbers of rounds, with the packages that a device sends.",
        across="epsilon",
        up="accuracy",
        curves=curves,
        log_across=True,
        lowest=math.floor(20 * min(shown)) / 20,
        highest=math.ceil(20 * max(shown)) / 20,
        places=[Tick(epsilon, f"{epsilon:g}") for epsilon in FRONTIER_EPSILONS],
    ).svg()


def _say(seed: int, name: str, accuracy: float) -> None:
    sys.stderr.write(f"seed {seed}: {name} {accuracy:.4f}\n")


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(_parser)
    sys.stdout.write(orjson.dumps(run(_parser.parse_args()), option=orjson.OPT_INDENT_2).decode() + "\n")
