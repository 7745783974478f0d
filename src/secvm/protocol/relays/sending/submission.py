"""Submission: all packages of a device in one round, sealed twice, as one request to the entry relay (§28).

    order    = a permutation of the B places, drawn before anything of the person is looked at; the last one drawn is
               the canary's
    request  = a token of 64 bytes where the experiment has tokens ‖ B outer capsules of 128 bytes, ascending by digest

A request holds exactly B capsules whatever the person has to tell. Its ephemeral secrets are the operating system's
dice and are gone when it is made: making it again would reuse nonces over other contents. So a request is stored before
its first byte leaves, and a retry is the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, INNER_BYTES, OUTER_BYTES, inner_layer, outer_layer
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.package import NullPackage, Package
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches.capsule_tree import CapsuleTree
from secvm.protocol.relays.batches.label import capsule_digest
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.canary import Canary
from secvm.protocol.schedule import shuffle

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
    sealer, label, secrets = sealer or BulkSealer(), manifest.label, _cut(ephemerals, EPHEMERAL_BYTES)
    contents = b"".join(encode(_addressed(document, manifest, package)) for package in placed)
    inner = sealer.seal(inner_layer(label), manifest.public_count_key, b"".join(secrets[::2]), contents)
    mix_key = manifest.mix_commitment.public_key
    capsules = _cut(sealer.seal(outer_layer(label), mix_key, b"".join(secrets[1::2]), inner), OUTER_BYTES)
    outers = {capsule_digest(outer): outer for outer in capsules}
    if len(outers) != budget:
        raise LocalProtocolError("two capsules of a submission are the same: its secrets are not fresh dice")
    digests = sorted(outers)
    tree = CapsuleTree(b"".join(digests))
    at = order.canary
    canary = Canary(
        round_number=manifest.round_number,
        label=label,
        ephemerals=_cut(ephemerals, SECRETS_BYTES)[at],
        inner_digest=capsule_digest(_cut(inner, INNER_BYTES)[at]),
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
    capsules = tuple(_cut(body[token:], OUTER_BYTES))
    digests = [capsule_digest(capsule) for capsule in capsules]
    if any(first >= second for first, second in pairwise(digests)):
        raise MalformedMessageError("the capsules of a request ascend by digest, none twice")
    return capsules


def _addressed(document: ExperimentDocument, manifest: RelayedManifest, package: Package) -> AddressedPackage:
    return AddressedPackage(document.experiment_id, manifest.round_number, package)


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
