"""The paper's sweep on a GPU: the CPU's bytes first, then how long it takes, beside what others would use there.

**Same bytes.** ``random``: small populations of odd shapes under four rules, against this machine's processor.
``small``: 20,000 made-up people; states of Pegasos on two splits, of swift and of thinned swift, and the rows
themselves, against digests that ``--digests`` computed on a CPU (``benchmarks/results/gpu-digests.json``).
``identical_to_cpu_on_two_splits``: of everybody, the confusion after each of 100 rounds.

**Times.** People are drawn on the device. A *model-iteration* is one round of one model with the test people's
accuracy. ``one`` is one model alone; ``sweep`` is 141 splits and 100 rounds for each number of bins, hashing and laying
out included. ``five_s`` is all of Fig. 1b for five numbers of bins, from 10,000 to 100 words to a bin: drawing people
and splits, and sweeping. Kernels were compiled before. ``floor_ms`` is how long the device reads the people's bytes
once, as fast as it copies.

**Peers**, the same people, one model, float32: ``X @ w`` and ``X.T @ m`` by cuSPARSE (CuPy), torch.sparse and JAX.

A machine with a GPU may have no ``./secvm``; with Python, numpy, CuPy, cryptography and orjson
``PYTHONPATH=src:lab:. python3 -m benchmarks.gpu`` runs it there.

    ./secvm bench gpu [--people 350000] [--splits 141] [--rounds 100] [--small-only] [--digests]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.twitter.people import TwitterPeople

if TYPE_CHECKING:
    from secvm_lab.engine.cuda.people import DevicePeople
    from secvm_lab.paper.twitter.on_device import DeviceWords

DIGESTS = Path(__file__).parent / "results" / "gpu-digests.json"
SEED, BINS = 1, 95_880
SMALL, SMALL_ROUNDS = 20_000, 30
#: 10,000 to 100 words to a bin: the five of the figure; and 10 words to a bin, which is another matter.
FIVE, FINEST = (9_588, 31_960, 95_880, 319_600, 958_800), 9_588_001
#: What bounds a pass: its counters, by the profiler's names for them.
_COUNTERS = {
    "ms": "gpu__time_duration.sum",
    "memory_read_gb": "dram__bytes_read.sum",
    "memory_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "shared_percent": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "stalled_on_memory": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "stalled_on_shared": "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
}
_LABELS = ("0", "1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=350_000)
    parser.add_argument("--splits", type=int, default=141)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--bins", type=int, nargs="*", default=[*FIVE, FINEST])
    parser.add_argument("--random", type=int, default=100, help="random populations that are compared first")
    parser.add_argument("--small-only", action="store_true", help="the same bytes on 20,000 people, and no more")
    parser.add_argument("--pass-only", action="store_true", help="one pass over everybody, for the profiler")
    parser.add_argument("--no-peers", action="store_true", help="nothing but ours")
    parser.add_argument("--digests", action="store_true", help="compute the CPU's digests, and write them down")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Compare, measure."""
    if arguments.digests:
        return _write_digests(arguments)
    from secvm_lab.engine.cuda.device import Gpu

    gpu = Gpu()
    if arguments.pass_only:
        return _one_pass(gpu, arguments)
    digests = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {"small": {}, "full": {}}
    found: dict[str, object] = {"device": gpu.name, "copy_tb_s": round(_copies(gpu.xp) / 1e12, 2)}
    _tell("gpu", found)
    found["random"] = _random(gpu, arguments.random)
    _tell("random", found["random"])
    found["small"] = _small(gpu, digests["small"])
    _tell("small", found["small"])
    if arguments.small_only:
        return found
    return found | _full(gpu, arguments, digests)


def _tell(name: str, content: object) -> None:
    sys.stderr.write(f"{name}: {json.dumps(content)}\n")
    sys.stderr.flush()


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]


def _binning(n_bins: int) -> HashBinning:
    return HashBinning(n_bins, b"benchmarks/gpu")


def _pegasos(n_bins: int) -> Experiment:
    return Experiment(n_bins=n_bins, labels=_LABELS, rule=Pegasos(lambda_=Fraction("1e-4")))


def _masks(n_people: int, n_splits: int) -> NDArray[np.bool_]:
    """People x splits: who trains."""
    splits = Splits.draw(n_people, n_splits, SEED)
    return np.stack([splits.masks(k)[0] for k in range(n_splits)], axis=1)


