"""Receipt and canary: what a device keeps of a submission, and looks for afterwards (docs/protocol.md §28, §32).

The receipt is the entry relay's signed word that it has taken the submission, whole. The canary is a null, and its
place among the device's packages was drawn before the data were looked at: so whoever drops packages by what they say,
or by whose they are, learns nothing from what the device does about it. Of all that was sealed in a round the device
keeps the canary's two ephemeral secrets, its digests, its way to the receipt's root and the receipt: enough to show
anybody that it was taken, and is not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, seal_both
from secvm.errors import BadProofError, MalformedMessageError
from secvm.learning.package import NullPackage
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.records import Hash, TypedRecord, long_bytes, short_bytes, whole
from secvm.protocol.relays.batches.capsule_tree import Place, capsule_root
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement
from secvm.protocol.version import CANARY_TYPE, RECEIPT_TYPE


@dataclass(frozen=True, kw_only=True)
class Receipt(Statement):
    """For one submission: under which label, and which capsules."""

    purpose: ClassVar[str] = RECEIPT_TYPE
    title: ClassVar[str] = "the receipt"

    label: Hash
    #: Over the digests of the submission's outer capsules.
    root: Hash
    #: B.
    capsules: Annotated[int, whole(1)]


def receipt_for(label: bytes, digests: Iterable[bytes]) -> Receipt:
    """The receipt for a submission of these outer digests, ascending."""
    listed = list(digests)
    return Receipt(label=label, root=capsule_root(listed), capsules=len(listed))


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
class Canary(TypedRecord):
    """One round's canary, as a device keeps it. Its secrets show that it took part, so it does not print itself."""

    purpose: ClassVar[str] = CANARY_TYPE
    title: ClassVar[str] = "the canary"
    #: A path, a receipt, and a few hashes.
    longest: ClassVar[int] = 2**14

    round_number: Annotated[int, whole(1, name="round")]
    label: Hash
    #: The inner seal's 32 bytes, then the outer one's.
    ephemerals: Annotated[bytes, short_bytes(2 * EPHEMERAL_BYTES)]
    inner_digest: Annotated[bytes, short_bytes(DIGEST_BYTES, name="inner")]
    #: Its outer capsule in the tree over the request's capsules.
    place: Place
    #: B: capsules of the request.
    capsules: Annotated[int, whole(1)]
    #: The entry relay's receipt in its envelope; None: none has come yet.
    receipt: Annotated[bytes, long_bytes(MAX_RECEIPT_BYTES)] | None = None

    def __repr__(self) -> str:
        return f"Canary(round {self.round_number})"

    @property
    def recounts(self) -> bool:
        """Whether the device counts the canary's shard again: drawn with the secrets, for good, and known to nobody."""
        return recounts(self.ephemerals)

    def with_receipt(self, envelope: bytes) -> Canary:
        """The same, taken by the entry relay: the receipt was checked (``check_receipt``)."""
        return replace(self, receipt=envelope)

    def check_receipt(self, receipt: Receipt) -> None:
        """That this receipt is for the request with this canary. Raises ``BadProofError``."""
        if receipt.label != self.label or receipt.capsules != self.capsules:
            raise BadProofError(
                f"the receipt is for another label, or for {receipt.capsules} capsules in place of {self.capsules}"
            )
        self.place.check(size=self.capsules, root=receipt.root)

    def _check_whole(self) -> None:
        if self.place.index >= self.capsules:
            raise MalformedMessageError(f"a canary at place {self.place.index} of {self.capsules}")
