"""The quick kernels equal the readable ones, bit for bit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning._kernels import dispatch, fast, layout, reference
from secvm.learning.rows import BinnedRows
from tests.unit.learning.helpers import rows_of

INT32 = (-(2**31), 2**31 - 1)


def make_rows(
    rng: np.random.Generator, n_people: int, n_bins: int, mean_entries: int, values: tuple[int, ...] = (1,)
) -> BinnedRows:
    """Random people: Zipf-like bins, some of them without any entry."""
    people = []
    for _ in range(n_people):
        wanted = 0 if rng.random() < 0.1 else int(rng.integers(1, 2 * mean_entries))
        drawn = np.exp(rng.random(wanted) * np.log(n_bins + 1)).astype(np.int64) - 1
        # A fixed scramble, so that frequent bins are not simply the first ones.
        bins = np.unique(np.minimum(drawn, n_bins - 1) * 7919 % n_bins)
        people.append(dict(zip(bins, rng.choice(values, len(bins)), strict=True)))
    return rows_of(people, n_bins)


def make_mantissas(rng: np.random.Generator, n_models: int, n_bins: int) -> NDArray[np.int32]:
    mantissas = rng.integers(INT32[0], INT32[1], (n_models, n_bins + 1), endpoint=True).astype(np.int32)
    mantissas[:, ::5] = INT32[0]
    mantissas[:, 1::5] = INT32[1]
    return mantissas


def assert_tallies_equal(ours: Any, expected: Any) -> None:
    for side, wanted in zip(ours, expected, strict=True):
        assert side.dtype == wanted.dtype == np.int64
        np.testing.assert_array_equal(side, wanted)


def assert_same(rows: BinnedRows, n_models: int, rng: np.random.Generator) -> None:
    """Scores and tallies of both kernels, for coefficients of all kinds, with one thread and with two."""
    prepared = fast.prepare(rows)
    mantissas = make_mantissas(rng, n_models, rows.n_bins)
    expected = reference.scores(rows, mantissas)
    signs = rng.integers(-1, 2, (len(rows), n_models))
    signs[rng.random(len(rows)) < 0.3] = 0
    large = signs * rng.integers(1, 2**32, (len(rows), n_models), endpoint=True)
    for threads in (1, 2):
        ours = fast.scores(prepared, mantissas, threads=threads)
        assert ours.dtype == np.int64
        np.testing.assert_array_equal(ours, expected)
        for coefficients in (signs, signs.astype(np.int8), np.zeros_like(signs), np.full_like(signs, -1), large):
            assert_tallies_equal(
                fast.tally(prepared, coefficients, threads=threads),
                reference.tally(rows, coefficients.astype(np.int64)),
            )


@pytest.mark.parametrize("n_models", [1, 2, 3, 8, 20])
@pytest.mark.parametrize(
    ("n_people", "n_bins", "mean_entries", "values"),
    [
        pytest.param(300, 50, 12, (1,), id="few bins"),
        pytest.param(1100, 9000, 60, (1, 1, 1, 2, 3), id="several blocks of bins and of people"),
        pytest.param(120, 70_000, 200, (1, 2, 3, 4), id="more bins than 16 bits can number"),
        pytest.param(120, 300_000, 3, (1,), id="rare bins stay without a block"),
        pytest.param(100, 700, 30, (-3, -1, 1, 2), id="negative values"),
        pytest.param(100, 700, 30, (1, 4, 100, 4000, -4000), id="large values"),
        pytest.param(40, 700, 30, (9,), id="cold entries only"),
    ],
)
def test_scores_and_tallies_equal_the_reference(
    n_people: int, n_bins: int, mean_entries: int, values: tuple[int, ...], n_models: int
) -> None:
    rng = np.random.default_rng([n_people, n_bins, n_models])
    assert_same(make_rows(rng, n_people, n_bins, mean_entries, values), n_models, rng)


@pytest.mark.parametrize("n_people", [0, 1, 5])
def test_rows_without_entries_score_their_bias_alone(n_people: int) -> None:
    assert_same(rows_of([[]] * n_people, 17), 3, np.random.default_rng(0))


def test_no_model_at_all_gives_empty_results() -> None:
    rows = make_rows(np.random.default_rng(0), 5, 20, 4)
    prepared = fast.prepare(rows)
    assert fast.scores(prepared, np.empty((0, 21), np.int32)).shape == (5, 0)
    assert fast.tally(prepared, np.empty((5, 0), np.int64))[0].shape == (0, 21)


@st.composite
def small_rows(draw: st.DrawFn) -> BinnedRows:
    n_bins = draw(st.integers(1, 40))
    value = st.integers(-6, 6).filter(bool) | st.integers(-(2**20), 2**20).filter(bool)
    people = st.lists(st.dictionaries(st.integers(0, n_bins - 1), value, max_size=12), min_size=1, max_size=8)
    return rows_of(draw(people), n_bins)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows=small_rows(), n_models=st.sampled_from([1, 3, 17]), seed=st.integers(0, 2**32 - 1))
def test_any_small_rows_equal_the_reference(rows: BinnedRows, n_models: int, seed: int) -> None:
    assert_same(rows, n_models, np.random.default_rng(seed))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=small_rows(), target=st.integers(-(2**31), 2**31 - 1), n_models=st.sampled_from([1, 4]))
def test_scores_land_exactly_on_a_margin(rows: BinnedRows, target: int, n_models: int) -> None:
    """The bias is chosen such that person 0 scores the target; one more or one less is seen."""
    mantissas = np.tile((np.arange(rows.n_bins + 1) * 37 % 101 - 50).astype(np.int32), (n_models, 1))
    mantissas[:, -1] = 0
    without_bias = int(reference.scores(rows, mantissas)[0, 0])
    for aim in (target - 1, target, target + 1):
        bias = aim - without_bias
        if INT32[0] <= bias <= INT32[1]:
            mantissas[:, -1] = bias
            assert fast.scores(fast.prepare(rows), mantissas)[0].tolist() == [aim] * n_models


def test_packed_counts_hold_when_everybody_has_a_bin_three_times() -> None:
    """More people than one 16-bit count can take: it must be emptied in between."""
    n = 2 * 21 * layout.PEOPLE + 17
    rows = BinnedRows(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), np.full(n, 3, np.int32), 2)
    prepared = fast.prepare(rows)
    for n_models in (1, 2):
        for sign in (1, -1):
            plus, minus = fast.tally(prepared, np.full((n, n_models), sign, np.int8))
            full, empty = (plus, minus) if sign > 0 else (minus, plus)
            assert full.tolist() == [[3 * n, 0, n]] * n_models
            assert not empty.any()


def test_layout_takes_little_more_than_two_bytes_per_entry() -> None:
    for size, value, most in (((1024, 20_000, 800), 1, 2.2), ((1024, 5000, 200), 4000, 8.5)):
        rows = make_rows(np.random.default_rng(3), *size, values=(value,))
        assert fast.prepare(rows).entry_bytes / len(rows.bins) < most


def test_prepared_rows_do_not_print_what_they_hold() -> None:
    rows = make_rows(np.random.default_rng(3), 4, 10, 3)
    assert repr(fast.prepare(rows)) == "PreparedRows(<4 people>, n_bins=10)"


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("values", [(1,), (1, 2, -2, 5), (700, -1)])
def test_thinned_tally_equals_the_reference(values: tuple[int, ...], n_models: int) -> None:
    rng = np.random.default_rng([len(values), n_models])
    rows = make_rows(rng, 12, 300, 6, values)
    signs = rng.integers(-1, 2, (len(rows), n_models)).astype(np.int8)
    keys = rng.integers(0, 2**64, (len(rows), 2), dtype=np.uint64)
    keep53 = rng.choice(np.asarray([0, -1, 2**43, 2**50, 2**52, 2**53, 2**53 + 1]), len(rows))
    for round_number in (1, 2**20 - 1):
        expected = dispatch.kernels("reference").thinned_tally(rows, signs, keys, keep53, round_number)
        for threads in (1, 2):
            assert_tallies_equal(fast.thinned_tally(rows, signs, keys, keep53, round_number, threads=threads), expected)


def test_kept_units_are_as_many_as_each_person_alone_sends() -> None:
    rng = np.random.default_rng(3)
    rows = make_rows(rng, 20, 300, 6, (1, 2, -2))
    signs = rng.integers(-1, 2, (len(rows), 3)).astype(np.int8)
    keys = rng.integers(0, 2**64, (len(rows), 2), dtype=np.uint64)
    keep53 = rng.choice(np.asarray([0, 2**50, 2**52, 2**53]), len(rows))
    kept = fast.thinned_tally(rows, signs, keys, keep53, 5)[2]
    for i in range(len(rows)):
        only = signs * (np.arange(len(rows)) == i)[:, None].astype(np.int8)
        plus, minus, _ = fast.thinned_tally(rows, only, keys, keep53, 5)
        assert int(plus.sum() + minus.sum()) == kept[i]


def test_thinned_tally_refuses_a_round_beyond_the_dice() -> None:
    rows = make_rows(np.random.default_rng(0), 2, 5, 2)
    nobody = np.zeros((2, 1), np.int8), np.zeros((2, 2), np.uint64), np.zeros(2, np.int64)
    with pytest.raises(ArithmeticRangeError):
        fast.thinned_tally(rows, *nobody, 2**20)


def results_in_bytes() -> str:
    """A digest of everything the kernels compute on some fixed rows; run here and under another CPU's features."""
    rng = np.random.default_rng(11)
    rows = make_rows(rng, 300, 9000, 60, (1, 1, 2, 3, 7, -2))
    chosen = dispatch.kernels("fast")
    prepared = chosen.prepare(rows)
    keys = rng.integers(0, 2**64, (len(rows), 2), dtype=np.uint64)
    words = [f"wörd {i}" * (i % 5) for i in range(200)]
    found: list[NDArray[Any]] = [chosen.hash_strings(words, (b"k" * 16, b"l" * 16), 9000)]
    for n_models in (1, 20):
        signs = rng.integers(-1, 2, (len(rows), n_models)).astype(np.int8)
        found += [
            chosen.scores(prepared, make_mantissas(rng, n_models, rows.n_bins)),
            *chosen.tally(prepared, signs),
            *chosen.tally(prepared, signs * np.int64(2**31 + 1)),
            *chosen.thinned_tally(rows, signs, keys, np.full(len(rows), 2**51), 3),
        ]
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()


