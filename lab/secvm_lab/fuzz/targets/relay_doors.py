"""Targets: what strangers, devices and the other relay bring to a relay's doors (``relay.batches``, ``.entry``)."""

from __future__ import annotations

import base64
from typing import Any

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import encode_document
from secvm.protocol.relays.batches import PieceTicket, check_ticket, split_piece, ticket_for
from secvm.protocol.relays.statements import RelayedTerms
from secvm.relay.admission import Identity
from secvm.relay.batches.doors import read_asked, read_index
from secvm.relay.batches.running_rounds import have_json, read_have
from secvm.relay.entry.intake import read_submission
from secvm.relay.refusals import RelayRefusalError
from secvm_lab.fuzz.target import SIGNED, Target, expect
from secvm_lab.fuzz.targets.relays import two_capsules
from secvm_lab.fuzz.world import as_text
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, known_bytes

_LABEL = known_bytes("label")
_PIECE = known_bytes("a piece", 2 * OUTER_BYTES)
_TERMS = RelayedTerms(
    url="https://entry.example/r",
    operator="Entry e.V.",
    role="entry",
    quota=1,
    cells=1000,
    packages=90,
    capsules=5000,
    seconds_per_million=600,
)


def _submitted(data: bytes) -> bytes:
    found = read_submission(Identity(b"somebody"), data, budget=2, token_bytes=64)
    expect(len(found.capsules) == 2 and len(found.root) == 32, "a submission has its budget and a root")
    return found.token + b"".join(found.capsules)


def _asked(data: bytes) -> bytes:
    experiment, round_number = read_asked(data)
    return encode_document({"experiment": experiment, "round": round_number})


def _ticket(data: bytes) -> object:
    check_ticket(as_text(data), ENTRY.public, label=_LABEL, piece=3, data=_PIECE)
    return None


def _tickets() -> list[bytes]:
    made = ticket_for(_LABEL, 3, _PIECE), ticket_for(_LABEL, 4, _PIECE)
    return [base64.b64encode(ticket.signed(ENTRY)) for ticket in made]


def _statement(data: bytes) -> Any:
    """Terms or a ticket: neither takes what the other does."""
    try:
        return PieceTicket.from_bytes(data)
    except MalformedMessageError:
        return RelayedTerms.from_bytes(data)


TARGETS = (
    Target(
        "relay-submission",
        _submitted,
        lambda: [bytes(64) + two_capsules(), bytes(64) + 2 * two_capsules()[:OUTER_BYTES], b""],
        allowed=(MalformedMessageError, RelayRefusalError),
        canonical=lambda found: found,
    ),
    Target(
        "relay-piece", lambda data: split_piece(data, OUTER_BYTES), lambda: [two_capsules(), b""], canonical=b"".join
    ),
    Target(
        "relay-commitment-asked",
        _asked,
        lambda: [encode_document({"experiment": "ab" * 32, "round": 7})],
        canonical=lambda found: found,
    ),
    Target(
        "relay-piece-index",
        lambda data: read_index(as_text(data)),
        lambda: [b"0", b"17", b"017"],
        encode=lambda found: str(found).encode(),
    ),
    Target(
        "relay-have",
        read_have,
        lambda: [have_json([0, 2]), b'{"have":[true,"1",-1]}', b"[]"],
        allowed=(),
        encode=lambda found: have_json(sorted(found)),
    ),
    Target("relay-piece-ticket", _ticket, _tickets, allowed=SIGNED),
    Target(
        "relay-terms-and-tickets",
        _statement,
        lambda: [_TERMS.data, ticket_for(_LABEL, 0, _PIECE).data],
        canonical=lambda found: found.data,
    ),
)