def _others() -> dict[str, Experiment]:
    swift = Experiment(n_bins=BINS, labels=_LABELS, rule=Swift(), fixed_point_rows=True)
    thinned = replace(swift, fixed_point_rows=False, thinning=Thinning(rho=Fraction(3)))
    return {"swift": swift, "thinned swift": thinned}


# -- the same bytes --------------------------------------------------------------------------------------------------


def _write_digests(arguments: argparse.Namespace) -> dict[str, object]:
    """What a CPU finds: the figures that a GPU is held to."""
    from secvm_lab.engine import sweep

    rows, labels = TwitterPeople(n_people=SMALL).all_rows(SEED, _binning(BINS), threads=2)
    train = _masks(SMALL, 2)
    small = {"rows": _rows_digest(rows), "masks": _digest(np.packbits(train).tobytes())}
    for swept in sweep(
        rows, labels, [_pegasos(BINS)] * 2, train=train, rounds=arguments.rounds, threads=2, states=True
    ):
        small[f"pegasos {swept.model}"] = _digest(swept.state.to_bytes(), swept.cells.tobytes())
    for name, experiment in _others().items():
        small[name] = _trained(OfflineTraining(experiment, seed=b"dice", threads=2), rows, labels, train[:, 0])
    _tell("small", small)
    content: dict[str, object] = {"small": small, "full": {}}
    DIGESTS.parent.mkdir(exist_ok=True)
    DIGESTS.write_text(json.dumps(content, indent=2) + "\n")
    del rows
    crowd = TwitterPeople(n_people=arguments.people).binned(SEED, _binning(BINS), threads=2)
    people = _whole(crowd.labels)
    models = sweep(
        crowd.prepared, people, [_pegasos(BINS)] * 2, train=_masks(arguments.people, 2), rounds=arguments.rounds,
        threads=2, states=False,
    )  # fmt: skip
    content["full"] = {str(arguments.people): [_digest(swept.cells.tobytes()) for swept in models]}
    DIGESTS.write_text(json.dumps(content, indent=2) + "\n")
    return content


def _whole(labels: NDArray[np.int8]) -> NDArray[np.int64]:
    """Labels as trainings take them."""
    return labels.astype(np.int64)


def _rows_digest(rows: BinnedRows) -> str:
    return _digest(rows.indptr.tobytes(), rows.bins.tobytes(), rows.values.tobytes())


def _trained(
    training: OfflineTraining,
    rows: BinnedRows,
    labels: NDArray[np.int64],
    train: NDArray[np.bool_],
    *,
    rounds: int = SMALL_ROUNDS,
) -> str:
    people = Population(rows=rows, labels=labels, train=train)
    for _ in range(rounds):
        training.advance(people)
    return _digest(training.state.to_bytes())


def _small(gpu: Any, wanted: dict[str, str]) -> dict[str, object]:
    from secvm_lab.engine.cuda.engine import CudaEngine
    from secvm_lab.engine.cuda.people import DevicePeople
    from secvm_lab.engine.cuda.training import CudaTraining
    from secvm_lab.paper.twitter.on_device import DeviceWords

    words = DeviceWords(gpu, TwitterPeople(n_people=SMALL), SEED)
    rows, labels, train = words.rows(_binning(BINS)), _whole(words.labels), _masks(SMALL, 2)
    found = {"rows": _rows_digest(rows), "masks": _digest(np.packbits(train).tobytes())}
    engine = CudaEngine(DevicePeople.of_rows(gpu, rows), labels, [_pegasos(BINS)] * 2, train=train)
    cells = []
    for _ in range(100):
        engine.advance()
        cells.append(engine.cells())
    table = np.stack(cells)
    for k in range(2):
        found[f"pegasos {k}"] = _digest(engine.state(k).to_bytes(), np.ascontiguousarray(table[:, k]).tobytes())
    seconds: dict[str, float] = {}
    for name, experiment in _others().items():
        with _timed(gpu.xp, seconds, name):
            found[name] = _trained(CudaTraining(experiment, seed=b"dice", device=gpu), rows, labels, train[:, 0])
    _tell("found", found)
    same = {name: found[name] == wanted.get(name) for name in found}
    return {"identical": all(same.values()), **same, "seconds": seconds}


