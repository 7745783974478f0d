"""Lanes open what the readable code opens, and refuse what it refuses, in the same words. Every test here also runs
where there are no lanes; then it holds the readable code to itself.
"""

import os
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing import kem
from secvm.crypto.sealing.hpke import AES_128_GCM, CHACHA20_POLY1305, Schedule
from secvm.crypto.sealing.lanes import LOW_ORDER, OPENED, WRONG_TAG, Content, LaneKey, Lanes
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer, seal_request
from secvm.errors import OpeningError, RemoteProtocolError
from secvm.runtime.lanes import opens_alike, seals_alike
from tests.unit.crypto.dice import unsafe_seeded
from tests.unit.crypto.openers import lanes_here
from tests.unit.crypto.test_hpke import LOW_ORDER as LOW_POINTS
from tests.unit.crypto.test_hpke import RFC_9180
from tests.unit.crypto.test_oblivious import (
    KEYS,
    RFC_CAPSULE,
    RFC_KEY,
    RFC_REQUEST,
)

P = 2**255 - 19
#: Both ways of writing them: the highest bit of a point is not looked at.
LOW = [number.to_bytes(32, "little") for point in LOW_POINTS for number in (point, point + 2**255)]
#: Points at the edges of the field, and beyond them.
ODD = [
    number.to_bytes(32, "little")
    for edge in (2, 9, P - 2, P - 3, P + 2, 2**255 - 1)
    for number in (edge, edge + 2**255)
]


def results(keys: GatewayKeys, capsules: list[bytes]) -> list[object]:
    """What opening says of each capsule."""
    opened = keys.open_unanswered(capsules)
    return [content if isinstance(content, bytes) else (type(content), str(content)) for content in opened]


def test_rfc_9458_example_opens_in_a_batch(lanes: Lanes | None) -> None:
    opened = GatewayKeys([RFC_KEY], lanes).open_unanswered([bytes.fromhex(RFC_CAPSULE)] * 9)
    assert opened == [bytes.fromhex(RFC_REQUEST)] * 9


def _of_a_point(lane_key: LaneKey, point: bytes) -> tuple[int, bytes]:
    """The fate of a capsule with this point and nothing sealed, and the secret that came of it."""
    content = lane_key.open([bytes(7) + point + bytes(16)], secrets=True)
    return content.fates[0], content.secrets


def test_lanes_make_the_secrets_of_rfc_9180_and_of_odd_points(lanes: Lanes | None) -> None:
    # RFC 9180's vectors bind additional data, which a capsule has not: their secrets are compared instead.
    for vector in RFC_9180:
        private = kem.X25519PrivateKey(bytes.fromhex(vector["skRm"]))
        enc, secret = bytes.fromhex(vector["enc"]), bytes.fromhex(vector["shared_secret"])
        assert private.decapsulate(enc) == secret
        if lanes is not None:
            key = lanes.key(Schedule(kem.X25519, AES_128_GCM, b""), private.public_key, private)
            assert key is not None
            assert _of_a_point(key, enc)[1] == secret
            for point in ODD:
                assert _of_a_point(key, point) == (WRONG_TAG, private.decapsulate(point))
            for point in LOW:
                assert _of_a_point(key, point) == (LOW_ORDER, bytes(32))
        for point in LOW:
            assert _secret(private, point) is None


def test_points_that_carry_far_give_the_same_secrets(lanes: Lanes | None) -> None:
    # Limbs of nothing but ones or zeros, on 51 and on 52 bits: where code for many lanes is known to forget a carry.
    dice = unsafe_seeded("carries")
    private = kem.X25519PrivateKey(dice(32))
    points = list(range(P - 300, P + 19)) + [2**255 - 2**k for k in range(255)] + [2**k - 1 for k in range(256)]
    for i in range(1200):
        bits = 51 + i % 2
        extremes = (0, 1, 2**bits - 1, 2**bits - 2, int.from_bytes(dice(6), "big"))
        points.append(sum(extremes[dice(1)[0] % 5] << bits * k for k in range(5)) % 2**256)
    encs = [point.to_bytes(32, "little") for point in points]
    if lanes is None:
        assert sum(_secret(private, enc) is None for enc in encs) == 5, "0, 1, p - 1, p and p + 1"
        return
    key = lanes.key(Schedule(kem.X25519, AES_128_GCM, b""), private.public_key, private)
    assert key is not None
    content = key.open([bytes(7) + enc + bytes(16) for enc in encs], secrets=True)
    for i, enc in enumerate(encs):
        secret = _secret(private, enc)
        assert content.fates[i] == (LOW_ORDER if secret is None else WRONG_TAG)
        assert content.secrets[32 * i : 32 * i + 32] == (secret or bytes(32))


