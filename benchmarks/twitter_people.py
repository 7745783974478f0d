"""People at the shape of the paper's Twitter data: how many words they use, what they cost, how well Pegasos learns.

Synthetic people (``paper.twitter.people``). ``census`` counts words among the first so many of them beside what the
law foretells; ``expected_words`` is what it foretells for 350,000. ``curve`` is the share of right labels by round, of
people who trained and of a tenth who did not, for full-batch Pegasos as the paper has it (two weight vectors averaged)
on hashed words. Times are wall time, on whatever else the machine does.

    ./secvm bench twitter_people [--people 20000] [--bins 95880] [--rounds 100] [--weak-signal]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

import numpy as np

from benchmarks._measuring import memory_mb
from secvm.learning._kernels import fast
from secvm.learning.individual.binning import HashBinning
from secvm_lab.paper.twitter import census as twitter_census
from secvm_lab.paper.twitter.people import BinnedPeople, TwitterPeople

#: Rounds at which accuracy is told.
SHOWN = (10, 20, 30, 50, 70, 100, 150, 200)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--bins", type=int, default=95_880)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of Pegasos; 0 for none")
    parser.add_argument("--strength", type=float, default=1e-4, help="lambda")
    parser.add_argument("--weak-signal", action="store_true", help="the people who catch Pegasos in its two-cycle")
    parser.add_argument("--census", action="store_true", help="count different words, too: a byte per word there is")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)


def pegasos(crowd: BinnedPeople, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Accuracy by round. With w = G / (lambda N t), G a vector of integers, the margin test is y G x < lambda N t."""
    signs = np.where(crowd.labels == 1, 1, -1).astype(np.int8)
    tests = np.random.default_rng(arguments.seed).permutation(len(signs)) < len(signs) // 10
    n_train = int((~tests).sum())
    total, before = np.zeros(arguments.bins + 1, np.int64), np.zeros(len(signs))
    sent, curve = np.where(tests, 0, signs).astype(np.int8), []
    for t in range(1, arguments.rounds + 1):
        plus, minus = fast.tally(crowd.prepared, sent[:, None], threads=arguments.threads)
        total += (plus - minus)[0]
        scores = fast.scores(crowd.prepared, total.astype(np.int32)[None], threads=arguments.threads)[:, 0]
        wrong = signs * scores < arguments.strength * n_train * t
        sent = np.where(wrong & ~tests, signs, 0).astype(np.int8)
        right = (scores / t + before >= 0) == (signs > 0)
        before = scores / t
        if t in SHOWN or t == arguments.rounds:
            test, train = float(right[tests].mean()), float(right[~tests].mean())
            curve.append({"round": t, "test": round(test, 4), "train": round(train, 4)})
    return curve


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Make the people, count them, learn from them."""
    people = TwitterPeople.weak_signal() if arguments.weak_signal else TwitterPeople()
    expected, alone = twitter_census.expected(people)
    people = people.with_people(arguments.people)
    # Compiled beforehand.
    binning = HashBinning(arguments.bins, b"people at Twitter's shape".ljust(32))
    people.with_people(1).binned(arguments.seed, binning)
    begun = time.perf_counter()
    crowd = people.binned(arguments.seed, binning, threads=arguments.threads)
    made = time.perf_counter()
    curve = pegasos(crowd, arguments)
    learnt = time.perf_counter()
    words = crowd.units - 1
    peak = memory_mb()
    sizes = tuple(n for n in (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 350_000) if n <= arguments.people)
    counted = twitter_census.count(people, arguments.seed, sizes, threads=arguments.threads) if arguments.census else []
    return {
        "people": arguments.people,
        "bins": arguments.bins,
        "words_per_person": {
            "mean": round(float(words.mean()), 1),
            "quantiles_5_50_95": [int(q) for q in np.quantile(words, (0.05, 0.5, 0.95))],
        },
        "label_1": round(float(crowd.labels.mean()), 4),
        "expected_words": round(expected),
        "expected_alone": round(alone),
        "census": [asdict(one) for one in counted],
        "curve": curve,
        "make_seconds": round(made - begun, 1),
        "learn_seconds": round(learnt - made, 1),
        "layout_mb": round(crowd.prepared.nbytes / 1e6, 1),
        "bytes_per_word": round(crowd.prepared.entry_bytes / float(words.sum()), 2),
        "peak_rss_mb": round(peak),
    }
