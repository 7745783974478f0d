"""While simulations are played, what was signed, verified or read once is remembered.

Thousands of lists begin alike: the same keys sign the same bytes, the same documents are read. Ed25519 gives equal
signatures for equal bytes, a signature that fits once fits always, and documents never change, so to remember is no
other answer, only a quicker one. What does **not** fit is not remembered: it is looked at each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from unittest import mock

from secvm.coordinator import cosigning, driver
from secvm.crypto import notes, signing
from secvm.protocol.experiment_document import ExperimentDocument

_MOST = 2**14


@lru_cache(maxsize=_MOST)
def _verified(key: bytes, signature: bytes, message: bytes) -> None:
    signing.VerifyKey(key)
    _PUBLIC.from_public_bytes(key).verify(signature, message)


@lru_cache(maxsize=_MOST)
def _signed(seed: bytes, message: bytes) -> bytes:
    return _PRIVATE.from_private_bytes(seed).sign(message)
