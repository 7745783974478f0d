"""Submission: all packages of a device in one round in one request, and what is kept of it (§28, §32).

    order    = a permutation of the B places, drawn before anything of the person is looked at; the last one drawn is
               the canary's
    request  = a token of 64 bytes where the experiment has tokens ‖ B outer capsules of 128 bytes, ascending by digest

A request holds exactly B capsules whatever the person has to tell. Its ephemeral secrets are the operating system's
dice and are gone when it is made: making it again would reuse nonces over other contents. So a request is stored before
its first byte leaves, and a retry is the same bytes.

The **receipt** is the entry relay's signed word that it has taken the submission, whole. The **canary** is a null, and
its place among the device's packages was drawn before the data were looked at: so whoever drops packages by what they
say, or by whose they are, learns nothing from what the device does about it. Of all that was sealed in a round the
device keeps the canary's two ephemeral secrets, its digests, its way to the receipt's root and the receipt: enough to
show anybody that it was taken, and is not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, ClassVar

from secvm.crypto.sealing.layers import (
    EPHEMERAL_BYTES,
    INNER_BYTES,
    OUTER_BYTES,
    BulkSealer,
    inner_layer,
    outer_layer,
    seal_both,
)
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.learning.package import NullPackage, Package
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.records import Hash, TypedRecord, long_bytes, short_bytes, whole
from secvm.protocol.relays.batches import CapsuleTree, Place, capsule_digest, capsule_root, cut
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement
from secvm.protocol.schedule import shuffle
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


MEDIA_TYPE = "application/vnd.secvm.submission"
#: Both ephemeral secrets of one package.
SECRETS_BYTES = 2 * EPHEMERAL_BYTES


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """Where each of a device's packages goes: package i to ``places[i]``, the canary being the last package."""

    places: tuple[int, ...]

    @property
    def canary(self) -> int:
        """The canary's place."""
        return self.places[-1]

    def __repr__(self) -> str:
        return f"Order(of {len(self.places)})"


def draw_order(budget: int, words: Iterator[int]) -> Order:
    """An order of so many packages, every one equally likely."""
    if budget < 1:
        raise LocalProtocolError(f"an order of {budget} packages: there is at least the canary")
    return Order(tuple(shuffle(range(budget), words)))


@dataclass(frozen=True, slots=True, repr=False)
class Submission:
    """A request, and the one thing that is kept of its making."""

    body: bytes
    canary: Canary

    def __repr__(self) -> str:
        return f"Submission({len(self.body)} bytes)"


def seal_submission(
    document: ExperimentDocument,
    manifest: RelayedManifest,
    packages: Sequence[Package],
    *,
    order: Order,
    ephemerals: bytes,
    token: bytes = b"",
    sealer: BulkSealer | None = None,
) -> Submission:
    """The request of a person's packages, nulls up to the budget included; the last null is the canary.

    ``ephemerals``: 64 bytes a place, from the operating system's dice, used for this and for nothing else. ``token``:
    the one of this round, where the experiment has tokens. ``sealer``: knows this machine; the bytes are the same.

    Raises
    ------
    LocalProtocolError
        Not exactly B packages with a null at their end, or secrets and places for another number, or a token where
        there are none.
    """
    budget = document.budget
    if len(token) != token_bytes(document):
        raise LocalProtocolError(f"a token of {len(token)} bytes; a request of this one has {token_bytes(document)}")
    if len(packages) != budget or packages[-1] != NullPackage():
        raise LocalProtocolError(f"a submission has exactly {budget} packages, of which the last is the canary's null")
    if sorted(order.places) != list(range(budget)) or len(ephemerals) != budget * SECRETS_BYTES:
        raise LocalProtocolError(f"an order and secrets of another number than {budget} packages")
    placed: list[Package] = [NullPackage()] * budget
    for package, place in zip(packages, order.places, strict=True):
        placed[place] = package
    # All of a layer at once, by the code that seals relays' cover.
    sealer, label, secrets = sealer or BulkSealer(), manifest.label, cut(ephemerals, EPHEMERAL_BYTES)
    contents = b"".join(encode(_addressed(document, manifest, package)) for package in placed)
    inner = sealer.seal(inner_layer(label), manifest.public_count_key, b"".join(secrets[::2]), contents)
    mix_key = manifest.mix_commitment.public_key
    capsules = cut(sealer.seal(outer_layer(label), mix_key, b"".join(secrets[1::2]), inner), OUTER_BYTES)
    outers = {capsule_digest(outer): outer for outer in capsules}
    if len(outers) != budget:
        raise LocalProtocolError("two capsules of a submission are the same: its secrets are not fresh dice")
    digests = sorted(outers)
    tree = CapsuleTree(b"".join(digests))
    at = order.canary
    canary = Canary(
        round_number=manifest.round_number,
        label=label,
        ephemerals=cut(ephemerals, SECRETS_BYTES)[at],
        inner_digest=capsule_digest(cut(inner, INNER_BYTES)[at]),
        place=tree.place(digests.index(capsule_digest(capsules[at]))),
        capsules=budget,
    )
    return Submission(token + b"".join(outers[digest] for digest in digests), canary)


def token_bytes(document: ExperimentDocument) -> int:
    """How many bytes of an experiment's request are its token."""
    return TOKEN_BYTES if document.tokens else 0


def read_request(body: bytes, *, budget: int, token: int = 0) -> tuple[bytes, ...]:
    """The outer capsules of a request, of which so many bytes are a token.

    Raises
    ------
    MalformedMessageError
        Not exactly ``budget`` different capsules, ascending by digest.
    """
    expected = token + budget * OUTER_BYTES
    if len(body) != expected:
        raise MalformedMessageError(f"a request of {len(body)} bytes; one of {budget} capsules has {expected}")
    capsules = tuple(cut(body[token:], OUTER_BYTES))
    digests = [capsule_digest(capsule) for capsule in capsules]
    if any(first >= second for first, second in pairwise(digests)):
        raise MalformedMessageError("the capsules of a request ascend by digest, none twice")
    return capsules


def _addressed(document: ExperimentDocument, manifest: RelayedManifest, package: Package) -> AddressedPackage:
    return AddressedPackage(document.experiment_id, manifest.round_number, package)
