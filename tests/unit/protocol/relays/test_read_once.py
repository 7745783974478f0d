"""Documents that everybody is shown are read once, by their bytes; what is none is refused every time."""

import pytest

from secvm.crypto.sealing import kem
from secvm.errors import MalformedMessageError
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound

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
