"""What evidence shows against a coordinator that counted falsely: a shard, or the sum of all of them (§34).

Each function takes evidence of one kind with the manifest and the opening that it brings, both signed by the
coordinator, and says of what it convicts, or raises ``RemoteProtocolError``. An honest coordinator publishes what the
one rule of ``junk`` gives, and takes off what was opened: there is nothing that it could sign and this could refute.
"""

from __future__ import annotations

from secvm.errors import BadProofError, MalformedMessageError
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.relay_faults import MAX_EXAMINED_PACKAGES, MAX_EXAMINED_TALLY_BYTES
from secvm.protocol.evidence.relayed import RelayedEvidence
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.batches.label import INNER_BYTES, capsule_digest
from secvm.protocol.relays.batches.pieces import cut
from secvm.protocol.relays.counting.cells import Cells
from secvm.protocol.relays.counting.opened_parts import parts_of
from secvm.protocol.relays.counting.recount import MAX_CAPSULES_BYTES, RawCount, Recount
from secvm.protocol.relays.counting.shards import ShardProof
from secvm.protocol.relays.judgement import is_opened
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening

_NOTHING = "the evidence does not show what it says"


def wrong_count(
    evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest, opening: Opening
) -> str:
    """The capsules of a shard that the mixing relay signed, and another sub-tally than theirs under the opening."""
    count = _count(document, manifest, opening)
    proof, (capsules, sub_tally) = evidence.proof, evidence.blobs
    if not isinstance(proof, ShardProof) or proof.label != manifest.label or len(capsules) > MAX_CAPSULES_BYTES:
        raise MalformedMessageError("the evidence is of a shard of another round, or of none")
    if len(capsules) % INNER_BYTES:
        raise MalformedMessageError(f"{len(capsules)} bytes are no whole number of capsules of {INNER_BYTES}")
    digests = [capsule_digest(capsule) for capsule in cut(capsules, INNER_BYTES)]
    assert opening.shards is not None
    proof.check(digests, sub_tally, capsules=count.capsules, shards=opening.shards, mix_root=count.root)
    counted = Recount.of(document, manifest, opening).count(capsules)
    if counted.sub_tally == sub_tally:
        raise MalformedMessageError(_NOTHING)
    return (
        f"It signed a count of shard {proof.shard} of round {manifest.round_number} that is not what the"
        f" {counted.capsules} capsules of the shard give."
    )


def wrong_tally(
    evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest, opening: Opening
) -> str:
    """All sub-tallies under the opening's root, and another net tally than theirs less the opened parts."""
    count = _count(document, manifest, opening)
    if document.relay_cover.packages > MAX_EXAMINED_PACKAGES or document.tally_bytes > MAX_EXAMINED_TALLY_BYTES:
        raise MalformedMessageError("the evidence is of an experiment whose cover is too large to be examined")
    tally, entries = evidence.blobs
    net = decode_tally(tally, digest=opening.tally or "", experiment=document.experiment)
    raw = RawCount.of(entries, Cells.of(document.experiment), capsules=count.capsules)
    if raw.shards != opening.shards:
        raise BadProofError("the sub-tallies of the evidence are not those that the opening is bound to")
    if raw.gives(net, parts_of(document, manifest, opening)):
        raise MalformedMessageError(_NOTHING)
    return (
        f"It signed a net tally of round {manifest.round_number} that is not its own count of all capsules less the"
        " two opened parts."
    )


def _count(document: ExperimentDocument, manifest: RelayedManifest, opening: Opening) -> MixCount:
    """The mixing relay's count of a round that its opening opens indeed; a false opening is another kind."""
    if opening.mix_count is None or not is_opened(opening, manifest, document):
        raise MalformedMessageError("the opening of the evidence does not open this round")
    return MixCount.enclosed(opening.mix_count)
