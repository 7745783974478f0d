"""What a relay signs of itself, and of a piece of a batch on its way."""

from __future__ import annotations

import base64

import pytest

from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.canonical import decode_document, encode_document
from secvm.protocol.relays.batches import PieceTicket, check_ticket, ticket_for
from secvm.protocol.relays.statements import RelayedTerms
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, known_bytes

LABEL, PIECE = known_bytes("label"), known_bytes("piece", 256)
TERMS = RelayedTerms(
    url="https://mix.example/r",
    operator="Mix Ltd.",
    role="mix",
    quota=1,
    cells=1000,
    packages=90,
    capsules=5000,
    seconds_per_million=600,
)


def header(ticket: PieceTicket, *, by: object = ENTRY) -> str:
    return base64.b64encode(ticket.signed(ENTRY if by is ENTRY else MIX)).decode()


def test_terms_are_read_as_they_were_signed() -> None:
    assert RelayedTerms.read(TERMS.signed(MIX), MIX.public) == TERMS
    with pytest.raises(BadSignatureError):
        RelayedTerms.read(TERMS.signed(ENTRY), MIX.public)


@pytest.mark.parametrize(
    "changes", [{"role": "both"}, {"operator": ""}, {"operator": "x" * 201}, {"quota": 0}, {"more": 1}, {"url": "a\nb"}]
)
def test_terms_of_another_form_are_refused(changes: dict[str, object]) -> None:
    content = decode_document(TERMS.data, max_bytes=4096)
    with pytest.raises(MalformedMessageError):
        RelayedTerms.from_bytes(encode_document({**content, **changes}))


def test_a_ticket_is_good_for_its_piece_alone_and_from_its_relay_alone() -> None:
    good = header(ticket_for(LABEL, 3, PIECE))
    check_ticket(good, ENTRY.public, label=LABEL, piece=3, data=PIECE)
    for named in (
        {"label": bytes(32), "piece": 3, "data": PIECE},
        {"label": LABEL, "piece": 4, "data": PIECE},
        {"label": LABEL, "piece": 3, "data": PIECE[1:]},
    ):
        with pytest.raises(MalformedMessageError):
            check_ticket(good, ENTRY.public, **named)  # type: ignore[arg-type]
    with pytest.raises(MalformedMessageError):
        check_ticket("é", ENTRY.public, label=LABEL, piece=3, data=PIECE)
    with pytest.raises(BadSignatureError):
        check_ticket(header(ticket_for(LABEL, 3, PIECE), by=MIX), ENTRY.public, label=LABEL, piece=3, data=PIECE)


def test_seeded_secrets_differ_by_seed_role_and_round_and_are_as_written_down() -> None:
    found = {
        seeded_round_secret(seed, role, number) for seed in ("a", "b") for role in ("entry", "mix") for number in (1, 2)
    }
    assert len(found) == 8
    assert (
        seeded_round_secret("a", "entry", 1).hex() == "cd0796b8c2b73942fca29d30b979f3cdbee3a445e659b192140d0fbad703ffef"
    )
