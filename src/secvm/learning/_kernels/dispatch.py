"""Which kernels to use: the quick ones where numba is installed, else the readable ones. Both give the same bytes.

    from secvm.learning._kernels.dispatch import kernels

    quick = kernels()                     # or kernels("reference"), kernels("fast")
    prepared = quick.prepare(rows)
    scores = quick.scores(prepared, mantissas, threads=2)

Nothing here imports numba before quick kernels are asked for: a person's device has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, NotInstalledError
from secvm.learning._kernels import hashing_plain, reference
from secvm.learning._kernels.reference import Tally
from secvm.learning.rows import BinnedRows

Name = Literal["fast", "reference"]
#: Features of text that are hashed at once.
_PIECE = 2**14


class Kernels:
    """The readable kernels, and what every set of kernels can do. How many ``threads`` there are shows in no result."""

    name: Name = "reference"
    #: Rows in the form that this set's ``scores`` and ``tally`` take; opaque to the caller.
    prepare: Callable[[BinnedRows], Any] = staticmethod(reference.prepare)
    scores: Callable[..., NDArray[np.int64]] = staticmethod(reference.scores)
    tally: Callable[..., Tally] = staticmethod(reference.tally)
    thinned_tally = staticmethod(reference.thinned_tally)
    cover_clusters = staticmethod(reference.cover_clusters)
    hash_flat = staticmethod(hashing_plain.hash_flat)
    bin_rows = staticmethod(hashing_plain.bin_rows)

    def hash_strings(self, features: Sequence[str], keys: Sequence[bytes], n_bins: int) -> NDArray[np.int32]:
        """The bins, features x hashes, of features given as text."""
        out = np.empty((len(features), len(keys)), np.int32)
        # Piece by piece: the buffers of a piece stay in the caches and are used again for the next one.
        for start in range(0, len(features), _PIECE):
            data, offsets, gap = hashing_plain.flatten(features[start : start + _PIECE])
            out[start : start + _PIECE] = self.hash_flat(data, offsets, keys, n_bins, gap=gap)
        return out


@cache
def _fast() -> Kernels:
    from secvm.learning._kernels import fast, hashing, part_covering  # noqa: PLC0415  # late: here numba comes in

    class Fast(Kernels):
        name: Name = "fast"
        prepare = staticmethod(fast.prepare)
        scores = staticmethod(fast.scores)
        tally = staticmethod(fast.tally)
        thinned_tally = staticmethod(fast.thinned_tally)
        cover_clusters = staticmethod(part_covering.cover_clusters)
        hash_flat = staticmethod(hashing.hash_flat)
        bin_rows = staticmethod(hashing.bin_rows)

    return Fast()


def kernels(name: Name | None = None) -> Kernels:
    """The named kernels, or the quickest that this installation can run."""
    has_numba = find_spec("numba") is not None
    if name is None:
        name = "fast" if has_numba else "reference"
    if name == "reference":
        return Kernels()
    if name != "fast":
        raise BadInputError('the kernels are called "fast" and "reference"')
    if not has_numba:
        raise NotInstalledError("training with the fast kernels", "numba", "estimator")
    return _fast()
