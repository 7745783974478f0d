"""Score, tally and hash many people, beside scipy's float32 CSR products and scikit-learn's FeatureHasher.

One thread and CPU time (the two-thread figures: wall time), all contestants in turns in one process, the fastest turn
of each; ``*_median`` compares the medians instead. People have distinct words, drawn Zipf-like, hashed into bins.

A pass is one round of full-batch training: a score for everybody, then the tally of the violators. The peer is what a
user would write on the same matrix: ``X @ w`` and ``X.T @ m`` in float32, where m is zero for those who do not violate.
Half of the people violate, as in training; ``_all_violators`` leaves the tally nothing to skip.

    ./secvm bench kernels [--small] [--people 20000] [--words 1826] [--bins 95880]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import in_turns, memory_mb
from secvm.learning._kernels import reference
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows

_MODELS = 16
#: Rows compared with the reference, which is slow.
_CHECKED = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=1826, help="distinct words of each person")
    parser.add_argument("--vocabulary", type=int, default=1_000_000, help="words there are")
    parser.add_argument("--bins", type=int, default=95_880, help="0: no hashing, a bin for each word")
    parser.add_argument("--hashed-words", type=int, default=1_000_000, help="words in the comparison of hashes")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contestant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a tenth of the people and of the hashed words")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Generate, measure, compare."""
    shrink = 10 if arguments.small else 1
    n_people, n_hashed = arguments.people // shrink, arguments.hashed_words // shrink
    rng = np.random.default_rng(arguments.seed)
    started = time.perf_counter()
    vocabulary = _vocabulary(rng, arguments.vocabulary)
    word_ids = _draw(rng, n_people, arguments.words, arguments.vocabulary)
    rows = _bin(word_ids, vocabulary, arguments.bins)
    generated_s = time.perf_counter() - started
    hashed_people = max(1, min(n_people, n_hashed // arguments.words))
    # Every word a string of its own, as after reading a file.
    texts = [" ".join([vocabulary[w] for w in person]).split(" ") for person in word_ids[:hashed_people].tolist()]
    del word_ids, vocabulary
    return {
        "people": n_people,
        "words": arguments.words,
        "bins": rows.n_bins,
        "nonzeros": len(rows.bins),
        **_measure_passes(rng, rows, arguments.rounds),
        **_measure_hashing(texts, rows.n_bins, arguments.rounds),
        "generated_s": round(generated_s, 2),
        "peak_memory_mb": int(memory_mb()),
        "total_s": round(time.perf_counter() - started, 2),
    }


def _vocabulary(rng: np.random.Generator, n_words: int) -> list[str]:
    """Random letters, 3 to 11 of them, a number at the end where one comes twice."""
    letters = rng.integers(ord("a"), ord("z") + 1, (n_words, 11), dtype=np.uint8)
    lengths = rng.integers(3, 12, n_words).tolist()
    text = letters.tobytes().decode()
    seen: dict[str, None] = {}  # keeps the order: the same seed, the same people
    for i, length in enumerate(lengths):
        word = text[11 * i : 11 * i + length]
        seen[word if word not in seen else f"{word}{i}"] = None
    return list(seen)


def _draw(rng: np.random.Generator, n_people: int, n_words: int, vocabulary: int) -> NDArray[np.int32]:
    """Distinct words for each person, the r-th word of the vocabulary with probability about 1/r."""
    drawn = np.empty((n_people, n_words), np.int32)
    for i in range(n_people):
        found = np.empty(0, np.int64)
        while len(found) < n_words:
            ranks = np.exp(rng.random(2 * n_words + 100) * np.log(vocabulary + 1)).astype(np.int64) - 1
            found = np.union1d(found, np.minimum(ranks, vocabulary - 1))
        drawn[i] = rng.permutation(found)[:n_words]
    return drawn


def _bin(word_ids: NDArray[np.int32], vocabulary: list[str], n_bins: int) -> BinnedRows:
    quick = kernels("fast")
    if n_bins:
        binning = HashBinning(n_bins=n_bins, salt=b"benchmarks/kernels")
        bin_of_word = quick.hash_strings(vocabulary, binning.keys, n_bins)[:, 0]
    else:
        n_bins = len(vocabulary)
        bin_of_word = np.arange(n_bins, dtype=np.int32)
    offsets = np.arange(len(word_ids) + 1, dtype=np.int64) * word_ids.shape[1]
    return quick.bin_rows(offsets, bin_of_word[word_ids.ravel()], None, n_bins)


class _Turns:
    """Seconds of contestants, after a turn that compiles, and brings memory in."""

    def __init__(
        self,
        contestants: dict[str, Callable[[], object]],
        rounds: int,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        in_turns(contestants, 1)
        self._seconds = in_turns(contestants, rounds, clock)

    def best(self, *names: str) -> float:
        return sum(min(self._seconds[name]) for name in names)

    def median(self, *names: str) -> float:
        return sum(statistics.median(self._seconds[name]) for name in names)


def _measure_passes(rng: np.random.Generator, rows: BinnedRows, rounds: int) -> dict[str, object]:
    from scipy.sparse import csr_matrix

    quick = kernels("fast")
    n, d = len(rows), rows.n_bins
    few = rows.take(np.arange(min(n, _CHECKED)))
    mantissas = rng.integers(-(2**31), 2**31, (_MODELS, d + 1)).astype(np.int32)
    one_model = mantissas[:1]
    signs = (rng.integers(0, 2, (n, _MODELS)) * 2 - 1).astype(np.int8)
    half = signs * (rng.random((n, _MODELS)) < 0.5).astype(np.int8)
    all_violate, half_violate = signs[:, :1].copy(), half[:, :1].copy()
    keys = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    keep53 = (2**53 * 3 / np.sqrt(rows.squared_norms)).clip(max=2**53).astype(np.int64)  # swift's thinning, rho = 3

    start = time.perf_counter()
    equal = _equals_reference(quick, few, mantissas, half[: len(few)])
    compile_s = time.perf_counter() - start
    start = time.thread_time()
    prepared = quick.prepare(rows)
    prepare_s = time.thread_time() - start

    matrix = csr_matrix((rows.values.astype(np.float32), rows.bins, rows.indptr), shape=(n, d))
    transposed = matrix.T
    weights = one_model[0, :d].astype(np.float32)
    float_half, float_all = half_violate[:, 0].astype(np.float32), all_violate[:, 0].astype(np.float32)

    turns = _Turns(
        {
            "scipy scores": lambda: matrix @ weights,
            "scores": lambda: quick.scores(prepared, one_model),
            "scipy tally": lambda: transposed @ float_half,
            "tally": lambda: quick.tally(prepared, half_violate),
            "scipy tally of all": lambda: transposed @ float_all,
            "tally of all": lambda: quick.tally(prepared, all_violate),
            "scores, many": lambda: quick.scores(prepared, mantissas),
            "tally, many": lambda: quick.tally(prepared, half),
            "thinned": lambda: quick.thinned_tally(rows, half_violate, keys, keep53, 3),
        },
        rounds,
    )
    walls = _Turns(
        {
            "one thread": lambda: _whole_pass(quick, prepared, one_model, half_violate, 1),
            "two threads": lambda: _whole_pass(quick, prepared, one_model, half_violate, 2),
        },
        rounds,
        time.perf_counter,
    )

    ours, peer = ("scores", "tally"), ("scipy scores", "scipy tally")
    ours_all, peer_all = ("scores", "tally of all"), ("scipy scores", "scipy tally of all")
    per_model = turns.best("scores, many", "tally, many") / _MODELS
    return {
        "speedup_vs_scipy_f32": round(turns.best(*peer) / turns.best(*ours), 2),
        "speedup_vs_scipy_f32_median": round(turns.median(*peer) / turns.median(*ours), 2),
        "speedup_vs_scipy_f32_all_violators": round(turns.best(*peer_all) / turns.best(*ours_all), 2),
        "index_bytes_per_nonzero": round(prepared.entry_bytes / max(1, len(rows.bins)), 3),
        "equals_reference": equal,
        "scipy_scores_s": round(turns.best("scipy scores"), 5),
        "scipy_tally_s": round(turns.best("scipy tally"), 5),
        "scores_s": round(turns.best("scores"), 5),
        "tally_s": round(turns.best("tally"), 5),
        "tally_all_violators_s": round(turns.best("tally of all"), 5),
        "thinned_tally_s": round(turns.best("thinned"), 5),
        "models_together": _MODELS,
        "scores_per_model_s": round(turns.best("scores, many") / _MODELS, 5),
        "tally_per_model_s": round(turns.best("tally, many") / _MODELS, 5),
        "per_model_gain_of_many": round(turns.best(*ours) / per_model, 2),
        "two_threads_speedup": round(walls.best("one thread") / walls.best("two threads"), 2),
        "prepare_s": round(prepare_s, 3),
        "prepared_mb": round(prepared.nbytes / 2**20, 1),
        "prepared_and_rows_mb": round(
            (prepared.nbytes + rows.bins.nbytes + rows.values.nbytes + rows.indptr.nbytes) / 2**20, 1
        ),
        "compile_or_load_s": round(compile_s, 2),
    }


def _whole_pass(quick: Any, prepared: Any, mantissas: Any, coefficients: Any, threads: int) -> None:
    quick.scores(prepared, mantissas, threads=threads)
    quick.tally(prepared, coefficients, threads=threads)


def _equals_reference(
    quick: Any, rows: BinnedRows, mantissas: NDArray[np.int32], coefficients: NDArray[np.int8]
) -> bool:
    """Also compiles what is measured later."""
    prepared, equal = quick.prepare(rows), True
    for models in (1, _MODELS):
        some, wide = coefficients[:, :models], coefficients[:, :models].astype(np.int64)
        equal &= np.array_equal(quick.scores(prepared, mantissas[:models]), reference.scores(rows, mantissas[:models]))
        equal &= np.array_equal(quick.tally(prepared, some), reference.tally(rows, wide))
        equal &= np.array_equal(quick.tally(prepared, 5 * wide), reference.tally(rows, 5 * wide))
    return bool(equal)


def _measure_hashing(texts: list[list[str]], n_bins: int, rounds: int) -> dict[str, object]:
    from sklearn.feature_extraction import FeatureHasher

    quick = kernels("fast")
    keys = HashBinning(n_bins=min(n_bins, 2**24), salt=b"benchmarks/kernels").keys
    words = [word for person in texts for word in person]
    encoded = [word.encode() for word in words]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in encoded])]).astype(np.int64)
    equal = quick.hash_strings(words, keys, n_bins)[:_CHECKED, 0].tolist() == [
        reference.reduce_to_bin(reference.siphash24(keys[0], word), n_bins) for word in encoded[:_CHECKED]
    ]
    del encoded
    peer = FeatureHasher(n_features=n_bins, input_type="string", dtype=np.float32)
    bins = quick.hash_strings(words, keys, n_bins)
    row_offsets = np.cumsum([0, *map(len, texts)])

    turns = _Turns(
        {
            "peer": lambda: peer.transform(texts),
            "flat": lambda: quick.hash_flat(data, offsets, keys, n_bins),
            "from str": lambda: quick.hash_strings(words, keys, n_bins),
            "rows": lambda: quick.bin_rows(row_offsets, bins, None, n_bins),
            "without numba": lambda: kernels("reference").hash_strings(words, keys, n_bins),
        },
        rounds,
    )
    millions = (len(offsets) - 1) / 1e6
    return {
        "hash_speedup_vs_featurehasher": round(turns.best("peer") / turns.best("flat"), 1),
        "hash_speedup_from_str": round(turns.best("peer") / turns.best("from str"), 1),
        "hash_speedup_from_str_median": round(turns.median("peer") / turns.median("from str"), 1),
        "hash_speedup_from_str_to_rows": round(turns.best("peer") / turns.best("from str", "rows"), 1),
        "hash_equals_reference": equal,
        "featurehasher_millions_per_s": round(millions / turns.best("peer"), 1),
        "hash_millions_per_s": round(millions / turns.best("flat"), 1),
        "hash_from_str_millions_per_s": round(millions / turns.best("from str"), 1),
        "hash_without_numba_millions_per_s": round(millions / turns.best("without numba"), 1),
    }
