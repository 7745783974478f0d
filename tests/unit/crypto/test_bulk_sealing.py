"""Many capsules at once are as ``layers`` makes them one by one: with lanes and without, on any threads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.sealing import layers
from secvm.crypto.sealing.hpke import CHACHA20_POLY1305, Schedule
from secvm.crypto.sealing.kem import X25519, X25519PrivateKey
from secvm.crypto.sealing.lanes import LaneKey, Lanes
from secvm.crypto.sealing.layers import BulkSealer, Layer, inner_layer, outer_layer
from secvm.errors import LocalProtocolError, OpeningError
from tests.unit.crypto.dice import unsafe_seeded
from tests.unit.crypto.test_lanes import LOW, ODD

DICE = unsafe_seeded("bulk")
KEY, LABEL = X25519PrivateKey(DICE(32)), DICE(32)
LAYERS = [inner_layer(LABEL), outer_layer(LABEL)]
SCALARS = [bytes(32), b"\xff" * 32, b"\1" + bytes(31), bytes(31) + b"\x80", *LOW, *ODD]


def one_by_one(layer: Layer, ephemerals: bytes, contents: bytes) -> bytes:
    size = layer.content_bytes
    return b"".join(
        layer.seal(KEY.public_key, ephemerals[32 * i : 32 * i + 32], contents[size * i : size * i + size])
        for i in range(len(ephemerals) // 32)
    )


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 20), seed=st.text(max_size=3), threads=st.integers(1, 3))
def test_many_are_sealed_and_opened_as_one_by_one(
    lanes: Lanes | None, layer: Layer, count: int, seed: str, threads: int
) -> None:
    dice = unsafe_seeded(seed)
    ephemerals, contents = dice(32 * count), dice(layer.content_bytes * count)
    sealer = BulkSealer(lanes, threads=threads)
    capsules = sealer.seal(layer, KEY.public_key, ephemerals, contents)
    assert capsules == one_by_one(layer, ephemerals, contents)
    assert sealer.open_all(layer, KEY, capsules) == (contents, b"\1" * count)


def test_secrets_at_the_edges_give_the_same_capsules(lanes: Lanes | None) -> None:
    """Scalars of nothing but zeros or ones, and field elements at the edges, which clamping makes good ones."""
    ephemerals, layer = b"".join(SCALARS), LAYERS[0]
    contents = DICE(32 * len(SCALARS))
    assert BulkSealer(lanes).seal(layer, KEY.public_key, ephemerals, contents) == one_by_one(
        layer, ephemerals, contents
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_wrong_with_a_capsule_does_not_change_its_neighbours(lanes: Lanes | None, layer: Layer) -> None:
    count, size, dice = 60, layer.capsule_bytes, unsafe_seeded("wrong")
    contents = dice(layer.content_bytes * count)
    capsules = bytearray(BulkSealer().seal(layer, KEY.public_key, dice(32 * count), contents))
    points = [*LOW, *ODD]
    for i in range(count):
        if i % 3 == 0:
            capsules[size * i + dice(1)[0] % size] ^= 1 << dice(1)[0] % 8
        elif i % 3 == 1:
            capsules[size * i : size * i + 32] = points[i % len(points)]
    expected = BulkSealer().open_all(layer, KEY, bytes(capsules))
    inside, opened = BulkSealer(lanes, threads=2).open_all(layer, KEY, bytes(capsules))
    assert (inside, opened) == expected
    assert opened == bytes(i % 3 == 2 for i in range(count))
    for i in range(count):
        place = slice(layer.content_bytes * i, layer.content_bytes * (i + 1))
        assert inside[place] == (contents[place] if i % 3 == 2 else bytes(layer.content_bytes))


def test_runs_of_several_threads_stay_in_order(lanes: Lanes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_RUN", 5)
    ephemerals, contents = DICE(32 * 203), DICE(32 * 203)
    for threads in (1, 2, 5):
        sealer = BulkSealer(lanes, threads=threads)
        capsules = sealer.seal(LAYERS[0], KEY.public_key, ephemerals, contents)
        assert capsules == one_by_one(LAYERS[0], ephemerals, contents)
        assert sealer.open_all(LAYERS[0], KEY, capsules)[0] == contents


def test_sizes_that_do_not_belong_together_are_refused(lanes: Lanes | None) -> None:
    sealer = BulkSealer(lanes)
    for ephemerals, contents in ((bytes(32), bytes(64)), (bytes(31), bytes(32)), (bytes(32), bytes(33))):
        with pytest.raises(LocalProtocolError):
            sealer.seal(LAYERS[0], KEY.public_key, ephemerals, contents)
    with pytest.raises(OpeningError):
        sealer.open_all(LAYERS[0], KEY, bytes(81))
    with pytest.raises(LocalProtocolError):
        BulkSealer(lanes, threads=0)


def test_another_cipher_is_done_one_by_one_and_no_key_is_printed(lanes: Lanes | None) -> None:
    other = Layer(Schedule(X25519, CHACHA20_POLY1305, b""), 32)
    capsule = BulkSealer(lanes).seal(other, KEY.public_key, bytes(32), bytes(32))
    assert BulkSealer(lanes).open_all(other, KEY, capsule) == (bytes(32), b"\1")
    if lanes is not None:
        key = lanes.key(LAYERS[0].schedule, KEY.public_key, KEY)
        assert repr(key) == "LaneKey(...)"
        only_public = lanes.key(LAYERS[0].schedule, KEY.public_key)
        assert isinstance(only_public, LaneKey)
        with pytest.raises(LocalProtocolError):
            only_public.open_all(bytes(80), 80)
        with pytest.raises(LocalProtocolError):
            only_public.open([bytes(80)])
