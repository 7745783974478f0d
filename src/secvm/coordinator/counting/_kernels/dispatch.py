"""Which kernels to count with: the quick ones where numba is installed, else the readable ones. Both count the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting._kernels import reference
from secvm.coordinator.counting._kernels.plan import Plan
from secvm.errors import BadInputError

Name = Literal["fast", "reference"]


class Seen(Protocol):
    """The digests that have come so far."""

    def __len__(self) -> int: ...

    def first(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For each record whether its digest comes for the first time; from now on it has come."""
        ...


@dataclass(frozen=True, slots=True)
class Kernels:
    """What both can do."""

    #: Takes a secret key of 16 bytes, thrown for this count.
    seen: Callable[[bytes], Seen]
    tally: Callable[[NDArray[np.uint64], NDArray[np.bool_], Plan], None]


@cache
def _fast() -> Kernels:
    from secvm.coordinator.counting._kernels import fast  # noqa: PLC0415  # late: here numba comes in

    return Kernels(seen=fast.Seen, tally=fast.tally)


def kernels(name: Name | None = None) -> Kernels:
    """The named kernels, or the quickest that this installation can run."""
    has_numba = find_spec("numba") is not None
    if name is None:
        name = "fast" if has_numba else "reference"
    if name == "reference":
        return Kernels(seen=reference.Seen, tally=reference.tally)
    if name != "fast":
        raise BadInputError('the kernels are called "fast" and "reference"')
    if not has_numba:
        raise BadInputError("the fast kernels need numba", next_step="pip install 'secvm[coordinator]'")
    return _fast()