def _random(gpu: Any, cases: int) -> dict[str, int]:
    """Small populations of odd shapes under four rules, against ``OfflineTraining`` on this machine's processor."""
    from secvm_lab.engine.cuda.engine import CudaEngine
    from secvm_lab.engine.cuda.people import DevicePeople
    from secvm_lab.engine.cuda.training import CudaTraining

    dice, different, compared = np.random.default_rng(SEED), 0, 0
    for _ in range(cases):
        n, n_bins = int(dice.integers(2, 300)), int(dice.choice([1, 2, 7, 33, 500, 5_000, 60_000, 130_000, 700_000]))
        most = min(n_bins, int(dice.choice([3, 40, 600])))
        drawn = [np.unique(dice.integers(0, n_bins, int(k))) for k in dice.integers(0, most + 1, n)]
        bins = np.concatenate(drawn).astype(np.int32)
        values = dice.choice([1, 2, 255] if dice.random() < 0.5 else [1], len(bins)).astype(np.int32)
        rows = BinnedRows(np.cumsum([0, *map(len, drawn)]).astype(np.int64), bins, values, n_bins)
        labels, train = dice.integers(0, 2, n), dice.random(n) < 0.8
        train[0] = True
        swift, thinned = (replace(experiment, n_bins=n_bins) for experiment in _others().values())
        rule = Pegasos(lambda_=Fraction("1e-4"), averaging=int(dice.choice([1, 2, 5])))
        weights = (Fraction(1, 3), Fraction(5, 7)) if dice.random() < 0.5 else ()
        pegasos = Experiment(n_bins=n_bins, labels=_LABELS, rule=rule, class_weights=weights)
        asked = [pegasos, swift, thinned, replace(pegasos, thinning=Thinning(q=Fraction(1, 3)))]
        for experiment in asked[: 4 if n_bins < 10_000 else 1]:
            given = rows, labels, train
            reference = _trained(OfflineTraining(experiment, seed=b"dice"), *given, rounds=5)
            found = [_trained(CudaTraining(experiment, seed=b"dice", device=gpu), *given, rounds=5)]
            if experiment is pegasos:
                engine = CudaEngine(DevicePeople.of_rows(gpu, rows), labels, [pegasos], train=train[:, None])
                for _ in range(5):
                    engine.advance()
                    engine.cells()
                found.append(_digest(engine.state(0).to_bytes()))
            compared += len(found)
            different += sum(one != reference for one in found)
    return {"compared": compared, "different": different}


# -- times -----------------------------------------------------------------------------------------------------------


@contextmanager
def _timed(xp: Any, seconds: dict[str, float], name: str) -> Iterator[None]:
    xp.cuda.runtime.deviceSynchronize()
    begun = time.perf_counter()
    yield
    xp.cuda.runtime.deviceSynchronize()
    seconds[name] = round(time.perf_counter() - begun, 4)


def _copies(xp: Any) -> float:
    """Bytes a second, read and written, of a large copy; the best of some."""
    source = xp.ones(2**30, np.uint32)
    target = xp.empty_like(source)
    best = 0.0
    for _ in range(6):
        seconds: dict[str, float] = {}
        with _timed(xp, seconds, "copy"):
            target[...] = source
        best = max(best, 2 * source.nbytes / max(seconds["copy"], 1e-9))
    return best


def _full(gpu: Any, arguments: argparse.Namespace, digests: dict[str, Any]) -> dict[str, object]:
    from secvm_lab.paper.twitter.on_device import DeviceWords

    seconds: dict[str, float] = {}
    with _timed(gpu.xp, seconds, "draw"):
        words = DeviceWords(gpu, TwitterPeople(n_people=arguments.people), SEED)
    with _timed(gpu.xp, seconds, "splits"):
        labels, train = _whole(words.labels), _masks(arguments.people, arguments.splits)
    found: dict[str, object] = {"people": arguments.people, "draw_s": seconds["draw"], "splits_s": seconds["splits"]}
    swept = []
    for n_bins in arguments.bins:
        with _timed(gpu.xp, seconds, "lay out"):
            people = words.binned(_binning(n_bins))
        one = {"bins": n_bins, "blocks": people.n_blocks, "lay_out_s": seconds["lay out"]}
        one |= _measured(gpu, words, people, labels, train, arguments, seconds)
        if n_bins == BINS:
            wanted = digests["full"].get(str(arguments.people))
            one["identical_to_cpu_on_two_splits"] = None if wanted is None else one.pop("digests") == wanted
            if not arguments.no_peers:
                found["peers"] = _peers(gpu, people, words, n_bins)
                _tell("peers", found["peers"])
        one.pop("digests", None)
        _tell(str(n_bins), one)
        swept.append(one)
        del people
        gpu.xp.get_default_memory_pool().free_all_blocks()
    found["sweep"] = swept
    five = [s for s in swept if s["bins"] in FIVE]
    if len(five) == len(FIVE):
        found["five_s"] = round(seconds["draw"] + seconds["splits"] + sum(s["sweep_s"] for s in five), 2)
    found["profiler"] = _profiled(arguments)
    return found


