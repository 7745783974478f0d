"""The lanes of this machine, built once for the tests that compare them with the readable code."""

import functools

from secvm.crypto.sealing.lanes import Lanes
from secvm.errors import SecVMError
from secvm.runtime.lanes import build_lanes, cpu_can, find_lanes

#: Asked before any test pretends to have another CPU: code for one that is not there ends the process.
_CPU_CAN = cpu_can()


@functools.cache
def lanes_here() -> Lanes | None:
    """The lanes of this machine, built for the tests; None without the CPU or a compiler."""
    if not _CPU_CAN:
        return None
    try:
        build_lanes()
    except SecVMError:
        return None
    return find_lanes().lanes
