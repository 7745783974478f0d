"""What a formal guarantee costs: accuracy x epsilon x packages x rounds, beside a trusted server and local privacy.

People are generated (Zipf and Mandelbrot, see ``secvm_lab.population``), their words hashed; each seed has its own
people, hash and noise, and every way to learn sees the same people.

- ``plain``: swift without noise, with its own constants, ten rounds, rows whole;
- ``shuffle_dp``: two relays' cover, settings from public numbers alone (``secvm.privacy.planning.relay_plan``);
- ``central``: a server that is trusted with all rows and adds Gaussian noise, with the same rule and rounds;
- ``local``: nobody is trusted and there is no shuffler: the better of two local schemes.

B (``budget_per_device_round``) is what a device sends in a round, ``relay_packages`` what each of the relays adds.
``variants`` are the same with whole rows, and with cover that devices add themselves, all of them honest.
``bins_curve`` is the plan for other numbers of bins, with the accuracy of the first seed. ``frontier`` is the rest of
the trade. With ``--seal`` one relay's cover is drawn, sealed and sorted too (``relay_cover.py``). Accuracy is measured
on people who did not train, without noise.

    ./secvm bench cover [--epsilon 1] [--seeds 10] [--picture frontier.svg] [--seal]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import relay_cover
from benchmarks._measuring import memory_mb, say
from secvm.errors import BadInputError
from secvm.estimator.privacy import PrivacyPlan, planned
from secvm.files import write_atomically
from secvm.learning.arithmetic import exact
from secvm.pages.figure import Curve, Figure, NamedPlace
from secvm.pages.pictures import picture
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import Baseline
from secvm_lab.baselines.central_gaussian import CentralGaussian
from secvm_lab.baselines.compare import Compared, Split, compare, zipf_split
from secvm_lab.baselines.device_cover import DeviceCover
from secvm_lab.baselines.local_dp import OneShot
from secvm_lab.baselines.plain import Plain, RelayedCover
from secvm_lab.population import ZipfPeople

PLAIN_ROUNDS = 10
FRONTIER_EPSILONS = (0.5, 1.0, 2.0, 4.0)
FRONTIER_ROUNDS = (1, 2, 5, 10)
CURVE_BINS = (100, 1_000, 10_000)


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
    parser.add_argument("--rounds", type=int, help="instead of those that follow from public numbers")
    parser.add_argument("--rho", type=float, help="thinning instead of the one that follows from public numbers")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=11, help="the first of them; settings were tried out on 1 to 10")
    parser.add_argument("--frontier-seeds", type=int, default=2, help="seeds for the frontier; 0 leaves it away")
    parser.add_argument("--short", action="store_true", help="leave variants, other bins and the frontier away")
    parser.add_argument("--seal", action="store_true", help="draw, seal and sort one relay's cover as well")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="draw the frontier into this SVG file")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Everything on the same people."""
    began = time.perf_counter()
    if arguments.seeds < 1 or arguments.frontier_seeds < 0:
        raise BadInputError("--seeds must be at least 1, and --frontier-seeds must not be negative")
    if arguments.picture is not None and (arguments.short or not arguments.frontier_seeds):
        raise BadInputError("the picture shows the frontier, which needs --frontier-seeds and goes not with --short")
    splits: dict[int, Split] = {}

    def people(seed: int) -> Split:
        # The frontier has the same people as the first seeds, and makes them only once.
        split = splits.pop(seed, None) or _people(arguments, seed)
        if seed - arguments.seed < arguments.frontier_seeds:
            splits[seed] = split
        return split

    main = _covered(arguments, "shuffle_dp", rounds=arguments.rounds, rho=arguments.rho)
    # ρ of the longest row: nobody has a unit that is thinned away.
    whole = _covered(arguments, "whole", rounds=arguments.rounds, rho=(arguments.features + 1) ** 0.5 + 1e-3)
    devices = DeviceCover(main.target, arguments.features, threads=arguments.threads)
    settings = main.plan.settings
    # The better of them is shown.
    local = [
        OneShot(arguments.epsilon, 1, arguments.features),
        OneShot(arguments.epsilon, 1, arguments.features, "cell"),
    ]
    ways: list[Baseline] = [
        Plain(PLAIN_ROUNDS, arguments.features),
        main,
        CentralGaussian(arguments.epsilon, arguments.delta, settings.rounds, arguments.features, settings.rule),
        *local,
    ]
    if not arguments.short:
        ways += [whole, devices]
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
        **main.plan.content(),
        "local_scheme": best_local.name,
        "seeds": arguments.seeds,
        "people": arguments.people,
        "bins": arguments.bins,
        "features": arguments.features,
    }
    if not arguments.short:
        result["variants"] = {
            "whole": _row(whole, found["whole"], figures["plain"]),
            devices.name: {**_accuracy(found[devices.name], figures["plain"]), **found[devices.name].notes},
        }
        result["bins_curve"] = [_with_bins(arguments, bins) for bins in CURVE_BINS]
    if arguments.frontier_seeds and not arguments.short:
        frontier, plain = _frontier(arguments, people)
        result["frontier"] = frontier
        if arguments.picture is not None:
            write_atomically(arguments.picture, draw(frontier, plain=plain).encode())
    if arguments.seal:
        result["one_relay"] = _sealed(arguments, main.plan)
    result["peak_rss_mb"] = round(memory_mb())
    result["seconds"] = round(time.perf_counter() - began, 1)
    return result