def _one_pass(gpu: Any, arguments: argparse.Namespace) -> dict[str, object]:
    from secvm_lab.paper.twitter.on_device import DeviceWords

    _score_everybody(gpu, DeviceWords(gpu, TwitterPeople(n_people=arguments.people), SEED).binned(_binning(BINS)))
    return {}


def _profiled(arguments: argparse.Namespace) -> object:
    """Counters of a pass over everybody; a sentence where there is no profiler."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return "ncu is not installed"
    asked = [sys.executable, "-m", "benchmarks.gpu", "--pass-only", "--people", str(arguments.people)]
    options = ["--clock-control", "none", "-k", "score", "--csv", "--metrics", ",".join(_COUNTERS.values())]
    told = subprocess.run([ncu, *options, *asked], capture_output=True, text=True, check=False).stdout
    table = csv.DictReader(line for line in told.splitlines() if line.startswith('"'))
    values = {row["Metric Name"]: f"{row['Metric Value']} {row['Metric Unit']}".strip() for row in table}
    return {name: values.get(metric) for name, metric in _COUNTERS.items()}


def _measured(
    gpu: Any, words: DeviceWords, people: DevicePeople, labels: NDArray[np.int64], train: NDArray[np.bool_],
    arguments: argparse.Namespace, seconds: dict[str, float],
) -> dict[str, Any]:  # fmt: skip
    from secvm_lab.engine.cuda.engine import CudaEngine
    from secvm_lab.engine.cuda.sweeping import sweep_on

    experiment = _pegasos(people.n_bins)
    engine = CudaEngine(people, labels, [experiment], train=train[:, :1])
    for _ in range(3):
        engine.advance()
        engine.cells()
    _score_everybody(gpu, people)
    engine = CudaEngine(people, labels, [experiment], train=train[:, :1])
    with _timed(gpu.xp, seconds, "one"):
        for _ in range(arguments.rounds):
            engine.advance()
            engine.cells()
    passes = float(engine.score_passes[0]), float(engine.count_passes[0])
    del engine
    with _timed(gpu.xp, seconds, "everybody scored"):
        for _ in range(10):
            _score_everybody(gpu, people)
    with _timed(gpu.xp, seconds, "sweep"):
        # With hashing and laying out, and what is found once of people: frequencies of bins, norms.
        people = words.binned(_binning(people.n_bins))
        models = list(
            sweep_on(gpu, people, labels, [experiment] * arguments.splits, train=train, rounds=arguments.rounds)
        )
    each = arguments.splits * arguments.rounds
    accuracy = np.array([model.accuracy[-1] for model in models])
    return {
        "one_ms": round(1000 * seconds["one"] / arguments.rounds, 3),
        "one_passes": [round(p, 2) for p in passes],
        "pass_ms": round(100 * seconds["everybody scored"], 3),
        "floor_ms": round(1000 * people.locals.nbytes / _copies(gpu.xp), 3),
        "sweep_s": seconds["sweep"],
        "model_iteration_ms": round(1000 * seconds["sweep"] / each, 4),
        "score_passes": round(models[0].score_passes, 2),
        "accuracy": round(float(accuracy.mean()), 4),
        "accuracy_sd": round(float(accuracy.std()), 4),
        "digests": [_digest(model.cells.tobytes()) for model in models[:2]],
    }


def _score_everybody(gpu: Any, people: DevicePeople) -> None:
    from secvm_lab.engine.cuda.people import jobs_for

    weights = gpu.xp.ones(people.n_bins + 1, np.int32)
    out = gpu.xp.empty(people.n_people, np.int64)
    jobs = gpu.xp.asarray(jobs_for(*np.array([[0], [people.n_people], [-1]])))
    people.score(weights, jobs, None, gpu.xp.zeros(1, np.int64), out)


def _peers(gpu: Any, people: DevicePeople, words: Any, n_bins: int) -> dict[str, object]:
    from benchmarks._gpu_peers import measure

    indptr, bins = words.entries(_binning(n_bins))
    return measure(gpu.xp, indptr, bins, people.n_people, n_bins)


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    add_arguments(given)
    print(json.dumps(run(given.parse_args()), indent=2))
