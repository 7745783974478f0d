"""The lanes of this machine, built once for the tests that compare them with the readable code."""

import functools

from secvm.crypto.sealing.lanes import Lanes
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
