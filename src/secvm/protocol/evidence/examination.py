"""``examine_relayed``: what a file of evidence about an experiment with two relays shows, if it shows it (§34).

What it shows against a relay is the matter of ``relayed``. Here is what it shows against the coordinator, who
signs manifests, openings and endings, names models by their digests, and counts: an honest one publishes what the one
rule of ``counting`` gives and takes off what was opened, so there is nothing that it could sign and this could refute.
"""

from __future__ import annotations

from secvm.crypto.sealing.layers import INNER_BYTES
from secvm.errors import BadProofError, MalformedMessageError
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.recomputation import Model, after_opened, first_model
from secvm.protocol.evidence.relayed import (
    MAX_EXAMINED_PACKAGES,
    MAX_EXAMINED_TALLY_BYTES,
    NOTHING,
    Finding,
    RelayedEvidence,
    RelayedKind,
    Verdict,
    Who,
    check_parts,
    false_count,
    false_reveal,
    part_not_in_batch,
    two_documents,
    two_statements,
)
from secvm.protocol.relays.batches import capsule_digest, cut
from secvm.protocol.relays.counting import Cells
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.cover_parts import parts_of
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults
from secvm.protocol.relays.opening import (
    Opening,
    RelayedEnding,
    clients_of,
    following_faults,
    is_opened,
    opening_faults,
)
from secvm.protocol.relays.recount import MAX_CAPSULES_BYTES, RawCount, Recount
from secvm.protocol.relays.shards import ShardProof


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
        raise MalformedMessageError(NOTHING)
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
        raise MalformedMessageError(NOTHING)
    return (
        f"It signed a net tally of round {manifest.round_number} that is not its own count of all capsules less the"
        " two opened parts."
    )


def _count(document: ExperimentDocument, manifest: RelayedManifest, opening: Opening) -> MixCount:
    """The mixing relay's count of a round that its opening opens indeed; a false opening is another kind."""
    if opening.mix_count is None or not is_opened(opening, manifest, document):
        raise MalformedMessageError("the opening of the evidence does not open this round")
    return MixCount.enclosed(opening.mix_count)


RelayedDocument = RelayedManifest | Opening | RelayedEnding
_DOCUMENTS: tuple[type[RelayedDocument], ...] = (RelayedManifest, Opening, RelayedEnding)
#: A state has a few vectors as long as a tally.
_MAX_STATE_BYTES = 2**29
#: How many documents, statements, blobs and proofs: nothing that is not looked at is carried along.
_PARTS = {
    RelayedKind.TWO_STATEMENTS: {(0, 2, 0, 0)},
    RelayedKind.FALSE_COUNT: {(1, 1, 0, 0), (1, 2, 0, 0)},
    RelayedKind.FALSE_REVEAL: {(1, 1, 0, 0), (1, 2, 0, 0)},
    RelayedKind.PART_NOT_IN_BATCH: {(1, 3, 0, 1), (1, 4, 0, 1)},
    RelayedKind.TWO_DOCUMENTS: {(2, 0, 0, 0)},
    RelayedKind.BAD_DOCUMENT: {(1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0)},
    RelayedKind.WRONG_STEP: {(1, 0, 0, 0), (3, 0, 2, 0)},
    RelayedKind.WRONG_COUNT: {(2, 0, 2, 1)},
    RelayedKind.WRONG_TALLY: {(2, 0, 2, 0)},
}
_OF_A_ROUND = {
    RelayedKind.FALSE_COUNT: false_count,
    RelayedKind.FALSE_REVEAL: false_reveal,
    RelayedKind.PART_NOT_IN_BATCH: part_not_in_batch,
}
_OF_A_COUNT = {RelayedKind.WRONG_COUNT: wrong_count, RelayedKind.WRONG_TALLY: wrong_tally}


def examine_relayed(data: bytes) -> Finding[RelayedKind]:
    """What this file shows, **verified**.

    Raises
    ------
    RemoteProtocolError
        It shows nothing: a part is missing, not signed, or does not contradict the others.
    """
    evidence = RelayedEvidence.from_bytes(data)
    proofs = () if evidence.proof is None else (evidence.proof,)
    check_parts((evidence.documents, evidence.statements, evidence.blobs, proofs), _PARTS[evidence.kind])
    document = read_published(evidence.experiment)
    if document.experiment.cover is None:
        raise MalformedMessageError("the evidence is of an experiment without two relays")
    who, what = _examined(evidence, document)
    sentence = f"Of {who.named(document)}: {what}"
    return Finding(evidence.kind, who, document.digest, document.title, sentence)


