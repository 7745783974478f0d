"""Both ways to open capsules, where this machine has both."""

import functools

from secvm.crypto.lanes import Lanes
from secvm.errors import SecVMError
from secvm.runtime.lanes import build_lanes, find_lanes


@functools.cache
def lanes_here() -> Lanes | None:
    """The lanes of this machine, built for the tests; None without the CPU or a compiler."""
    try:
        build_lanes()
    except SecVMError:
        return None
    return find_lanes().lanes


def openers() -> list[Lanes | None]:
    """One by one; and lanes, where there are some."""
    lanes = lanes_here()
    return [None] if lanes is None else [None, lanes]
