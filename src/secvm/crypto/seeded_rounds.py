"""Round secrets of a relay that was started with a seed: for tests, which repeat themselves (docs/protocol.md §29).

Whoever knows the seed knows all cover of the relay. A relay uses this only where its own settings say so, and then
serves no document that is not marked as a test.
"""

from __future__ import annotations

import hashlib
from typing import Literal

_PERSON = b"secvm-v2-tests\0\0"


def seeded_round_secret(seed: str, role: Literal["entry", "mix"], round_number: int) -> bytes:
    """The secret of this round at the relay of this role, for a seed that everybody knows."""
    key = hashlib.sha256(seed.encode()).digest()
    data = role.encode() + b"\n" + round_number.to_bytes(4, "little")
    return hashlib.blake2b(data, digest_size=32, key=key, person=_PERSON).digest()
