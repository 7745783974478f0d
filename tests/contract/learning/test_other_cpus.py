"""The same tallies give the same bytes on a CPU with fewer instructions."""

import importlib
import json
import os
import subprocess
import sys

#: Recomputes both rules over a few rounds of made-up tallies, and prints what became of them.
PROGRAM = """
import hashlib, json, warnings
from fractions import Fraction
warnings.simplefilter("error")
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning

def digests(rule, thinning):
    rng = np.random.default_rng(7)
    experiment = Experiment(n_bins=10_000, labels=("a", "b"), rule=rule, thinning=thinning)
    state, found = aggregate.start(experiment), []
    for _ in range(4):
        plus, minus = (rng.geometric(1 / (1 + 3000 / np.arange(1, 10_002)))[None].astype(np.int64) for _ in range(2))
        tally = Tally(plus=plus, minus=minus, participants=rng.integers(900, 1000, 2), cells=np.zeros((2, 2), np.int64))
        state = aggregate.step(experiment, state, tally)
        for data in (state, rule.training_weights(state), rule.evaluation_weights(state)):
            found.append(hashlib.sha256(data.to_bytes()).hexdigest())
    return found

print(json.dumps({
    "pegasos": digests(Pegasos(lambda_=Fraction(1, 3), step_cap=Fraction(1, 2)), Thinning()),
    "swift": digests(Swift(), Thinning(rho=Fraction(3))),
    "features": [name for name, on in __cpu_features__.items() if on],
}))
"""
#: What numpy may be told to do without, if it was not built to need it (its baseline): the first names that apply.
WANTED = (
    "AVX512F",
    "AVX512CD",
    "AVX512_SKX",
    "AVX512_CLX",
    "AVX512_CNL",
    "AVX512_ICL",
    "AVX512_SPR",
    "AVX2",
    "FMA3",
    "X86_V4",
    "X86_V3",
)


def recompute(**environment: str) -> dict[str, list[str]]:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert told.returncode == 0, told.stderr
    found: dict[str, list[str]] = json.loads(told.stdout)
    return found


def test_both_rules_give_the_same_bytes_without_wide_vectors() -> None:
    core = importlib.import_module("numpy._core._multiarray_umath")
    # numpy refuses names of its baseline and names it does not dispatch on, so we ask it.
    switchable = [name for name in WANTED if name in core.__cpu_dispatch__ and core.__cpu_features__.get(name)]
    here = recompute()
    there = recompute(NPY_DISABLE_CPU_FEATURES=" ".join(switchable), OPENBLAS_CORETYPE="Prescott")
    # On a CPU that has none of them there is nothing to switch off; the other BLAS remains.
    assert bool(switchable) == (set(there["features"]) < set(here["features"]))
    assert there["pegasos"] == here["pegasos"]
    assert there["swift"] == here["swift"]
