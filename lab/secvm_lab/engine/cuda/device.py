"""Gpu: the GPU of this machine, with the kernels of ``kernels.cu``.

CuPy holds the memory and compiles the file; the file itself knows nothing of CuPy. Whatever is missing is said in one
sentence, and nothing is ever done elsewhere instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from secvm.errors import BadInputError, NotInstalledError

SOURCE = Path(__file__).with_name("kernels.cu")
#: From this CUDA on kernels are no longer compiled for Volta (7.0), whose warps are the first to compare words at once.
_WITHOUT_VOLTA = 13
#: Below this shared memory of a block its columns would be too few to be worth it.
_LEAST_SHARED = 64 * 2**10
#: Kept free in a block's shared memory for what a kernel has beside weights.
_BESIDE = 1024
_ELSEWHERE = 'Leave --device away (device="cpu"): the results are the same bytes.'


class Device(Protocol):
    """Where kernels run."""

    #: As a person calls it.
    name: str
    #: numpy, or what does the same there.
    xp: Any
    #: Columns whose weights fit shared memory.
    columns: int

    def launch(self, kernel: str, grid: Any, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Run one kernel of the file over a grid of blocks."""
        ...

    def to_host(self, array: Any) -> Any:
        """As an array of numpy."""
        ...

    def free(self) -> int:
        """Bytes that can be had."""
        ...

    def room(self, n_bytes: int) -> None:
        """Return if so many bytes can be had; raise ``BadInputError`` if not."""
        ...


class Gpu:
    """One GPU."""

    def __init__(self) -> None:
        """The current one of CUDA. CuPy's allocator tells from now on in our words that there is too little memory.

        Raises
        ------
        BadInputError
            There is none, it or its driver is too old, or its compiler is missing.
        """
        try:
            import cupy
        except ImportError:
            raise NotInstalledError("training on a GPU", "cupy", "cuda", distribution="./lab") from None
        runtime = cupy.cuda.runtime
        driver, needed = runtime.driverGetVersion() // 1000, runtime.runtimeGetVersion() // 1000
        if 0 < driver < needed:
            told = f"the GPU's driver knows CUDA {driver}, and CuPy needs {needed}"
            raise BadInputError(told, next_step=f"Update the driver, or install cupy-cuda{driver}x.")
        try:
            found = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as fault:
            raise BadInputError(f"CUDA finds no GPU: {fault}", next_step=_ELSEWHERE) from None
        if not found:
            raise BadInputError("CUDA finds no GPU on this machine", next_step=_ELSEWHERE)
        properties = runtime.getDeviceProperties(runtime.getDevice())
        self.name = properties["name"].decode()
        capability = properties["major"], properties["minor"]
        oldest = (7, 5) if needed >= _WITHOUT_VOLTA else (7, 0)
        if capability < oldest:
            named, least = (".".join(map(str, version)) for version in (capability, oldest))
            told = f"the GPU {self.name} has compute capability {named}, and {least} is needed"
            raise BadInputError(told, next_step=_ELSEWHERE)
        shared = int(properties["sharedMemPerBlockOptin"])
        if shared < _LEAST_SHARED:
            raise BadInputError(f"the GPU {self.name} has only {shared} bytes of shared memory for a block")
        self.xp = cupy
        self.columns = (shared - _BESIDE) // 4
        self._kernels: dict[str, Any] = {}
        self._module = self._compiled()
        self._take_memory = cupy.cuda.get_allocator()
        # Where an earlier Gpu has wrapped the allocator already, that will do.
        if not isinstance(getattr(self._take_memory, "__self__", None), Gpu):
            cupy.cuda.set_allocator(self._allocate)

    def __repr__(self) -> str:
        return f"Gpu({self.name!r})"

    def _compiled(self) -> Any:
        module = self.xp.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=("-std=c++17",))
        try:
            module.compile()
        except (RuntimeError, self.xp.cuda.compiler.CompileException) as fault:
            first = (str(fault).splitlines() or [type(fault).__name__])[0]
            told = f"CuPy cannot compile for this GPU: {first}"
            raise BadInputError(told, next_step="pip install 'cupy-cuda13x[ctk]', which brings the compiler.") from None
        return module

    def launch(self, kernel: str, grid: Any, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Run one kernel; integers go as 64 bits, None as no address."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._module.get_function(kernel)
        function = self._kernels[kernel]
        function.max_dynamic_shared_size_bytes = max(shared, function.max_dynamic_shared_size_bytes)
        grid = grid if isinstance(grid, tuple) else (grid,)
        if min(grid) > 0:
            function(grid, (threads,), tuple(_given(value) for value in arguments), shared_mem=shared)

    def to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def _allocate(self, n_bytes: int) -> Any:
        """Memory of CuPy; that there is too little is told as anything else."""
        try:
            return self._take_memory(n_bytes)
        except self.xp.cuda.memory.OutOfMemoryError:
            raise self._too_little(n_bytes) from None

    def free(self) -> int:
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(self.xp.get_default_memory_pool().free_bytes())

    def room(self, n_bytes: int) -> None:
        if n_bytes > self.free():
            raise self._too_little(n_bytes)

    def _too_little(self, n_bytes: int) -> BadInputError:
        told = f"this needs {n_bytes / 2**30:.1f} GiB of the GPU's memory, and {self.free() / 2**30:.1f} GiB are free"
        return BadInputError(told, next_step="Take fewer people, bins or models at once.")


def _given(value: Any) -> Any:
    if value is None:
        return np.uint64(0)
    return np.uint64(value % 2**64) if isinstance(value, int) else value
