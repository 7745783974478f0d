"""What hashing, few features, thinning and cover cost in accuracy: the table that the planner beside the form reads.

People are generated (Zipf and Mandelbrot, two labels; see ``secvm_lab.population``). *Central* is swift over all
words of everybody, each word a bin of its own, nothing thinned, no noise: what somebody with all the data would reach.
Against it stand

- ``plain``: so many people, bins and features of a person (F), thinned by ρ = 3, thirty rounds;
- ``noise``: the same at one number of people and one F, with noise in every count, for several numbers of rounds, and
  with swift's floor as it follows from the noise (``secvm.privacy.planning.noise_settings``).

Noise is normal, of the variance that cover would have, and told as the length of what it adds to a round's mean
direction, where a person's own row has length 1 (``planning.planner`` computes it for a plan). ``checks`` hold
the table to the real thing: other people, F and ρ than the table's, and two relays' real cover. Predicted is with all
words of a person, as devices do; an experiment's own test results see F of them. With ``--write`` the table goes where
the planner finds it.

    ./secvm bench planner [--seeds 3] [--write]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks._measuring import say
from secvm.estimator.training import OfflineTraining
from secvm.files import write_atomically
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.noise_settings import floor_for
from secvm.privacy.planning.relay_plan import RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import Fitted
from secvm_lab.baselines.plain import run_rounds
from secvm_lab.population import ZipfPeople

TABLE = Path(__file__).parents[1] / "src" / "secvm" / "dashboard" / "accuracy_cost.json"
RHO = Fraction(3)
ROUNDS = 30
#: Axes of the two tables; ``noise`` is at ``NOISE_PEOPLE`` and ``NOISE_FEATURES``.
PEOPLE = (300, 1_000, 3_000, 10_000, 30_000)
BINS = (100, 300, 1_000, 3_000, 10_000)
FEATURES = (10, 30, 100, 300)
NOISE_ROUNDS = (3, 10, 30)
NOISE = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
NOISE_PEOPLE, NOISE_FEATURES = 10_000, 100
TEST_PEOPLE = 5_000
RECIPE = ZipfPeople(words_per_person=max(FEATURES), vocabulary=20_000, signal=0.2, label_noise=0.1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--write", action="store_true", help="put the table where the planner reads it")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """The whole table, means over seeds."""
    began = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    found = [_one_seed(seed, said=began) for seed in seeds]
    table: dict[str, object] = {
        "command": f"./secvm bench planner --seeds {arguments.seeds} --seed {arguments.seed} --write",
        "made_of": "made-up people: Zipf words, two labels, swift",
        "seeds": list(seeds),
        "people": {
            "words_per_person": RECIPE.words_per_person,
            "vocabulary": RECIPE.vocabulary,
            "exponent": RECIPE.exponent,
            "signal": RECIPE.signal,
            "label_noise": RECIPE.label_noise,
            "test": TEST_PEOPLE,
        },
        "rho": str(RHO),
        "rounds": ROUNDS,
        "central": {"people": PEOPLE, "accuracy": _mean([one["central"] for one in found])},
        "plain": {"people": PEOPLE, "bins": BINS, "features": FEATURES, "accuracy": _mean([o["plain"] for o in found])},
        "noise": {
            "people": NOISE_PEOPLE,
            "features": NOISE_FEATURES,
            "rounds": NOISE_ROUNDS,
            "bins": BINS,
            "noise": NOISE,
            "accuracy": _mean([one["noise"] for one in found]),
        },
        "checks": _checks(arguments.seed),
    }
    if arguments.write:
        write_atomically(TABLE, orjson.dumps(table) + b"\n")
    return {**table, "seconds": round(time.perf_counter() - began, 1)}


@dataclass(frozen=True, eq=False, repr=False)
class Crowd:
    """Made-up people, each one's words in an order that says nothing; the last of them do not train."""

    words: NDArray[np.int32]
    labels: NDArray[np.int64]
    salt: bytes

    def rows(self, who: slice, *, bins: int | None, features: int) -> BinnedRows:
        """Some people's first so many words, hashed; ``bins`` None: each word is a bin."""
        quick, some = kernels(), self.words[who, :features]
        places = np.arange(RECIPE.vocabulary, dtype=np.int32)
        if bins is not None:
            keys = HashBinning(n_bins=bins, salt=self.salt).keys
            places = quick.hash_strings([f"word{i}" for i in places], keys, bins)[:, 0]
        offsets = np.arange(len(some) + 1, dtype=np.int64) * some.shape[1]
        return quick.bin_rows(offsets, places[some.ravel()], None, bins or RECIPE.vocabulary).present()


def crowd(seed: int, people: int = max(PEOPLE), test_people: int = TEST_PEOPLE) -> Crowd:
    """So many people who train, and some more who do not."""
    recipe = ZipfPeople(
        **{f.name: getattr(RECIPE, f.name) for f in fields(RECIPE)} | {"n_people": people + test_people}
    )
    words, codes = recipe.generate(seed)
    shuffled = np.random.default_rng([seed, 1]).permuted(words, axis=1)
    return Crowd(shuffled, codes.astype(np.int64), seed.to_bytes(8, "little"))


