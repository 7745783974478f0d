"""Oblivious HTTP: the RFC's example byte for byte, capsules both ways, and whatever else may arrive."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing import kem
from secvm.crypto.sealing.oblivious import (
    OUR_ALGORITHMS,
    GatewayKey,
    GatewayKeys,
    KeyConfiguration,
    RequestSealer,
    _answer_keys,
    decode_key_configurations,
    encode_key_configurations,
    seal_request,
)
from secvm.errors import (
    LocalProtocolError,
    MalformedMessageError,
    OpeningError,
    RemoteProtocolError,
    UnknownKeyError,
)
from tests.rigs.vectors import vectors
from tests.unit.crypto.dice import unsafe_seeded

#: The example of RFC 9458, appendix A: what travels in it is held to the vectors, what follows from it here.
RFC = vectors("sealing")["cases"][0]
RFC_SECRET, RFC_REQUEST, RFC_CAPSULE = RFC["private_key"], RFC["request"], RFC["capsule"]
RFC_KEY = GatewayKey(1, kem.X25519PrivateKey(bytes.fromhex(RFC_SECRET)), ((1, 1), (1, 3)))


def test_an_answers_key_is_derived_as_in_the_rfc() -> None:
    context = GatewayKeys([RFC_KEY]).open(bytes.fromhex(RFC_CAPSULE))._context
    assert context.export(b"message/bhttp response", 16).hex() == "62d87a6ba569ee81014c2641f52bea36"
    derived = [part.hex() for part in _answer_keys(context, bytes.fromhex(RFC["nonce"]))]
    assert derived == ["5d0172a080e428b16d298c4ea0db620d", "f6bf1aeb88d6df87007fa263"]


# ── both ways ────────────────────────────────────────────────────────────────────────────────────────────────────────

KEYS = [
    GatewayKey(7, kem.X25519PrivateKey.generate(unsafe_seeded("classical"))),
    GatewayKey(8, kem.HybridPrivateKey.generate(unsafe_seeded("hybrid"))),
    GatewayKey(9, kem.X25519PrivateKey.generate(unsafe_seeded("chacha")), ((1, 3),)),
]
NAMES = ["X25519", "hybrid", "ChaCha20-Poly1305"]
GATEWAY = GatewayKeys(KEYS)


@pytest.mark.parametrize("key", KEYS, ids=NAMES)
@given(request=st.binary(max_size=300), response=st.binary(max_size=300))
def test_capsule_and_answer_come_back(key: GatewayKey, request: bytes, response: bytes) -> None:
    sealed = seal_request(key.configuration, request, os.urandom)
    opened = GATEWAY.open(sealed.capsule)
    assert opened.request == request
    assert sealed.open_response(opened.seal_response(response, os.urandom)) == response


def test_capsules_of_the_same_request_share_nothing_but_the_header() -> None:
    sealer = RequestSealer(KEYS[0].configuration)
    first, second = (sealer.seal(b"the same", os.urandom).capsule for _ in range(2))
    assert first[:7] == second[:7]
    assert len(first) == len(second)
    assert first[7:39] != second[7:39]
    assert first[39:] != second[39:]


def test_answer_opens_for_its_own_request_only() -> None:
    mine, other = (seal_request(KEYS[0].configuration, b"the same", os.urandom) for _ in range(2))
    answer = GATEWAY.open(mine.capsule).seal_response(b"yes", os.urandom)
    assert mine.open_response(answer) == b"yes"
    with pytest.raises(OpeningError):
        other.open_response(answer)


# ── whatever else may arrive ─────────────────────────────────────────────────────────────────────────────────────────


def open_all(capsule: bytes) -> RemoteProtocolError:
    """Open what must not open; alone and in a batch the same thing is wrong."""
    with pytest.raises((MalformedMessageError, OpeningError)) as caught:
        GATEWAY.open(capsule)
    (unanswered,) = GATEWAY.open_unanswered([capsule])
    assert type(unanswered) is type(caught.value)
    assert isinstance(unanswered, RemoteProtocolError)
    return unanswered


@pytest.mark.parametrize("key", KEYS, ids=NAMES)
@given(data=st.data())
def test_changed_capsules_do_not_open(key: GatewayKey, data: st.DataObject) -> None:
    capsule = seal_request(key.configuration, b"hello", os.urandom).capsule
    bit = data.draw(st.integers(0, 8 * len(capsule) - 1))
    flipped = bytearray(capsule)
    flipped[bit // 8] ^= 1 << bit % 8
    open_all(bytes(flipped))
    open_all(capsule[: data.draw(st.integers(0, len(capsule) - 1))])
    open_all(capsule + data.draw(st.binary(min_size=1, max_size=20)))


def test_batch_keeps_its_order_and_one_bad_capsule_harms_no_other() -> None:
    good = [seal_request(KEYS[i % 3].configuration, b"%d" % i, os.urandom).capsule for i in range(9)]
    batch = [b"", *good[:4], good[4][:-1] + bytes([good[4][-1] ^ 1]), *good[5:], b"\xff" * 60]
    opened = GATEWAY.open_unanswered(batch)
    assert [content for content in opened if isinstance(content, bytes)] == [b"%d" % i for i in range(9) if i != 4]
    errors = {i: error for i, error in enumerate(opened) if isinstance(error, RemoteProtocolError)}
    assert sorted(errors) == [0, 5, 10]
    assert all(error.__traceback__ is None and error.__context__ is None for error in errors.values())
    assert GATEWAY.open_unanswered([]) == []


def test_faults_of_our_own_are_not_hidden_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(enc: bytes) -> bytes:
        raise ZeroDivisionError

    key = kem.X25519PrivateKey.generate(os.urandom)
    gateway = GatewayKeys([GatewayKey(1, key)])
    monkeypatch.setattr(key, "decapsulate", broken)
    with pytest.raises(ZeroDivisionError):
        gateway.open_unanswered([seal_request(GatewayKey(1, key).configuration, b"", os.urandom).capsule])


# ── key configurations ───────────────────────────────────────────────────────────────────────────────────────────────

pairs = st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), min_size=1, max_size=5).map(tuple)
configurations = st.builds(
    KeyConfiguration,
    key_id=st.integers(0, 255),
    public_key=st.sampled_from([key.private_key.public_key for key in KEYS]),
    algorithms=pairs,
)


@given(listed=st.lists(configurations, min_size=1, max_size=3))
def test_key_configurations_come_back(listed: list[KeyConfiguration]) -> None:
    encoded = encode_key_configurations(listed)
    assert decode_key_configurations(encoded) == tuple(listed)
    for one in listed:
        assert KeyConfiguration.from_bytes(one.to_bytes()) == one


def test_keys_of_a_kind_that_is_not_known_are_left_out() -> None:
    ours = KEYS[0].configuration
    foreign = b"\1\0\x10" + bytes(65) + b"\0\4\0\1\0\1"
    encoded = len(foreign).to_bytes(2, "big") + foreign + encode_key_configurations([ours])
    assert decode_key_configurations(encoded) == (ours,)
    assert decode_key_configurations(encoded[: 2 + len(foreign)]) == ()
    with pytest.raises(MalformedMessageError):
        KeyConfiguration.from_bytes(foreign)


def test_first_algorithm_that_we_have_is_chosen() -> None:
    public = KEYS[0].private_key.public_key
    assert KeyConfiguration(1, public, ((1, 2), (2, 1), (1, 3), (1, 1))).chosen == (1, 3)
    assert KeyConfiguration(1, public).chosen == OUR_ALGORITHMS
    with pytest.raises(UnknownKeyError):
        seal_request(KeyConfiguration(1, public, ((1, 2), (2, 1))), b"", os.urandom)


def test_bad_keys_of_our_own_are_refused() -> None:
    private, public = KEYS[0].private_key, KEYS[0].private_key.public_key
    for call in (
        lambda: KeyConfiguration(256, public).to_bytes(),
        lambda: KeyConfiguration(1, public, ()).to_bytes(),
        lambda: KeyConfiguration(1, public, ((1, 65536),)).to_bytes(),
        lambda: seal_request(KeyConfiguration(-1, public), b"", os.urandom),
        lambda: encode_key_configurations([]),
        lambda: GatewayKeys([GatewayKey(1, private), GatewayKey(1, private)]),
        lambda: GatewayKeys([GatewayKey(1, private, ((1, 2),))]),
        lambda: GatewayKeys([GatewayKey(1, private, ())]),
        lambda: seal_request(KEYS[0].configuration, b"", lambda count: b""),
    ):
        with pytest.raises(LocalProtocolError):
            call()


def test_dice_too_short_for_an_answer_are_refused() -> None:
    opened = GATEWAY.open(seal_request(KEYS[0].configuration, b"", os.urandom).capsule)
    with pytest.raises(LocalProtocolError):
        opened.seal_response(b"", lambda count: bytes(count - 1))


def test_a_machine_without_ml_kem_knows_no_hybrid_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_key_configurations([KEYS[1].configuration, KEYS[0].configuration])
    monkeypatch.setattr(kem, "hybrid_is_here", lambda: False)
    assert decode_key_configurations(encoded) == (KEYS[0].configuration,)
    with pytest.raises(LocalProtocolError, match="no ML-KEM"):
        kem.HybridPrivateKey(bytes(32))


def test_nothing_prints_what_is_sealed() -> None:
    sealed = seal_request(KEYS[0].configuration, b"secret", os.urandom)
    opened = GATEWAY.open(sealed.capsule)
    printed = f"{sealed!r} {opened!r} {GATEWAY!r} {KEYS!r} {RFC_KEY!r}"
    assert "secret" not in printed
    assert RFC_SECRET not in printed
    assert repr(bytes.fromhex(RFC_SECRET)) not in printed
