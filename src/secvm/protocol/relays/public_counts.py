"""What a relay shows of a round at ``GET R/counts/LABEL``: counts and reveals, as far as they are there (§30).

    {"entry_count": base64, "mix_count": base64, "entry_reveal": null, "mix_reveal": null}

Whoever asks takes what can be read; every statement in it is signed, and checked by itself.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from secvm.errors import MalformedMessageError
from secvm.protocol.relays.cover.reveals import MAX_REVEAL_BYTES
from secvm.protocol.relays.statements import ENVELOPE_BYTES

NAMES = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
#: Of one statement in its envelope, and of all four as text.
MAX_PAPER_BYTES = MAX_REVEAL_BYTES + ENVELOPE_BYTES
MAX_SHOWN_BYTES = 2**14


def write_shown(papers: Mapping[str, bytes]) -> bytes:
    """As a relay writes it."""
    content = {name: base64.b64encode(papers[name]).decode() if name in papers else None for name in NAMES}
    return json.dumps(content, separators=(",", ":")).encode()


def read_shown(data: bytes) -> dict[str, bytes]:
    """Envelopes by name; those that are null are left out. Names that nobody knows are not looked at.

    Raises
    ------
    MalformedMessageError
        It is no such answer. Nothing else is raised.
    """
    if len(data) > MAX_SHOWN_BYTES:
        raise MalformedMessageError(f"a relay shows {len(data)} bytes of a round; at most are {MAX_SHOWN_BYTES}")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedMessageError("what a relay shows of a round is no JSON") from None
    if not isinstance(content, dict):
        raise MalformedMessageError("what a relay shows of a round is no object")
    return {name: _envelope(content[name], name) for name in NAMES if content.get(name) is not None}


def _envelope(value: object, name: str) -> bytes:
    try:
        envelope = base64.b64decode(value.encode("ascii"), validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        envelope = None
    if envelope is None or len(envelope) > MAX_PAPER_BYTES:
        raise MalformedMessageError(f"{name} is not base64 of at most {MAX_PAPER_BYTES} bytes")
    return envelope
