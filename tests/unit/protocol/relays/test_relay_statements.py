"""What one relay signs: one spelling, one signer, one purpose, and never too long."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from secvm.crypto.sealing import kem
from secvm.crypto.signing import SigningKey
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import encode_document
from secvm.protocol.relays.commitments import MAX_PARTS, RoundSecret, check_part, part_path, parts_root
from secvm.protocol.relays.counts import MixCount, part_index
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, RelayedRound

ROUND = RelayedRound()
STATEMENTS: list[tuple[Statement, SigningKey]] = [
    (ROUND.manifest.mix_commitment, MIX),
    (ROUND.manifest.entry_commitment, ENTRY),
    (ROUND.receipt, ENTRY),
    (ROUND.entry_count, ENTRY),
    (ROUND.mix_count, MIX),
    (ROUND.entry_reveal, ENTRY),
    (ROUND.mix_reveal, MIX),
]
EACH = pytest.mark.parametrize(("statement", "key"), STATEMENTS, ids=lambda told: getattr(told, "kind", ""))


@EACH
def test_what_was_signed_is_read_again(statement: Statement, key: SigningKey) -> None:
    envelope = statement.signed(key)
    assert type(statement).read(envelope, key.public) == statement
    assert type(statement).from_bytes(statement.data).data == statement.data
    assert len(envelope) == len(statement.data) + ENVELOPE_BYTES


@EACH
def test_every_field_must_be_there_with_its_type(statement: Statement, key: SigningKey) -> None:
    content: dict[str, Any] = json.loads(statement.data)
    wrong = [{**content, "more": 1}]
    for name in content:
        wrong.append({other: value for other, value in content.items() if other != name})
        wrong += [{**content, name: value} for value in (None, -1, "x", ["x"], True)]
    for bad in wrong:
        with pytest.raises(MalformedMessageError):
            type(statement).from_bytes(encode_document(bad))
    for data in (statement.data + b" ", statement.data.replace(b'":', b'": '), b"", b"[]"):
        with pytest.raises(MalformedMessageError):
            type(statement).from_bytes(data)


def test_what_a_reader_would_refuse_cannot_be_written() -> None:
    for bad in (replace(ROUND.receipt, capsules=0), replace(ROUND.mix_count, refused=-1)):
        with pytest.raises(LocalProtocolError):
            _ = bad.data
    with pytest.raises(LocalProtocolError):
        _ = replace(ROUND.entry_reveal, part=MAX_PARTS).data


def test_the_longest_reveal_fits() -> None:
    most = 2**53 - 1
    count = MixCount(label=b"\xff" * 32, entry_count="f" * 64, refused=most, capsules=most, root=b"\xff" * 32)
    told: dict[str, Any] = {"mix_count": count.signed(MIX), "part": 63, "path": (b"\xff" * 32,) * 6}
    for reveal in (replace(ROUND.entry_reveal, **told), replace(ROUND.mix_reveal, **told)):
        assert len(reveal.data) <= reveal.longest


# ── what follows from a secret ───────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_does_not_print_itself() -> None:
    secret = RoundSecret(b"k" * 32)
    assert "k" * 4 not in repr(secret) + str(secret) + repr([secret])
    assert {field.name for field in fields(secret)} == {"secret"}


@pytest.mark.parametrize("parts", [4, 9, 64])
def test_each_seed_leads_to_the_root_at_its_own_place_only(parts: int) -> None:
    seeds = RoundSecret(bytes(32)).part_seeds(parts)
    root = parts_root(seeds)
    for part, seed in enumerate(seeds):
        path = part_path(seeds, part)
        check_part(seed, part=part, parts=parts, path=path, root=root)
        for other in ({"part": (part + 1) % parts}, {"parts": parts + 1}, {"path": path[:-1]}, {"root": bytes(32)}):
            told: dict[str, Any] = {"part": part, "parts": parts, "path": path, "root": root, **other}
            # A tree of one more leaf may have the same path up to the last step; then the root still differs.
            with pytest.raises(BadProofError):
                check_part(seeds[part - 1] if "parts" in other else seed, **told)


def test_bad_secrets_and_parts_are_refused() -> None:
    for make in (
        lambda: RoundSecret(b""),
        lambda: RoundSecret(bytes(32)).part_seed(MAX_PARTS),
        lambda: part_index(bytes(32), "00" * 32, 0),
    ):
        with pytest.raises(LocalProtocolError):
            make()


# ── what is read once ────────────────────────────────────────────────────────────────────────────────────────────────

ROUND = RelayedRound()


@pytest.mark.parametrize(("kind", "data"), [(RelayedManifest, ROUND.manifest.data), (Opening, ROUND.opening.data)])
def test_the_same_bytes_are_read_once_and_others_anew(kind: type[RelayedManifest | Opening], data: bytes) -> None:
    assert kind.from_bytes(data) is kind.from_bytes(bytes(bytearray(data)))
    assert kind.from_bytes(data).data == data
    for _ in range(2):
        with pytest.raises(MalformedMessageError):
            kind.from_bytes(data[:-1])


def test_a_key_of_low_order_is_refused_every_time() -> None:
    for _ in range(3):
        with pytest.raises(MalformedMessageError, match="low order"):
            kem.X25519PublicKey(bytes(32))