def _people(arguments: argparse.Namespace, seed: int, bins: int | None = None) -> Split:
    recipe = ZipfPeople(
        n_people=arguments.people + arguments.test_people,
        words_per_person=arguments.features,
        vocabulary=arguments.vocabulary,
        signal=arguments.signal,
        label_noise=arguments.label_noise,
    )
    salt = seed.to_bytes(8, "little")
    return zipf_split(recipe, bins=bins or arguments.bins, test_people=arguments.test_people, salt=salt, seed=seed)


def _covered(
    arguments: argparse.Namespace,
    name: str,
    *,
    epsilon: float | None = None,
    bins: int | None = None,
    rounds: int | None = None,
    rho: float | None = None,
) -> RelayedCover:
    target = PrivacyTarget(exact(epsilon or arguments.epsilon), exact(arguments.delta))
    plan = planned(
        target,
        people=arguments.people,
        bins=bins or arguments.bins,
        labels=2,
        features=arguments.features,
        rounds=rounds,
        rho=rho,
    )
    return RelayedCover(target, plan, arguments.features, name, arguments.threads)


def _accuracy(found: Compared, plain: Compared) -> dict[str, object]:
    return {
        "accuracy": round(found.mean, 4),
        "accuracy_sd": round(found.sd, 4),
        "points_below_plain": round(100 * (plain.mean - found.mean), 2),
    }


def _row(way: RelayedCover, found: Compared, plain: Compared) -> dict[str, object]:
    told = way.plan.content()
    kept = ("epsilon", "rounds", "rho", "budget_per_device_round", "relay_packages", "noise_per_cell")
    return {**_accuracy(found, plain), **{key: told[key] for key in kept}}


def _with_bins(arguments: argparse.Namespace, bins: int) -> dict[str, object]:
    """The same question with so many bins, on the people of the first seed."""
    way, plain = _covered(arguments, "shuffle_dp", bins=bins), Plain(PLAIN_ROUNDS, arguments.features)
    found = compare([plain, way], lambda seed: _people(arguments, seed, bins), [arguments.seed], on_fit=_say)
    return {"bins": bins, **_row(way, found["shuffle_dp"], found["plain"])}


def _sealed(arguments: argparse.Namespace, plan: PrivacyPlan) -> dict[str, object]:
    """One relay's cover of a round, drawn, sealed and sorted."""
    cover = plan.cover
    return relay_cover.run(
        argparse.Namespace(
            bins=arguments.bins,
            packages=cover.packages,
            parts=cover.parts,
            shape=cover.train.shape,
            odds=cover.train.odds,
            threads=arguments.threads,
            readable=False,
        )
    )


def _frontier(arguments: argparse.Namespace, people: Callable[[int], Split]) -> tuple[list[dict[str, object]], float]:
    """Every ε with every number of rounds, thinning as it follows; and the same people's accuracy without noise."""
    ways = [
        _covered(arguments, f"epsilon {epsilon:g}, {rounds} rounds", epsilon=epsilon, rounds=rounds)
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
    figure = Figure(
        "cover",
        title="What a formal guarantee costs",
        description="Accuracy over epsilon for several numbers of rounds, with the packages that a device sends.",
        across="epsilon",
        up="accuracy",
        curves=curves,
        log_across=True,
        lowest=math.floor(20 * min(shown)) / 20,
        highest=math.ceil(20 * max(shown)) / 20,
        places=[NamedPlace(epsilon, f"{epsilon:g}") for epsilon in FRONTIER_EPSILONS],
    )
    return picture(figure, "svg").decode()


def _say(seed: int, name: str, accuracy: float) -> None:
    say(f"seed {seed}: {name} {accuracy:.4f}")
