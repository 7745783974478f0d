"""Forms: which of many packages ``protocol.codec.decode`` would take, asked of all at once.

The readable twin is ``decode`` itself: a test holds the two equal on whatever bytes there are. What is wrong with the
others only ``decode`` says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning.common_settings import MAX_BINS
from secvm.learning.label_models import MAX_MODELS
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION


def right_form(packages: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each row of 32 bytes whether it is the encoding of a package of any kind."""
    kind, c = packages[:, 1], packages[:, 28]
    number = packages[:, 18:22].copy().view("<u4")[:, 0]
    a = packages[:, 22:24].copy().view("<u2")[:, 0]
    b = packages[:, 24:28].copy().view("<u4")[:, 0]
    ok = (packages[:, 0] == PROTOCOL_VERSION) & (number >= 1) & (number <= MAX_ROUND) & ~packages[:, 29:].any(axis=1)
    one_or_two = (c == 1) | (c == 2)
    form: NDArray[np.bool_] = ok & (
        ((kind == 1) & one_or_two & (a < MAX_MODELS) & (b <= MAX_BINS))
        | ((kind == 2) & (c == 0) & (a < MAX_MODELS) & (b < MAX_MODELS))
        | ((kind == 3) & one_or_two & (a < MAX_MODELS) & (b == 0))
        | ((kind == 4) & (c == 0) & (a == 0) & (b == 0))
    )
    return form