@dataclass(frozen=True)
class NoisyCounts:
    """Normal noise that is added to counts before a step."""

    #: Standard deviation in each count.
    sigma: float
    seed: int

    def __call__(self, tally: Tally, round_number: int) -> Tally:
        draw = np.random.default_rng([self.seed, round_number - 1])
        plus, minus = (
            side + np.rint(draw.normal(0.0, self.sigma, side.shape)).astype(np.int64)
            for side in (tally.plus, tally.minus)
        )
        return replace(tally, plus=plus, minus=minus)


def accuracy(
    people: Crowd,
    *,
    train: int,
    bins: int | None,
    features: int,
    rho: Fraction | None = RHO,
    rounds: int = ROUNDS,
    noise: float = 0.0,
    seed: int = 0,
    test_people: int = TEST_PEOPLE,
    cover: float | None = None,
) -> tuple[float, float]:
    """Accuracy over those who did not train, and the noise's length; ``cover``: two relays' of this ε instead."""
    rows = people.rows(slice(0, train), bins=bins, features=features)
    asked: dict[str, Any] = {
        "n_bins": rows.n_bins,
        "labels": ("0", "1"),
        "thinning": Thinning(rho=rho),
        "fixed_point_rows": rho is None,
    }
    if cover is not None:
        assert rho is not None
        made = plan_relays(
            RelayQuestion(
                target=PrivacyTarget(exact(cover)), people=train, bins=rows.n_bins, features=features, rounds=rounds,
                thinning=Thinning(rho=rho), train_share=Fraction(1),
            )
        )  # fmt: skip
        noise = math.sqrt(2 * (rows.n_bins + 1)) * made.noise_per_cell / (float(rho) * train)
        asked |= {"features_per_person": features, "cover": made.cover}
    floor = floor_for(noise / math.sqrt(rows.n_bins + 1), bins=rows.n_bins, cells=features + 1)
    asked["rule"] = Swift(floor=floor)
    experiment, added = Experiment(**asked), None
    if noise and cover is None:
        added = NoisyCounts(noise * float(rho or 1) * train / math.sqrt(2 * (rows.n_bins + 1)), seed)
    training = OfflineTraining(experiment, seed=seed.to_bytes(8, "little"), noise=added)
    weights, _ = run_rounds(training, rows, people.labels[:train], rounds)
    held_out = people.rows(slice(-test_people, None), bins=bins, features=max(FEATURES))
    return Fitted("", weights, experiment.models).evaluate(held_out, people.labels[-test_people:]), noise


def _one_seed(seed: int, *, said: float) -> dict[str, NDArray[np.float64]]:
    people = crowd(seed)
    every = max(FEATURES)
    central = [accuracy(people, train=n, bins=None, features=every, rho=None, seed=seed)[0] for n in PEOPLE]
    _say(seed, "central", said)
    plain = [
        [[accuracy(people, train=n, bins=bins, features=f, seed=seed)[0] for f in FEATURES] for bins in BINS]
        for n in PEOPLE
    ]
    _say(seed, "plain", said)
    noise = [
        [
            [
                accuracy(people, train=NOISE_PEOPLE, bins=bins, features=NOISE_FEATURES, rounds=t, noise=x, seed=seed)[
                    0
                ]
                for x in NOISE
            ]
            for bins in BINS
        ]
        for t in NOISE_ROUNDS
    ]
    _say(seed, "noise", said)
    return {"central": np.array(central), "plain": np.array(plain), "noise": np.array(noise)}


#: Settings that the table does not have, and real cover.
_CHECKED: tuple[dict[str, float | int | Fraction], ...] = (
    {"train": 5_000, "bins": 1_000, "features": 50},
    {"train": 2_000, "bins": 2_000, "features": 100, "rho": Fraction(1)},
    {"train": 20_000, "bins": 5_000, "features": 200, "rho": Fraction(6)},
    {"train": 10_000, "bins": 1_000, "features": 100, "rounds": 10, "rho": Fraction(1), "cover": 1.0},
    {"train": 10_000, "bins": 1_000, "features": 30, "rounds": 10, "cover": 2.0},
    {"train": 5_000, "bins": 500, "features": 100, "rounds": 10, "cover": 2.0},
    {"train": 20_000, "bins": 3_000, "features": 100, "rounds": 20, "cover": 1.0},
)


def _checks(seed: int) -> list[dict[str, object]]:
    people = crowd(seed + 1_000)
    told: list[dict[str, object]] = []
    for settings in _CHECKED:
        found, noise = accuracy(people, **settings, seed=seed)  # type: ignore[arg-type]  # a table of settings
        central, _ = accuracy(
            people, train=int(settings["train"]), bins=None, features=max(FEATURES), rho=None, seed=seed
        )
        numbers = {name: float(value) for name, value in settings.items()}
        told.append({**numbers, "noise": round(noise, 5), "central": round(central, 4), "accuracy": round(found, 4)})
    return told


def _mean(each: list[NDArray[np.float64]]) -> list[object]:
    mean = np.stack(each).mean(axis=0, dtype=np.float64)
    return list(np.around(np.asarray(mean), 4).tolist())


def _say(seed: int, part: str, began: float) -> None:
    say(f"seed {seed}: {part} ({time.perf_counter() - began:.0f} s)")
