"""A package's 32 bytes and the gateway's keys → a capsule, with the device's dice."""

from __future__ import annotations

from secvm.crypto.sealing.kem import X25519, enc_bytes
from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.crypto.sealing.oblivious import RequestSealer, decode_key_configurations
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import UnknownKeyError
from secvm.participant.dice import RandomBytes
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.sealed_requests import REQUEST_BYTES, package_request
from secvm.protocol.plain.session_memory import Seal


def capsule_bytes(kem_id: int) -> int:
    """How long a capsule is: header, encapsulated key and tag around a request."""
    return 7 + enc_bytes(kem_id) + REQUEST_BYTES + 16


#: Of the KEM that experiments have unless they name another.
CAPSULE_BYTES = capsule_bytes(X25519)


def bytes_of_a_round(document: ExperimentDocument) -> int:
    """What sending all packages of a round takes, cover and nulls included: estimated, and the same for everybody."""
    if document.experiment.cover is not None:
        # Asked for by an element, given by another, and in the request.
        token = 3 * TOKEN_BYTES + OVERHEAD_BYTES if document.tokens else 0
        return document.budget * OUTER_BYTES + OVERHEAD_BYTES + token
    return document.budget * (capsule_bytes(document.kem) + OVERHEAD_BYTES)


def gateway_seal(random_bytes: RandomBytes) -> Seal:
    """Seal for the manifest's one key; raises ``RemoteProtocolError`` where this machine lacks its kind."""
    known: dict[bytes, RequestSealer] = {}

    def seal(plaintext: bytes, gateway_keys: bytes) -> bytes:
        sealer = known.get(gateway_keys)
        if sealer is None:
            configurations = decode_key_configurations(gateway_keys)
            # Never the first of several: which one a machine has would tell machines apart.
            if len(configurations) != 1:
                raise UnknownKeyError("the manifest has not one gateway key of a kind that is known here")
            # One epoch's keys at a time: all packages of a round go to the same.
            known.clear()
            sealer = known[gateway_keys] = RequestSealer(configurations[0])
        return sealer.seal(package_request(plaintext), random_bytes).capsule

    return seal
