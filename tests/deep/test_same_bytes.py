"""Same seed, same bytes of the model file: on two runs, with 1 and 2 threads, and with fewer CPU instructions.

Where this CPU has nothing that numpy could do without, the runs below are plain repetitions and must still agree.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.system.parties import secvm

EXAMPLE = ROOT / "examples" / "people.jsonl"

#: Every rule and shape of row that takes a path of its own through the kernels.
RUNS: dict[str, list[str]] = {
    "pegasos": ["--descent", "pegasos", "--rounds", "25"],
    "pegasos hashed": [
        *("--descent", "pegasos", "--bins", "300", "--hashes", "2", "--rounds", "25", "--class-weight", "balanced")
    ],
    "pegasos thinned and capped": [
        *("--descent", "pegasos", "--thinning", "q=1/3", "--step-cap", "0.5", "--rounds", "15")
    ],
    "swift": ["--thinning", "3", "--rounds", "15"],
    "swift hashed": ["--bins", "300", "--thinning", "2.5", "--rounds", "15"],
    "swift whole": ["--decay", "0.05", "--rounds", "15"],
    "logistic": ["--descent", "pegasos", "--loss", "logistic", "--lambda", "0.01", "--rounds", "15"],
}

#: Trains each of RUNS in one process (numpy and numba start once), and tells which instructions numpy used.
PROGRAM = """
import json, sys
from pathlib import Path
from numpy._core._multiarray_umath import __cpu_features__
from secvm.cli.main import run
people, folder, threads, runs = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
for name, asked in runs.items():
    code = run(["train", people, "--test-fraction", "0.25", "--stop", "plateau", "--seed", "5", "--threads", threads,
                "--out", str(folder / name), "--curve", str(folder / f"{name}.csv"), *asked])
    assert code == 0, name
used = [name for name, on in __cpu_features__.items() if on]
print(json.dumps(used + ["numba"] * ("numba" in sys.modules)))
"""


def switchable(*starts: str) -> list[str]:
    """What numpy dispatches on, this CPU has, and a name among ``starts`` begins: the names it lets us switch off."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    return [n for n in core.__cpu_dispatch__ if core.__cpu_features__.get(n) and n.startswith(starts)]


def train_all(folder: Path, *, threads: int = 1, **environment: str) -> tuple[dict[str, bytes], set[str]]:
    """The files of every run, and the CPU features that numpy saw, with "numba" where that was used."""
    folder.mkdir()
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(EXAMPLE), str(folder), str(threads), json.dumps(RUNS)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    files = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert set(files) == {*RUNS, *(f"{name}.csv" for name in RUNS)}
    return files, set(json.loads(told.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], set[str]]:
    return train_all(tmp_path_factory.mktemp("plain") / "m")


def assert_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert [name for name in expected if found[name] != expected[name]] == []


def test_a_second_run_writes_the_same_bytes(tmp_path: Path, plain: tuple[dict[str, bytes], set[str]]) -> None:
    assert_same(train_all(tmp_path / "m", PYTHONHASHSEED="12345")[0], plain[0])


def test_two_threads_write_the_same_bytes(tmp_path: Path, plain: tuple[dict[str, bytes], set[str]]) -> None:
    assert_same(train_all(tmp_path / "m", threads=2)[0], plain[0])


@pytest.mark.parametrize(
    ("starts", "core_type"),
    [(("AVX512", "X86_V4"), "Haswell"), (("AVX512", "X86_V4", "AVX2", "FMA3", "X86_V3"), "Prescott")],
    ids=["without AVX-512", "without AVX-512, AVX2 and FMA"],
)
def test_fewer_instructions_write_the_same_bytes(
    tmp_path: Path, plain: tuple[dict[str, bytes], set[str]], starts: tuple[str, ...], core_type: str
) -> None:
    off = switchable(*starts)
    found, used = train_all(
        tmp_path / "m", threads=2, NPY_DISABLE_CPU_FEATURES=" ".join(off), OPENBLAS_CORETYPE=core_type
    )
    assert not used & set(off)
    if off:
        assert used < plain[1]
    assert_same(found, plain[0])


def test_compiled_and_plain_kernels_write_the_same_bytes(
    tmp_path: Path, plain: tuple[dict[str, bytes], set[str]]
) -> None:
    """As on a device, where numba is not installed."""
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "def without_numba(name, path=None, target=None):\n"
        "    return None if name.split('.')[0] in ('numba', 'llvmlite') else find(name, path, target)\n"
        "PathFinder.find_spec = without_numba\n"
    )
    found, used = train_all(tmp_path / "m", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT / 'src'}")
    assert "numba" in plain[1]
    assert "numba" not in used
    assert_same(found, plain[0])


def test_another_seed_writes_other_bytes(tmp_path: Path, plain: tuple[dict[str, bytes], set[str]]) -> None:
    """The comparison has teeth: what is thrown with dice does change the file."""
    for seed in ("5", "6"):
        asked = ("--test-fraction", "0.25", "--stop", "plateau", "--seed", seed, "--out", tmp_path / seed)
        told = secvm("train", EXAMPLE, *asked, *RUNS["swift"])
        assert told.returncode == 0, told.stderr
    assert (tmp_path / "5").read_bytes() == plain[0]["swift"]
    assert (tmp_path / "6").read_bytes() != plain[0]["swift"]
