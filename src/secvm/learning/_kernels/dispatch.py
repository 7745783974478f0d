"""Which kernels to use: the quick ones where numba is installed, else the readable ones. Both give the same bytes.

    from secvm.learning._kernels.dispatch import kernels

    quick = kernels()                     # or kernels("reference"), kernels("fast")
    prepared = quick.prepare(rows)
    scores = quick.scores(prepared, mantissas, threads=2)

Nothing here imports numba before quick kernels are asked for: a person's device has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels import hashing_plain, part_words, reference
from secvm.learning._kernels.part_words import Clusters, TakeBytes
from secvm.learning.cover_sampler import CellLaw
from secvm.learning.rows import BinnedRows

Name = Literal["fast", "reference"]
Tally = tuple[NDArray[np.int64], NDArray[np.int64]]


class Kernels(Protocol):
    """What both sets of kernels can do. The functions are described in ``reference``, ``hashing`` and ``fast``."""

    @property
    def name(self) -> Name:
        """Which of the two this is."""
        ...

    def prepare(self, rows: BinnedRows) -> Any:
        """Rows in the form that this set's ``scores`` and ``tally`` take; opaque to the caller."""
        ...

    def scores(self, prepared: Any, mantissas: NDArray[np.int32], *, threads: int = 1) -> NDArray[np.int64]:
        """People x models, from mantissas of models x (bins + 1)."""
        ...

    def tally(self, prepared: Any, coefficients: NDArray[np.integer[Any]], *, threads: int = 1) -> Tally:
        """Counts of + and of -, models x (bins + 1), from coefficients of people x models."""
        ...

    def thinned_tally(
        self,
        rows: BinnedRows,
        signs: NDArray[np.int8],
        keys: NDArray[np.uint64],
        keep53: NDArray[np.int64],
        round_number: int,
        *,
        threads: int = 1,
    ) -> Tally:
        """As ``tally``, of the units that each person's dice keep; takes the rows themselves."""
        ...

    def kept_units(
        self,
        rows: BinnedRows,
        signs: NDArray[np.int8],
        keys: NDArray[np.uint64],
        keep53: NDArray[np.int64],
        round_number: int,
        *,
        threads: int = 1,
    ) -> NDArray[np.int64]:
        """How many units each person's dice keep, all models together."""
        ...

    def cover_clusters(self, law: CellLaw, take: TakeBytes, most: int) -> Clusters | None:
        """Cells and sizes of all clusters of one draw, in order; None: they are more than ``most`` packages.

        ``take`` gives the next so many bytes of a stream that does not end.
        """
        ...

    def hash_flat(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        keys: Sequence[bytes],
        n_bins: int,
        *,
        gap: int = 0,
        threads: int = 1,
    ) -> NDArray[np.int32]:
        """Bins, features x hashes, of flat UTF-8 with so many bytes between two features."""
        ...

    def hash_strings(self, features: Sequence[str], keys: Sequence[bytes], n_bins: int) -> NDArray[np.int32]:
        """Bins, features x hashes, of text."""
        ...

    def hash_string_rows(
        self, rows: Sequence[Sequence[str]], keys: Sequence[bytes], n_bins: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Row offsets and bins, features x hashes, of many people's text."""
        ...

    def bin_rows(
        self,
        row_offsets: NDArray[np.int64],
        bins: NDArray[np.int32],
        values: NDArray[np.integer[Any]] | None,
        n_bins: int,
    ) -> BinnedRows:
        """Hashed features as rows: sorted, added up, without zeros."""
        ...


class _Reference:
    """The readable kernels; ``threads`` changes nothing."""

    name: Name = "reference"
    hash_flat = staticmethod(hashing_plain.hash_flat)
    hash_strings = staticmethod(hashing_plain.hash_strings)
    hash_string_rows = staticmethod(hashing_plain.hash_string_rows)
    bin_rows = staticmethod(hashing_plain.bin_rows)
    cover_clusters = staticmethod(part_words.plain_clusters)

    @staticmethod
    def prepare(rows: BinnedRows) -> BinnedRows:
        return rows

    @staticmethod
    def scores(prepared: BinnedRows, mantissas: NDArray[np.int32], *, threads: int = 1) -> NDArray[np.int64]:  # noqa: ARG004  # the interface's
        return reference.scores(prepared, mantissas)

    @staticmethod
    def tally(prepared: BinnedRows, coefficients: NDArray[np.integer[Any]], *, threads: int = 1) -> Tally:  # noqa: ARG004  # as above
        return reference.tally(prepared, coefficients.astype(np.int64))

    @staticmethod
    def thinned_tally(
        rows: BinnedRows,
        signs: NDArray[np.int8],
        keys: NDArray[np.uint64],
        keep53: NDArray[np.int64],
        round_number: int,
        *,
        threads: int = 1,  # noqa: ARG004  # as above
    ) -> Tally:
        # Wide signs: the reference multiplies them by values, which need not fit eight bits.
        return reference.thinned_tally(rows, signs.astype(np.int64), keys, keep53, round_number)

    @staticmethod
    def kept_units(
        rows: BinnedRows,
        signs: NDArray[np.int8],
        keys: NDArray[np.uint64],
        keep53: NDArray[np.int64],
        round_number: int,
        *,
        threads: int = 1,  # noqa: ARG004  # as above
    ) -> NDArray[np.int64]:
        return reference.kept_units(rows, signs, keys, keep53, round_number)


@cache
def _fast() -> Kernels:
    from secvm.learning._kernels import fast, hashing, part_covering  # noqa: PLC0415  # late: here numba comes in

    class Fast:
        name: Name = "fast"
        prepare = staticmethod(fast.prepare)
        scores = staticmethod(fast.scores)
        tally = staticmethod(fast.tally)
        thinned_tally = staticmethod(fast.thinned_tally)
        kept_units = staticmethod(fast.kept_units)
        cover_clusters = staticmethod(part_covering.quick_clusters)
        hash_flat = staticmethod(hashing.hash_flat)
        hash_strings = staticmethod(hashing.hash_strings)
        hash_string_rows = staticmethod(hashing.hash_string_rows)
        bin_rows = staticmethod(hashing.bin_rows)

    return Fast()


def kernels(name: Name | None = None) -> Kernels:
    """The named kernels, or the quickest that this installation can run."""
    has_numba = find_spec("numba") is not None
    if name is None:
        name = "fast" if has_numba else "reference"
    if name == "reference":
        return _Reference()
    if name != "fast":
        raise BadInputError('the kernels are called "fast" and "reference"')
    if not has_numba:
        raise BadInputError("the fast kernels need numba", next_step="pip install 'secvm[estimator]'")
    return _fast()
