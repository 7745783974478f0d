"""Two seals, one inside the other: they open for whom, in which round, and refuse everything else with one error."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing import layers
from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.errors import LocalProtocolError, OpeningError
from tests.unit.crypto.dice import unsafe_seeded

DICE = unsafe_seeded("layers")
COUNT, MIX, OTHER = (X25519PrivateKey(DICE(32)) for _ in range(3))
LABEL, ANOTHER = DICE(32), DICE(32)
PACKAGE = bytes(range(32))

secrets = st.binary(min_size=32, max_size=32)


@given(secrets, secrets, secrets)
def test_what_was_sealed_twice_opens_twice(inner_secret: bytes, outer_secret: bytes, package: bytes) -> None:
    inner, outer = layers.seal_both(COUNT.public_key, MIX.public_key, LABEL, inner_secret + outer_secret, package)
    assert (len(inner), len(outer)) == (layers.INNER_BYTES, layers.OUTER_BYTES) == (80, 128)
    assert layers.seal_inner(COUNT.public_key, LABEL, inner_secret, package) == inner
    assert layers.seal_outer(MIX.public_key, LABEL, outer_secret, inner) == outer
    assert layers.open_outer(MIX, LABEL, outer) == inner
    assert layers.open_inner(COUNT, LABEL, inner) == package


@pytest.mark.parametrize(
    "opened",
    [
        lambda inner, outer: layers.open_inner(COUNT, ANOTHER, inner),
        lambda inner, outer: layers.open_outer(MIX, ANOTHER, outer),
        lambda inner, outer: layers.open_inner(OTHER, LABEL, inner),
        lambda inner, outer: layers.open_outer(OTHER, LABEL, outer),
        # What one layer seals the other does not open, also where the sizes would allow it.
        lambda inner, outer: layers.outer_layer(LABEL).schedule.open_one(COUNT, inner[:32], inner[32:]),
        lambda inner, outer: layers.inner_layer(LABEL).schedule.open_one(MIX, outer[:32], outer[32:]),
    ],
)
def test_another_round_key_or_layer_opens_nothing(opened: Callable[[bytes, bytes], bytes]) -> None:
    inner, outer = layers.seal_both(COUNT.public_key, MIX.public_key, LABEL, DICE(64), PACKAGE)
    with pytest.raises(OpeningError):
        opened(inner, outer)


@pytest.mark.parametrize(
    ("label", "ephemerals", "package"),
    [(LABEL[:-1], bytes(64), PACKAGE), (LABEL, bytes(63), PACKAGE), (LABEL, bytes(64), PACKAGE + b"\0")],
)
def test_sizes_that_no_caller_should_pass_are_refused(label: bytes, ephemerals: bytes, package: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        layers.seal_both(COUNT.public_key, MIX.public_key, label, ephemerals, package)
    with pytest.raises(LocalProtocolError):
        layers.seal_inner(X25519PublicKey(COUNT.public_key.to_bytes()), label, ephemerals[1:32], package)
