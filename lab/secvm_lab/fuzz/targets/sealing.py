"""Targets: what stands under seals and signatures, and the seals themselves (``secvm.crypto``)."""

from __future__ import annotations

import functools
from typing import Any

from secvm.crypto import ristretto255
from secvm.crypto.sealing import binary_http, capsules, layers
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.sealing.layers import BulkSealer
from secvm.crypto.sealing.oblivious import KeyConfiguration, decode_key_configurations, encode_key_configurations
from secvm.crypto.signing import Envelope, verify
from secvm.crypto.tokens import PUBLIC_KEY_BYTES, TokenBatch, issue, redeem, tokens_wanted
from secvm.errors import BadProofError, MalformedMessageError, OpeningError, RemoteProtocolError
from secvm.protocol.version import MANIFEST_TYPE
from secvm.runtime.lanes import find_lanes
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import SIGNED, Target, expect

_OPENING = (MalformedMessageError, OpeningError)


def _requests() -> list[bytes]:
    made = binary_http.Request(
        method=b"POST",
        scheme=b"https",
        authority=b"gateway.invalid",
        path=b"/v1/packages",
        headers=((b"content-type", b"text/plain"), (b"date", b"now")),
        content=bytes(32),
        trailers=((b"late", b"field"),),
    )
    return [binary_http.encode_request(made), binary_http.encode_request(made, indeterminate=True)]


def _responses() -> list[bytes]:
    made = binary_http.Response(
        status=200,
        headers=((b"date", b"Thu, 01 Jan 2026 00:00:00 GMT"),),
        content=b"content",
        informational=(binary_http.InformationalResponse(status=103, headers=((b"link", b"x"),)),),
    )
    return [binary_http.encode_response(made), binary_http.encode_response(made, padded_to=512)]


def _open_capsule(data: bytes) -> object:
    keys = world.gateway_keys()
    (unanswered,) = keys.open_unanswered([data])
    try:
        opened = keys.open(data)
    except RemoteProtocolError as error:
        expect(type(unanswered) is type(error), "a capsule is opened by one way and refused by another")
        raise
    expect(unanswered == opened.request, "two ways to open a capsule differ")
    return opened.request


_LAYER_KEY, _LABEL = X25519PrivateKey(bytes(range(32))), bytes(32)


def _layered() -> list[bytes]:
    public = _LAYER_KEY.public_key
    return list(layers.seal_both(public, public, _LABEL, bytes(range(64)), bytes(range(32))))


@functools.cache
def _lanes() -> Lanes | None:
    return find_lanes().lanes


def _open_layer(data: bytes) -> bytes:
    """Either layer, by the length; among many as alone."""
    outer = len(data) > layers.INNER_BYTES
    layer = layers.outer_layer(_LABEL) if outer else layers.inner_layer(_LABEL)
    inside, opened = BulkSealer(_lanes()).open_all(layer, _LAYER_KEY, data if len(data) == layer.capsule_bytes else b"")
    found = (layers.open_outer if outer else layers.open_inner)(_LAYER_KEY, _LABEL, data)
    expect((inside, opened) == (found, b"\1"), "a capsule is opened alone and not among many")
    return found


@functools.cache
def _asked() -> Any:
    return world.sealed(b"request")


def _answers() -> list[bytes]:
    return [world.gateway_keys().open(_asked().capsule).seal_response(b"answer", world.dice())]


def _verify(data: bytes) -> bytes:
    return verify(data, purpose=MANIFEST_TYPE, keys=world.history().document.coordinator_keys)


def _key_configurations() -> list[bytes]:
    ours = world.gateway_key().configuration
    other = KeyConfiguration(2, ours.public_key, ((1, 3), (1, 1), (9, 9)))
    return [one.to_bytes() for one in (ours, other)]


def _unpack(data: bytes) -> list[bytes]:
    found = capsules.unpack(data)
    in_groups = [one for group in capsules.unpack_in_groups(data, 2) for one in group]
    expect(in_groups == found, "capsules differ when they are taken in groups")
    return found


@functools.cache
def _batch() -> TokenBatch:
    return TokenBatch(bytes(32), 2)


def _token_request(data: bytes) -> bytes:
    # Under the right key: another one is refused at once, and nothing behind it would be seen.
    request = world.token_key().public + data
    wanted = tokens_wanted(request)
    answer = issue(world.token_key(), request, world.dice())
    expect(len(answer) == 32 * wanted + 64, "an issuer's answer has another length")
    return answer


def _token_answer(data: bytes) -> list[bytes]:
    return _batch().tokens(data, world.token_key().public)


def _token_requests() -> list[bytes]:
    return [_batch().request(world.token_key().public)[PUBLIC_KEY_BYTES:]]


def _token_answers() -> list[bytes]:
    return [issue(world.token_key(), _batch().request(world.token_key().public), world.dice())]


def _tokens() -> list[bytes]:
    return _batch().tokens(_token_answers()[0], world.token_key().public)


TARGETS = (
    Target("binary-http-request", binary_http.decode_request, _requests, encode=binary_http.encode_request),
    Target("binary-http-response", binary_http.decode_response, _responses, encode=binary_http.encode_response),
    Target(
        "ohttp-key-configuration", KeyConfiguration.from_bytes, _key_configurations, canonical=KeyConfiguration.to_bytes
    ),
    Target(
        "ohttp-keys",
        decode_key_configurations,
        lambda: [encode_key_configurations([world.gateway_key().configuration])],
        encode=lambda found: encode_key_configurations(found) if found else b"\0\3\0\xff\xff",
    ),
    Target(
        "capsules",
        _unpack,
        lambda: [capsules.pack([b"one", b"two", bytes(300)]), capsules.pack([])],
        canonical=capsules.pack,
    ),
    Target(
        "capsule-open",
        _open_capsule,
        lambda: [world.sealed(b"request").capsule, world.sealed(b"").capsule],
        allowed=_OPENING,
    ),
    Target("layer-open", _open_layer, _layered, allowed=(OpeningError,)),
    Target("answer-open", lambda data: _asked().open_response(data), _answers, allowed=_OPENING),
    Target("envelope", Envelope.from_bytes, lambda: world.files("/manifest/1", "/ending"), canonical=Envelope.to_bytes),
    Target("envelope-verify", _verify, lambda: world.files("/manifest/1"), allowed=SIGNED),
    Target(
        "group-element",
        ristretto255.decode,
        lambda: [ristretto255.encode(ristretto255.from_uniform(bytes([i]) * 64)) for i in range(4)],
        canonical=ristretto255.encode,
    ),
    Target(
        "group-uniform",
        lambda data: ristretto255.encode(ristretto255.from_uniform(data)),
        lambda: [bytes(range(64))],
        allowed=(),
    ),
    Target(
        "group-scalar",
        ristretto255.decode_scalar,
        lambda: [bytes(32), ristretto255.encode_scalar(ristretto255.ORDER - 1)],
        canonical=ristretto255.encode_scalar,
    ),
    Target("token-request", _token_request, _token_requests),
    Target("token-answer", _token_answer, _token_answers, allowed=(MalformedMessageError, BadProofError)),
    Target("token", lambda data: redeem(world.token_key(), data), _tokens, allowed=()),
)
