"""Anonymous tokens: issued once, unlinkable by what the issuer sees, refused where anything is another."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto import ristretto255 as group
from secvm.crypto import tokens as t
from secvm.crypto import voprf
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError

SEED = bytes(range(32))
dice = random.Random(1).randbytes


def issued(key: t.TokenKey, seed: bytes, count: int) -> list[bytes]:
    batch = t.TokenBatch(seed, count)
    return batch.tokens(t.issue(key, batch.request(key.public), dice), key.public)


def test_issued_tokens_are_redeemed_and_are_all_different() -> None:
    key = t.TokenKey.of_round(SEED)
    found = issued(key, b"a" * 32, 4) + issued(key, b"b" * 32, 4)
    assert [t.redeem(key, token) for token in found] == [token[:32] for token in found]
    assert len(set(found)) == 8
    assert {len(token) for token in found} == {t.TOKEN_BYTES}


def test_the_same_request_gives_the_same_tokens_however_often_it_is_answered() -> None:
    key, batch = t.TokenKey.of_round(SEED), t.TokenBatch(b"a" * 32, 3)
    request = batch.request(key.public)
    answers = [t.issue(key, request, dice) for _ in range(2)]
    # Two proofs, drawn anew; one set of tokens.
    assert answers[0] != answers[1]
    assert batch.tokens(answers[0], key.public) == t.TokenBatch(b"a" * 32, 3).tokens(answers[1], key.public)


def test_an_issuer_that_marks_one_token_of_many_is_found_out() -> None:
    key, batch = t.TokenKey.of_round(SEED, quick=False), t.TokenBatch(b"a" * 32, 5)
    answer = t.issue(key, batch.request(key.public), dice)
    element = group.add(group.decode(answer[64:96]), group.BASE)
    with pytest.raises(BadProofError):
        batch.tokens(answer[:64] + group.encode(element) + answer[96:], key.public)


@settings(max_examples=10, deadline=None)
@given(
    nonce=st.binary(min_size=32, max_size=32), blinds=st.sets(st.integers(1, group.ORDER - 1), min_size=2, max_size=2)
)
def test_a_blind_decides_what_the_issuer_sees_and_nothing_of_the_token(nonce: bytes, blinds: set[int]) -> None:
    key = t.TokenKey.of_round(SEED, quick=False)
    seen, outputs = set(), set()
    for blind in blinds:
        blinded = voprf.blind([nonce], [blind])
        evaluated, proof = key.evaluate(blinded, dice)
        seen |= {*blinded}
        outputs |= {*voprf.finalize([nonce], [blind], blinded, evaluated, proof, key.public)}
    assert len(seen) == 2
    assert outputs == {key.output_of(nonce)}


def test_the_compiled_key_gives_the_same_tokens_where_it_is_installed() -> None:
    slow, usual = t.TokenKey.of_round(SEED, quick=False), t.TokenKey.of_round(SEED)
    batch = t.TokenBatch(b"a" * 32, 3)
    request = batch.request(usual.public)
    assert slow.public == usual.public
    assert batch.tokens(t.issue(usual, request, dice), usual.public) == issued(slow, b"a" * 32, 3)
    assert slow.output_of(b"n" * 32) == usual.output_of(b"n" * 32)
    for bad in (b"\xff" * 32, bytes(32)):
        with pytest.raises(MalformedMessageError):
            t.issue(usual, request[:-32] + bad, dice)


def test_a_request_tells_how_many_tokens_it_is_for() -> None:
    request = t.TokenBatch(b"a" * 32, 3).request(bytes(32))
    assert t.tokens_wanted(request) == 3
    for bad in (b"", request[:32], request[:-1], request + b"\0"):
        with pytest.raises(MalformedMessageError):
            t.tokens_wanted(bad)


def test_a_batch_has_a_seed_and_tokens() -> None:
    for seed, count in ((b"short", 1), (SEED, 0), (SEED, t.MAX_TOKENS + 1)):
        with pytest.raises(LocalProtocolError):
            t.TokenBatch(seed, count)


def test_blinds_and_batches_are_checked() -> None:
    with pytest.raises(LocalProtocolError):
        voprf.blind([b"x"], [0])
    with pytest.raises(LocalProtocolError):
        voprf.derive_key_pair(b"short", b"")
    with pytest.raises(MalformedMessageError):
        voprf.evaluate(voprf.derive_key_pair(SEED, b""), [], dice)


def test_neither_keys_nor_batches_print_their_secrets() -> None:
    key = t.TokenKey.of_round(SEED)
    assert repr(key) == "TokenKey(...)"
    assert repr(t.TokenBatch(SEED, 1)) == "TokenBatch(...)"
    assert str(voprf.derive_key_pair(SEED, b"").scalar) not in repr(voprf.derive_key_pair(SEED, b""))