def _secret(private: kem.X25519PrivateKey, enc: bytes) -> bytes | None:
    try:
        return private.decapsulate(enc)
    except OpeningError:
        return None


def test_lanes_are_for_one_cipher_and_print_no_key() -> None:
    lanes = lanes_here()
    private = kem.X25519PrivateKey(bytes(range(32)))
    if lanes is not None:
        assert lanes.key(Schedule(kem.X25519, CHACHA20_POLY1305, b""), private.public_key) is None
        key = lanes.key(Schedule(kem.X25519, AES_128_GCM, b""), private.public_key, private)
        content = Content([b"what was under the seal"], bytes([OPENED]), private.secret_bytes())
        for shown in (repr(key), repr(lanes), repr(content)):
            assert "seal" not in shown
            assert "\\x01" not in shown
            assert "0102" not in shown


# ── whatever may arrive ──────────────────────────────────────────────────────────────────────────────────────────────

Change = Callable[[bytes], bytes]
SEALERS = [RequestSealer(key.configuration) for key in KEYS]


@st.composite
def capsule(draw: st.DrawFn) -> bytes:
    """Good ones of three kinds, and bad ones in every way one can think of."""
    sealer = draw(st.sampled_from([SEALERS[0], SEALERS[0], SEALERS[0], *SEALERS]))
    good = sealer.seal(draw(st.binary(max_size=draw(st.sampled_from([40, 200])))), os.urandom).capsule
    at = draw(st.integers(0, len(good) - 1))
    bit = 1 << draw(st.integers(0, 7))
    return draw(
        st.sampled_from(
            [
                good,
                good,
                good,
                good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :],
                good[:at],
                good[: 7 + 32 + 16],
                good + b"\0",
                good[:7] + draw(st.sampled_from([*LOW, *ODD])) + good[39:],
                good[:7] + draw(st.binary(min_size=32, max_size=32)) + good[39:],
                bytes([draw(st.integers(0, 255))]) + good[1:],
                draw(st.binary(max_size=80)),
                b"",
            ]
        )
    )


@given(batch=st.lists(capsule(), max_size=20))
def test_mixed_batches_open_alike(lanes: Lanes | None, batch: list[bytes]) -> None:
    assert results(GatewayKeys(KEYS, lanes), batch) == results(GatewayKeys(KEYS), batch)


def test_thousands_of_capsules_good_and_bad_open_alike(lanes: Lanes | None) -> None:
    dice = unsafe_seeded("thousands")
    key = GatewayKey(3, kem.X25519PrivateKey(dice(32)))
    sealer = RequestSealer(key.configuration)
    capsules = []
    for i in range(3000):
        good = sealer.seal(dice(i % 131), dice).capsule
        at, bit = int.from_bytes(dice(2), "big") % len(good), 1 << dice(1)[0] % 8
        capsules.append(good if i % 3 else good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
    expected = results(GatewayKeys([key]), capsules)
    assert results(GatewayKeys([key], lanes), capsules) == expected
    assert sum(isinstance(one, bytes) for one in expected) == 2000


def test_a_bad_capsule_leaves_no_trace_of_another_and_no_traceback(lanes: Lanes | None) -> None:
    good = [seal_request(KEYS[0].configuration, b"a secret of mine", os.urandom).capsule for _ in range(9)]
    bad = good[4][:-1] + bytes([good[4][-1] ^ 1])
    opened = GatewayKeys(KEYS, lanes).open_unanswered([*good[:4], bad, *good[5:]])
    assert [isinstance(one, bytes) for one in opened] == [True] * 4 + [False] + [True] * 4
    (error,) = (one for one in opened if isinstance(one, RemoteProtocolError))
    assert (error.__traceback__, error.__context__, error.problem) == (None, None, "garbage")


def test_lanes_that_open_or_seal_otherwise_are_found_out() -> None:
    class Careless(Lanes):
        """Leaves what it is given to write as it is: zeros, and all of them opened."""

        def __init__(self) -> None:
            """Nothing is loaded."""
            self.open = self.open_fixed = self.seal = lambda *_: None

    assert not opens_alike(Careless())
    assert not seals_alike(Careless())
    lanes = lanes_here()
    assert lanes is None or (opens_alike(lanes) and seals_alike(lanes))
