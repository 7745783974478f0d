"""Where there is no GPU that can be used it is said in one sentence, and nothing is done elsewhere instead."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from secvm.errors import BadInputError, NotInstalledError
from secvm.estimator import SecVMClassifier
from secvm_lab.engine import sweep
from secvm_lab.engine.cuda.device import Gpu
from secvm_lab.engine.cuda.people import DevicePeople
from secvm_lab.paper.offline.crowd import FileCrowd, MadeUpCrowd, Recipe
from secvm_lab.paper.offline.settings import Settings
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.offline.training import DeviceSweeper
from secvm_lab.paper.twitter.people import PEOPLE, TwitterPeople
from tests.contract.estimator.test_engine import ask
from tests.rigs.cuda_emulation import EmulatedDevice
from tests.unit.learning.helpers import rows_of


class CUDARuntimeError(RuntimeError):
    """What CuPy raises where there is no driver."""


def cupy(**told: Any) -> SimpleNamespace:
    """CuPy, as far as it is asked before a kernel runs, on a good machine but for what is told."""
    properties = {"name": b"GPU", "major": 9, "minor": 0, "sharedMemPerBlockOptin": 232_448}
    properties |= {name: value for name, value in told.items() if name in properties}
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=told.get("getDeviceCount", lambda: 1),
        getDevice=lambda: 0,
        driverGetVersion=lambda: told.get("driver", 13_000),
        runtimeGetVersion=lambda: 13_000,
        getDeviceProperties=lambda _: properties,
        memGetInfo=lambda: (2**30, 2**31),
    )
    pool = SimpleNamespace(free_bytes=lambda: 0)
    memory = SimpleNamespace(OutOfMemoryError=MemoryError)
    cuda = SimpleNamespace(
        runtime=runtime,
        memory=memory,
        compiler=SimpleNamespace(CompileException=CompileException),
        get_allocator=lambda: full,
        set_allocator=told.get("set_allocator", lambda _: None),
    )
    module = SimpleNamespace(compile=told.get("compile", lambda: None))
    return SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool, RawModule=lambda **_: module)


class CompileException(Exception):  # noqa: N818  (CuPy's name)
    """What CuPy raises where NVRTC refuses."""


def refuses() -> None:
    raise CompileException("nvrtc: error: invalid value for --gpu-architecture\nmore lines")


def lacks() -> None:
    raise RuntimeError("CuPy failed to load libnvrtc.so.13")


def full(_n_bytes: int) -> None:
    raise MemoryError


def broken() -> int:
    raise CUDARuntimeError("no CUDA-capable device is detected")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"getDeviceCount": broken}, "CUDA finds no GPU: no CUDA-capable device is detected"),
        ({"getDeviceCount": lambda: 0}, "CUDA finds no GPU on this machine"),
        ({"driver": 12_080}, "the GPU's driver knows CUDA 12, and CuPy needs 13"),
        ({"driver": 12_080, "getDeviceCount": broken}, "the GPU's driver knows CUDA 12, and CuPy needs 13"),
        ({"major": 7, "minor": 0}, "compute capability 7.0, and 7.5 is needed"),
        ({"compile": refuses}, "CuPy cannot compile for this GPU: nvrtc: error: invalid value for --gpu-architecture$"),
        ({"compile": lacks}, "CuPy cannot compile for this GPU: CuPy failed to load libnvrtc.so.13"),
        ({"sharedMemPerBlockOptin": 49_152}, "only 49152 bytes of shared memory"),
    ],
)
def test_gpu_that_cannot_be_used_is_refused_in_one_sentence(
    told: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy(**told))
    with pytest.raises(BadInputError, match=said) as refused:
        Gpu()
    assert "\n" not in str(refused.value)


def test_too_little_memory_is_said_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    allocators: list[Any] = []
    monkeypatch.setitem(sys.modules, "cupy", cupy(set_allocator=allocators.append))
    gpu = Gpu()
    with pytest.raises(BadInputError, match=r"needs 0\.5 GiB of the GPU's memory, and 1\.0 GiB are free"):
        allocators[0](2**29)
    gpu.room(2**30)
    with pytest.raises(BadInputError, match=r"needs 1\.5 GiB of the GPU's memory, and 1\.0 GiB are free"):
        gpu.room(3 * 2**29)


def test_without_cupy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    model = SecVMClassifier(device="cuda", n_bins=8, rounds=2, random_state=1)
    with pytest.raises(NotInstalledError) as refused:
        model.fit([["a"], ["b"]] * 10, [0, 1] * 10)
    assert refused.value.next_step == "In a clone of the repository: pip install './lab[cuda]'"


def test_without_the_laboratory_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.estimator.fitting._engine", lambda _: None)
    with pytest.raises(NotInstalledError, match="secvm-lab"):
        SecVMClassifier(device="cuda", n_bins=8, rounds=2).fit([["a"], ["b"]] * 10, [0, 1] * 10)


def test_classifier_on_a_device_is_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm_lab.engine.cuda.training.Gpu", EmulatedDevice)
    people, labels = [["a", "b"], ["b", "c", "d"], ["a"], ["d"]] * 20, [0, 1, 0, 1] * 20
    models = [
        SecVMClassifier(device=device, n_bins=16, rounds=6, random_state=1).fit(people, labels)
        for device in ("cpu", "cuda")
    ]
    models[1].partial_fit(people, labels)
    models[0].partial_fit(people, labels)
    assert models[0].state_.to_bytes() == models[1].state_.to_bytes()


def test_offline_evaluation_on_a_device_trains_the_same_people(tmp_path: Any) -> None:
    file = tmp_path / "people.svm"
    file.write_text("".join(f"{'+1' if i % 3 else '-1'} {1 + i % 4}:1 {6 + i % 5}:2\n" for i in range(60)))
    made_up = MadeUpCrowd(TwitterPeople(n_people=60, words_per_person=12, vocabulary=2**10), 3)
    sweeper = DeviceSweeper(EmulatedDevice())
    taken = np.packbits(np.arange(60) % 2 == 0).tobytes()
    for crowd, bins, taking in (
        (made_up, 30, None),
        (FileCrowd.open(file), 7, None),
        (FileCrowd.open(file), None, taken),
    ):
        recipe = Recipe(crowd, bins, 1, b"salt" * 4, taking)
        rows = crowd.rows(bins, 1, b"salt" * 4, threads=1).take(np.flatnonzero(recipe.take))
        labels = crowd.labels()[recipe.take]
        experiments = [ask(rows, lam) for lam in ("1e-3", "1e-1")]
        train = np.random.default_rng(1).random((len(rows), 2)) < 0.8
        ours = list(sweeper(recipe, labels, experiments, threads=1, train=train, rounds=5))
        theirs = list(sweep(rows, labels, experiments, train=train, rounds=5))
        assert all(np.array_equal(a.cells, b.cells) for a, b in zip(ours, theirs, strict=True))
    with pytest.raises(BadInputError, match="no GPU holds"):
        list(sweeper(Recipe(made_up, None, 1, b""), made_up.labels(), [], threads=1, rounds=1))
    settings = Settings(made_up, Splits.draw(60, 2, 1), ("1b",))
    with pytest.raises(BadInputError, match="no GPU holds"):
        DeviceSweeper(EmulatedDevice(), settings)
    DeviceSweeper(EmulatedDevice(), replace(settings, asked_bins=(30,)))


def test_more_bins_than_a_gpu_takes_are_refused() -> None:
    rows = rows_of([[0], [8000]], 9000)
    with pytest.raises(BadInputError, match="9000 bins are beyond this GPU, which takes up to 7168"):
        DevicePeople.of_rows(EmulatedDevice(columns=7), rows)


def test_block_of_people_is_the_layouts() -> None:
    from secvm.learning._kernels import layout

    assert PEOPLE == layout.PEOPLE
