"""Full-batch products of one model by sparse libraries of a GPU, for ``bench gpu``: milliseconds, the median of ten."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def measure(xp: Any, indptr: Any, bins: Any, n_people: int, n_bins: int) -> dict[str, object]:
    """``X @ w`` and ``X.T @ m`` of each library; what it says where it cannot."""
    found: dict[str, object] = {}
    for name, peer in (("cusparse", _cusparse), ("torch", _torch), ("jax_bcoo", _jax)):
        try:
            found[name] = peer(xp, indptr, bins, n_people, n_bins)
        except Exception as fault:  # noqa: BLE001  (whatever a library dies of: the table says it)
            found[name] = f"{type(fault).__name__}: {str(fault)[:150]}"
        xp.get_default_memory_pool().free_all_blocks()
    return found


def _median_ms(work: Callable[[], object], wait: Callable[[], object]) -> float:
    work()
    wait()
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - begun)
    return round(1000 * statistics.median(seconds), 3)


def _cusparse(xp: Any, indptr: Any, bins: Any, n_people: int, n_bins: int) -> dict[str, float]:
    from cupyx.scipy.sparse import csr_matrix

    matrix = csr_matrix((xp.ones(len(bins), np.float32), bins, indptr), shape=(n_people, n_bins))
    matrix.sum_duplicates()
    transposed = matrix.T.tocsr()
    w, m = xp.ones(n_bins, np.float32), xp.ones(n_people, np.float32)
    wait = xp.cuda.runtime.deviceSynchronize
    return {"scores_ms": _median_ms(lambda: matrix @ w, wait), "tally_ms": _median_ms(lambda: transposed @ m, wait)}


def _torch(xp: Any, indptr: Any, bins: Any, n_people: int, n_bins: int) -> dict[str, float]:
    import torch
    from cupyx.scipy.sparse import csr_matrix

    matrix = csr_matrix((xp.ones(len(bins), np.float32), bins, indptr), shape=(n_people, n_bins))
    matrix.sum_duplicates()

    def carried(one: Any) -> Any:
        parts = [torch.from_dlpack(part) for part in (one.indptr, one.indices, one.data)]
        return torch.sparse_csr_tensor(*parts, size=one.shape)

    rows, columns = carried(matrix), carried(matrix.T.tocsr())
    w, m = torch.ones(n_bins, 1, device="cuda"), torch.ones(n_people, 1, device="cuda")
    wait = torch.cuda.synchronize
    return {"scores_ms": _median_ms(lambda: rows @ w, wait), "tally_ms": _median_ms(lambda: columns @ m, wait)}


def _jax(xp: Any, indptr: Any, bins: Any, n_people: int, n_bins: int) -> dict[str, float]:
    import jax
    from jax.experimental import sparse

    people = xp.repeat(xp.arange(n_people, dtype=np.int32), xp.asnumpy(indptr[1:] - indptr[:-1]).tolist())
    indices = jax.dlpack.from_dlpack(xp.stack([people, bins], axis=1))
    del people
    matrix = sparse.BCOO((jax.numpy.ones(len(bins), np.float32), indices), shape=(n_people, n_bins))
    w, m = jax.numpy.ones(n_bins, np.float32), jax.numpy.ones(n_people, np.float32)
    scores, tally = jax.jit(lambda a, b: a @ b), jax.jit(lambda a, b: b @ a)
    return {
        "scores_ms": _median_ms(lambda: scores(matrix, w).block_until_ready(), lambda: None),
        "tally_ms": _median_ms(lambda: tally(matrix, m).block_until_ready(), lambda: None),
    }
