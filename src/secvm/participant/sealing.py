"""A package's 32 bytes and the gateway's keys → a capsule, with the device's dice."""

from __future__ import annotations

from secvm.crypto.oblivious import RequestSealer, decode_key_configurations
from secvm.errors import UnknownKeyError
from secvm.participant.dice import RandomBytes
from secvm.protocol.sealed_requests import REQUEST_BYTES, package_request
from secvm.protocol.session_memory import Seal

#: Header, ephemeral key and tag around a request; a hybrid key would add a kilobyte.
CAPSULE_BYTES = 7 + 32 + REQUEST_BYTES + 16


def gateway_seal(random_bytes: RandomBytes) -> Seal:
    """Seal for the first of the manifest's keys that is known here; raises ``RemoteProtocolError`` where none is."""
    known: dict[bytes, RequestSealer] = {}

    def seal(plaintext: bytes, gateway_keys: bytes) -> bytes:
        sealer = known.get(gateway_keys)
        if sealer is None:
            configurations = decode_key_configurations(gateway_keys)
            if not configurations:
                raise UnknownKeyError("the manifest has no gateway key of a kind that is known here")
            # One epoch's keys at a time: all packages of a round go to the same.
            known.clear()
            sealer = known[gateway_keys] = RequestSealer(configurations[0])
        return sealer.seal(package_request(plaintext), random_bytes).capsule

    return seal