def _examined(evidence: RelayedEvidence, document: ExperimentDocument) -> Verdict:
    if evidence.kind is RelayedKind.TWO_STATEMENTS:
        return two_statements(evidence, document)
    documents = [read_relayed_document(data, document) for data in evidence.documents]
    if evidence.kind in _OF_A_ROUND:
        manifest = documents[0]
        if not isinstance(manifest, RelayedManifest):
            raise MalformedMessageError(NOTHING)
        return _OF_A_ROUND[evidence.kind](evidence, document, manifest)
    if evidence.kind in _OF_A_COUNT:
        before, opening = documents
        if not isinstance(before, RelayedManifest) or not isinstance(opening, Opening):
            raise MalformedMessageError(NOTHING)
        return Who.COORDINATOR, _OF_A_COUNT[evidence.kind](evidence, document, before, opening)
    if evidence.kind is RelayedKind.TWO_DOCUMENTS:
        return Who.COORDINATOR, f"It {two_documents(documents[0], documents[1])}"
    if evidence.kind is RelayedKind.BAD_DOCUMENT:
        return Who.COORDINATOR, _bad_document(documents, document)
    return Who.COORDINATOR, _wrong_step(documents, evidence.blobs, document)


def read_relayed_document(data: bytes, document: ExperimentDocument) -> RelayedDocument:
    """A manifest, opening or ending of this experiment that enough of the coordinator's keys signed.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        It is none.
    """
    return document.read_any(_DOCUMENTS, data)


def _bad_document(documents: list[RelayedDocument], document: ExperimentDocument) -> str:
    match documents:
        case [RelayedManifest() as manifest]:
            faults = manifest_faults(manifest, document)
        case [RelayedManifest() as before, RelayedManifest() as manifest] if (
            before.round_number < manifest.round_number and not manifest_faults(before, document)
        ):
            faults = manifest_faults(manifest, document, before)
        case [RelayedManifest() as before, Opening() as opening] if opening.round_number == before.round_number:
            wrong = opening_faults(opening, before, document)
            # What relays signed is not the coordinator's fault, unless it calls a round opened that is not.
            if wrong and opening.is_opened:
                return f"It called round {before.round_number} opened, and of its opening {wrong[0].value}."
            raise MalformedMessageError(NOTHING)
        case [RelayedManifest() as before, Opening() as opening, RelayedManifest() as manifest] if (
            manifest.round_number == before.round_number + 1 and manifest.previous == before.digest
        ):
            faults = following_faults(manifest, before, opening, document)
        case [RelayedManifest() as before, Opening() as opening, RelayedEnding() as ending]:
            return _bad_ending(before, opening, ending, document)
        case _:
            raise MalformedMessageError(NOTHING)
    if not faults:
        raise MalformedMessageError(NOTHING)
    return f"It signed a manifest for round {manifest.round_number} that cannot be: {faults[0].value}."


def _bad_ending(before: RelayedManifest, opening: Opening, ending: RelayedEnding, document: ExperimentDocument) -> str:
    """Of the last round's documents: they are those that the ending names, or of the round that it says."""
    if ending.round_number != before.round_number or opening.label != before.label:
        raise MalformedMessageError(NOTHING)
    if (ending.manifest, ending.opening) != (before.digest, opening.digest):
        return "It signed an ending that names other documents of the last round."
    stays = not is_opened(opening, before, document) or clients_of(opening) < document.floor
    if stays and ending.model != before.model:
        return "It signed an ending whose model changed after a round that was not stepped."
    raise MalformedMessageError(NOTHING)


def _wrong_step(documents: list[RelayedDocument], blobs: tuple[bytes, ...], document: ExperimentDocument) -> str:
    if document.state_bytes > _MAX_STATE_BYTES or document.tally_bytes > MAX_EXAMINED_TALLY_BYTES:
        raise MalformedMessageError("the evidence is of an experiment whose models are too large to be examined")
    match documents:
        case [(RelayedManifest() | RelayedEnding()) as first] if first.round_number == isinstance(
            first, RelayedManifest
        ):
            if first.model == first_model(document).names:
                raise MalformedMessageError(NOTHING)
            return "It signed a first model that is not zero."
        case [RelayedManifest() as before, Opening() as opening, (RelayedManifest() | RelayedEnding()) as after]:
            named = (after.manifest if isinstance(after, RelayedEnding) else after.previous, after.opening)
            if named != (before.digest, opening.digest) or not is_opened(opening, before, document):
                raise MalformedMessageError(NOTHING)
            model = _next(before, opening, blobs, document)
            if after.model == model.names:
                raise MalformedMessageError(NOTHING)
            return f"It signed a model after round {before.round_number} that does not follow from its net tally."
    raise MalformedMessageError(NOTHING)


def _next(before: RelayedManifest, opening: Opening, blobs: tuple[bytes, ...], document: ExperimentDocument) -> Model:
    state, tally = blobs
    started = decode_state(state, digest=before.state, experiment=document.experiment)
    counted = decode_tally(tally, digest=opening.tally or "", experiment=document.experiment)
    return after_opened(document, started, counted, clients=clients_of(opening)).model
