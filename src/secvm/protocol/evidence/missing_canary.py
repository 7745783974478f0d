"""MissingCanary: a file that shows that the entry relay or the mixing relay left a device's capsule out (§32).

    receipt      the entry relay took a request whose tree has this root
    place        the canary's outer capsule is under that root
    secrets      they seal the round's null to exactly these capsules: nothing in them was made to fail
    absence      the canary's inner capsule is not under the root that the mixing relay signed

An honest entry relay hands every capsule on that it gave a receipt for, and an honest mixing relay every one that
opens. So one of them did not. With the entry relay's own count, and where the outer capsule stands under *its* root or
does not, the file tells which: ``blame``.

``examine_canary`` needs the file alone. It shows that whoever hands it on took part in the experiment, and nothing of
what they sent: the canary is a null. Requests that are malformed, late, doubled or of another label get no receipt, so
they accuse nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from secvm.crypto.sealing.layers import EPHEMERAL_BYTES
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.experiment import MAX_DOCUMENT_BYTES, ExperimentDocument, read_published
from secvm.protocol.evidence.relayed import Who, who_lost
from secvm.protocol.records import TypedRecord, long_bytes, short_bytes
from secvm.protocol.relays.batches import Absence, CapsuleTree, Place, capsule_digest
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.manifest import MAX_MANIFEST_BYTES, RelayedManifest
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.protocol.relays.submission import MAX_RECEIPT_BYTES, Canary, Receipt, canary_capsules
from secvm.protocol.version import MISSING_CANARY_TYPE

MAX_BYTES = 2**20
#: Every such file begins so, because its keys are sorted.
BEGINS = b'{"absence":{'
_COUNT = long_bytes(MixCount.longest + ENVELOPE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MissingCanary(TypedRecord):
    """The parts of the file. **Nothing in it is checked**: ``examine_canary`` does that."""

    purpose: ClassVar[str] = MISSING_CANARY_TYPE
    title: ClassVar[str] = "the evidence"
    longest: ClassVar[int] = MAX_BYTES

    #: The experiment's envelope.
    experiment: Annotated[bytes, long_bytes(MAX_DOCUMENT_BYTES + 2**12)]
    #: The manifest's payload: its digest is the label that both relays signed for.
    manifest: Annotated[bytes, long_bytes(MAX_MANIFEST_BYTES)]
    #: Envelopes of what the relays signed.
    receipt: Annotated[bytes, long_bytes(MAX_RECEIPT_BYTES)]
    mix_count: Annotated[bytes, _COUNT]
    #: The canary's outer capsule in the request's tree.
    place: Place
    ephemerals: Annotated[bytes, short_bytes(2 * EPHEMERAL_BYTES)]
    #: Of the inner capsule, under the mixing relay's root.
    absence: Absence
    #: The entry relay's count, and where the outer capsule stands under its root, or that it does not.
    entry_count: Annotated[bytes, _COUNT] | None = None
    batch_place: Place | None = None
    batch_absence: Absence | None = None

    def __repr__(self) -> str:
        return "MissingCanary(...)"

    def narrowed(self, entry_count: bytes, leaves: CapsuleTree) -> MissingCanary:
        """With the entry relay's count and the digests of its batch, which show whose fault it is."""
        index = leaves.find(self.place.digest)
        return replace(
            self,
            entry_count=entry_count,
            batch_place=None if index is None else leaves.place(index),
            batch_absence=leaves.absence(self.place.digest) if index is None else None,
        )

    def _check_whole(self) -> None:
        shown = (self.batch_place is not None) + (self.batch_absence is not None)
        if shown != (self.entry_count is not None):
            raise MalformedMessageError("the entry relay's count stands in the evidence with one proof, or not at all")


@dataclass(frozen=True, slots=True)
class CanaryFinding:
    """What the file shows, **verified**."""

    document: ExperimentDocument
    round_number: int
    blame: Who

    @property
    def sentence(self) -> str:
        """In one sentence, with the names under which the experiment knows the relays."""
        return (
            f"In round {self.round_number} the entry relay gave a receipt for a capsule that the mixing relay did not"
            f" hand on: {self.blame.named(self.document)} left it out."
        )


def missing_canary(
    canary: Canary, absence: Absence, *, experiment: bytes, manifest: RelayedManifest, mix_count: bytes
) -> MissingCanary:
    """The file for a canary whose receipt is held and which is not under the mixing relay's root."""
    if canary.receipt is None:
        raise LocalProtocolError("without a receipt nobody can be shown that the canary was taken")
    return MissingCanary(
        experiment=experiment,
        manifest=manifest.data,
        receipt=canary.receipt,
        mix_count=mix_count,
        place=canary.place,
        ephemerals=canary.ephemerals,
        absence=absence,
    )


def examine_canary(data: bytes) -> CanaryFinding:
    """What this file shows, if it shows it.

    Raises
    ------
    RemoteProtocolError
        It shows nothing: a part is not signed, is of another round, or the canary is where it should be.
    """
    evidence = MissingCanary.from_bytes(data)
    document = read_published(evidence.experiment)
    if document.experiment.cover is None:
        raise MalformedMessageError("the evidence is of an experiment without two relays")
    manifest = RelayedManifest.from_bytes(evidence.manifest)
    receipt = Receipt.read(evidence.receipt, document.entry_relay.key)
    mix_count = MixCount.read(evidence.mix_count, document.mix_relay.key)
    # That both relays signed for this label says that they hold this manifest, with these keys.
    if manifest.experiment != document.digest or {receipt.label, mix_count.label} != {manifest.label}:
        raise MalformedMessageError("the parts of the evidence are of different rounds")
    inner, outer = (
        capsule_digest(capsule) for capsule in canary_capsules(manifest, document.experiment_id, evidence.ephemerals)
    )
    if evidence.place.digest != outer:
        raise BadProofError("the canary's secrets do not seal the capsule that the receipt is for")
    evidence.place.check(size=receipt.capsules, root=receipt.root)
    evidence.absence.check(inner, size=mix_count.capsules, root=mix_count.root)
    return CanaryFinding(document, manifest.round_number, _blame(evidence, document, mix_count, outer))


def _blame(evidence: MissingCanary, document: ExperimentDocument, mix_count: MixCount, outer: bytes) -> Who:
    """By the entry relay's own count, if it is there; a false one is refused rather than passed over."""
    if evidence.entry_count is None:
        return Who.EITHER
    count = EntryCount.read(evidence.entry_count, document.entry_relay.key)
    if count.label != mix_count.label or count.digest != mix_count.entry_count:
        raise MalformedMessageError("the mixing relay counted after another count than the evidence has")
    if evidence.batch_place is None and evidence.batch_absence is None:
        raise BadProofError("the entry relay's count comes without a proof of where the canary is in its batch")
    return who_lost(outer, count, evidence.batch_place, evidence.batch_absence)