def test_another_cpu_gives_the_same_bytes() -> None:
    """No AVX for numpy, a CPU without any extension for numba."""
    environment = os.environ | {
        "NPY_DISABLE_CPU_FEATURES": _vector_features(),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "PYTHONWARNINGS": "ignore",
    }
    other = subprocess.run(
        [sys.executable, "-c", "import test_kernels; print(test_kernels.results_in_bytes())"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == results_in_bytes()


def _vector_features() -> str:
    """The features that numpy would choose at run time on this CPU; it refuses names it does not know."""
    from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]  # numpy has no public door to these
        __cpu_dispatch__,
        __cpu_features__,
    )

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


def test_kernels_are_chosen_by_name() -> None:
    assert dispatch.kernels().name == dispatch.kernels("fast").name == "fast"
    assert dispatch.kernels("reference").name == "reference"
    with pytest.raises(BadInputError):
        dispatch.kernels("quickest")  # type: ignore[arg-type]  # the point of the test


def test_learning_works_without_numba() -> None:
    """A person's device has no numba: nothing may import it before quick kernels are asked for."""
    program = """
import sys
sys.modules["numba"] = None  # import numba now fails
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find_spec(name, *rest)
import secvm.learning
from secvm.learning._kernels import dispatch
chosen = dispatch.kernels()
assert chosen.name == "reference"
print(chosen.hash_strings(["a", "b"], (b"0" * 16,), 1000).shape)
try:
    dispatch.kernels("fast")
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "(2, 1)",
        "training with the fast kernels needs the package numba, which is not installed",
    ]


def test_compiling_is_said_once_and_never_again(tmp_path: Path) -> None:
    begin = "import numpy as np\nfrom secvm.learning._kernels import dispatch\n"
    rows = "dispatch.kernels().bin_rows(np.array([0, 1]), np.zeros(1, np.int32), None, 4)\n"
    words = "dispatch.kernels().hash_strings(['a'], (b'0' * 16,), 1000)\n"

    def complaints(cache: str, program: str, **more: str) -> list[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)} | more
        done = subprocess.run(
            [sys.executable, "-c", begin + program], env=environment, capture_output=True, text=True, check=True
        )
        return done.stderr.splitlines()

    said = complaints("first", rows, SECVM_QUIET="")
    assert said == ["secvm: compiling for this machine, some seconds, each part of it once after an installation"]
    # Another process that compiles other kernels: it was said.
    assert complaints("first", rows + words, SECVM_QUIET="") == []
    assert complaints("second", rows, SECVM_QUIET="1") == []


def test_machine_code_of_another_packages_kernels_is_renewed_with_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels inline each other: those of a package beside ours must not run what a neighbour was before."""
    from secvm.learning._kernels import compiling

    monkeypatch.setattr(compiling, "_cache_folder", compiling._cache_folder.__wrapped__)
    ours = Path(compiling.__file__).parent
    neighbour = tmp_path / "neighbour.py"
    neighbour.write_text("A = 1\n", encoding="utf-8")
    before = compiling._cache_folder(tmp_path)
    assert before == compiling._cache_folder(tmp_path) != compiling._cache_folder(ours)
    neighbour.write_text("A = 2\n", encoding="utf-8")
    assert compiling._cache_folder(tmp_path) != before
