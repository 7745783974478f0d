"""One sweep by one process with two threads, and by two workers of dask with a thread each, on this machine.

So what a cluster costs that brings no machine along: sending people, or making them on each worker, and results on
their way back. Made-up people at the shape of the paper's Twitter data. ``ratio_*`` is the cluster's time over that of
one process; the recipe's, with making the people on both sides. ``identical`` compares states and curves, byte for
byte. Kernels are loaded and workers are there before anything is timed.

    ./secvm bench cluster_sweep [--people 20000] [--models 32] [--rounds 30] [--bins 95880]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from distributed import LocalCluster

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm_lab.cluster.sweep import ClusterSweep
from secvm_lab.engine import Swept, sweep
from secvm_lab.paper.offline.crowd import MadeUpCrowd, Recipe
from secvm_lab.paper.twitter.people import TwitterPeople

SALT = b"many machines".ljust(32)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--bins", type=int, default=95_880)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)


def timed(models: Iterable[Swept]) -> tuple[float, list[bytes]]:
    begun = time.perf_counter()
    found = [one.state.to_bytes() + one.cells.tobytes() for one in models]
    return time.perf_counter() - begun, found


def run(arguments: argparse.Namespace) -> dict[str, object]:
    people = TwitterPeople(n_people=arguments.people)
    recipe, small = (
        Recipe(MadeUpCrowd(crowd, arguments.seed), arguments.bins, hashes=1, salt=SALT)
        for crowd in (people, people.with_people(64))
    )
    labels = recipe.crowd.labels()
    rule = Pegasos(lambda_=Fraction(1, 10_000), averaging=2)
    experiments = [Experiment(n_bins=arguments.bins, labels=("0", "1"), rule=rule)] * arguments.models
    train = np.random.default_rng(arguments.seed).random((arguments.people, arguments.models)) < 0.9
    how: dict[str, Any] = {"train": train, "rounds": arguments.rounds}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=arguments.workers,
            threads_per_worker=1,
            host="127.0.0.1",
            scheduler_port=0,
            dashboard_address="127.0.0.1:0",
            local_directory=folder,
            memory_limit=0,
        ) as cluster,
        ClusterSweep(cluster.scheduler_address) as far,
    ):
        warm: dict[str, Any] = {"train": train[:64], "rounds": 3}
        timed(sweep(small.prepared(), labels[:64], experiments, **warm, threads=arguments.workers))
        timed(far(small, labels[:64], experiments, **warm))
        begun = time.perf_counter()
        rows = recipe.prepared(threads=arguments.workers)
        make_seconds = time.perf_counter() - begun
        near, expected = timed(sweep(rows, labels, experiments, **how, threads=arguments.workers))
        sent, first = timed(far(rows, labels, experiments, **how))
        there, second = timed(far(rows, labels, experiments, **how))
        made, third = timed(far(recipe, labels, experiments, **how))
    return {
        "people": arguments.people,
        "models": arguments.models,
        "rounds": arguments.rounds,
        "bins": arguments.bins,
        "workers": arguments.workers,
        "make_seconds": round(make_seconds, 2),
        "one_process_seconds": round(near, 2),
        "cluster_seconds_rows_sent": round(sent, 2),
        "cluster_seconds_rows_there": round(there, 2),
        "cluster_seconds_recipe": round(made, 2),
        "ratio_rows_sent": round(sent / near, 3),
        "ratio_rows_there": round(there / near, 3),
        "ratio_recipe": round(made / (make_seconds + near), 3),
        "identical": first == second == third == expected,
    }
