"""What a relay signs of itself, and of a piece of a batch on its way."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.canonical import decode_document, encode_document
from secvm.protocol.relays.batches import (
    PIECE_CAPSULES,
    PieceTicket,
    capsules_in_piece,
    check_ticket,
    cut,
    piece_count,
    split_piece,
    ticket_for,
)
from secvm.protocol.relays.counts import MAX_PAPER_BYTES, MAX_SHOWN_BYTES, NAMES, read_shown, write_shown
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


# ── what relays show of a round, and how batches are cut into pieces ─────────────────────────────────────────────────


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(min_size=1, max_size=60)))
def test_what_is_shown_is_read_again(papers: dict[str, bytes]) -> None:
    data = write_shown(papers)
    assert read_shown(data) == papers
    assert sorted(json.loads(data)) == sorted(NAMES)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b'{"mix_count": 3}', b'{"mix_count": "*"}', b'{"mix_count": "\xc3\xa9"}',
        b'{"mix_count": "' + b"A" * 4 * MAX_PAPER_BYTES + b'"}', b"[" * 10_000, b" " * (MAX_SHOWN_BYTES + 1),
    ],
)  # fmt: skip
def test_what_is_no_such_answer_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_shown(data)


def test_names_that_nobody_knows_are_not_looked_at() -> None:
    assert read_shown(b'{"later": 7, "mix_count": null}') == {}


@given(st.integers(0, 5 * PIECE_CAPSULES))
def test_pieces_together_are_the_batch(capsules: int) -> None:
    sizes = [capsules_in_piece(index, capsules) for index in range(piece_count(capsules))]
    assert sum(sizes) == capsules
    assert all(size == PIECE_CAPSULES for size in sizes[:-1])
    assert (capsules_in_piece(len(sizes), capsules), capsules_in_piece(-1, capsules)) == (0, 0)


def test_what_is_left_over_of_a_piece_is_no_capsule() -> None:
    assert cut(b"aabbc", 2) == [b"aa", b"bb"]
    assert len(split_piece(bytes(2 * PIECE_CAPSULES), 2)) == PIECE_CAPSULES
    for sent in (b"", b"aabbc", bytes(2 * PIECE_CAPSULES + 2)):
        with pytest.raises(MalformedMessageError, match="a piece of"):
            split_piece(sent, 2)
