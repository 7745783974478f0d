"""Canary: the one package of a device that it looks for afterwards (docs/protocol.md §28, §32).

It is a null, and its place among the device's packages was drawn before the data were looked at: so whoever drops
packages by what they say, or by whose they are, learns nothing from what the device does about it. Of all that was
sealed in a round the device keeps the canary's two ephemeral secrets, its digests, its way to the receipt's root and
the receipt: enough to show anybody that it was taken, and is not there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, seal_both
from secvm.errors import BadProofError, MalformedMessageError
from secvm.learning.package import NullPackage
from secvm.protocol.canonical import Fields, base64_text, decode_document, encode_document
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.relays.batches.capsule_tree import Place
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.receipts import Receipt
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.protocol.version import CANARY_TYPE

#: A path, a receipt, and a few hashes.
MAX_CANARY_BYTES = 2**14
MAX_RECEIPT_BYTES = Receipt.longest + ENVELOPE_BYTES


def canary_capsules(manifest: RelayedManifest, experiment_id: ExperimentId, ephemerals: bytes) -> tuple[bytes, bytes]:
    """Inner and outer capsule of a round's null sealed with these secrets: everybody who has them makes the same."""
    null = encode(AddressedPackage(experiment_id, manifest.round_number, NullPackage()))
    keys = manifest.public_count_key, manifest.mix_commitment.public_key
    return seal_both(*keys, manifest.label, ephemerals, null)


#: A device counts the shard of one canary of so many again.
RECOUNTED_ONE_IN = 64


def recounts(ephemerals: bytes) -> bool:
    """Whether the device with these secrets of a canary counts its shard again."""
    return hashlib.sha256(b"secvm-v2-recount\n" + ephemerals).digest()[0] % RECOUNTED_ONE_IN == 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Canary:
    """One round's canary. Its secrets show that a device took part, so it does not print itself."""

    round_number: int
    label: bytes
    #: The inner seal's 32 bytes, then the outer one's.
    ephemerals: bytes
    inner_digest: bytes
    #: Its outer capsule in the tree over the request's capsules.
    place: Place
    #: B: capsules of the request.
    capsules: int
    #: The entry relay's receipt in its envelope; None: none has come yet.
    receipt: bytes | None = None

    def __repr__(self) -> str:
        return f"Canary(round {self.round_number})"

    @property
    def recounts(self) -> bool:
        """Whether the device counts the canary's shard again: drawn with the secrets, for good, and known to nobody."""
        return recounts(self.ephemerals)

    def with_receipt(self, envelope: bytes) -> Canary:
        """The same, taken by the entry relay: the receipt was checked (``check_receipt``)."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return Canary(**{**told, "receipt": envelope})

    def check_receipt(self, receipt: Receipt) -> None:
        """That this receipt is for the request with this canary. Raises ``BadProofError``."""
        if receipt.label != self.label or receipt.capsules != self.capsules:
            raise BadProofError(
                f"the receipt is for another label, or for {receipt.capsules} capsules in place of {self.capsules}"
            )
        self.place.check(size=self.capsules, root=receipt.root)

    def to_bytes(self) -> bytes:
        """What the device keeps; never signed, never sent."""
        content: dict[str, Any] = {
            "capsules": self.capsules,
            "ephemerals": self.ephemerals.hex(),
            "inner": self.inner_digest.hex(),
            "label": self.label.hex(),
            "place": self.place.to_content(),
            "receipt": None if self.receipt is None else base64_text(self.receipt),
            "round": self.round_number,
            "type": CANARY_TYPE,
        }
        return encode_document(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> Canary:
        """What ``to_bytes`` wrote; anything else is a ``MalformedMessageError``."""
        fields = Fields(decode_document(data, max_bytes=MAX_CANARY_BYTES), "the canary")
        fields.constant("type", CANARY_TYPE)
        length = 2 * EPHEMERAL_BYTES
        found = cls(
            round_number=fields.integer("round", 1),
            label=bytes.fromhex(fields.digest("label")),
            ephemerals=fields.hexadecimal("ephemerals", shortest=length, longest=length),
            inner_digest=bytes.fromhex(fields.digest("inner")),
            place=Place.from_fields(fields.inner("place")),
            capsules=fields.integer("capsules", 1),
            receipt=None if fields.is_null("receipt") else fields.base64("receipt", longest=MAX_RECEIPT_BYTES),
        )
        fields.done()
        if found.place.index >= found.capsules:
            raise MalformedMessageError(f"a canary at place {found.place.index} of {found.capsules}")
        return found
