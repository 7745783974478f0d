"""The trap behind the published seed: one key, two scalars, and a capsule that each of them reads otherwise."""

import random

import pytest

from secvm.crypto.sealing.hpke import Context
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import inner_layer, open_inner
from secvm.errors import OpeningError
from secvm_lab.rigs.lies.about_shards import COUNT_LIES, IN_ITS_SHARD, IN_THE_OPENING, NOTHING, two_scalars
from tests.seeds import seed_for


def test_two_scalars_have_one_public_key_and_read_one_capsule_differently() -> None:
    dice, label = random.Random(seed_for("two scalars")), bytes(32)
    first, second = (X25519PrivateKey(scalar) for scalar in two_scalars(dice))
    assert first.secret_bytes() != second.secret_bytes()
    assert first.public_key.to_bytes() == second.public_key.to_bytes()
    # Half of all points are on the twist, where the two are different maps.
    points = (dice.randbytes(31) + b"\0" for _ in range(200))
    enc = next(point for point in points if first.decapsulate(point) != second.decapsulate(point))
    layer = inner_layer(label)
    capsule = enc + Context(layer.schedule, first.decapsulate(enc), enc).seal(b"", bytes(32))
    assert open_inner(first, label, capsule) == bytes(32)
    with pytest.raises(OpeningError):
        open_inner(second, label, capsule)


def test_every_lie_says_what_it_is_and_who_sees_it() -> None:
    assert all(lie.sentence.endswith(".") for lie in COUNT_LIES.values())
    assert {lie.device for lie in COUNT_LIES.values()} == {IN_ITS_SHARD, IN_THE_OPENING, NOTHING}
