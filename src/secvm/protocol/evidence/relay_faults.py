"""What evidence shows against a relay: statements that contradict each other, or what they are bound to (§34).

Each function here takes evidence of one kind with the experiment that it brings, and says whom it convicts and of what,
or raises ``RemoteProtocolError``. No honest relay can be convicted: it signs one statement of a kind for a label, ever,
derives its cover, and answers only what it has checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, Who, who_lost
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.batches.label import capsule_digest
from secvm.protocol.relays.counting.opened_parts import OpenedPart, Role
from secvm.protocol.relays.cover.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.canary import Receipt
from secvm.protocol.relays.statements import Statement

#: To examine a part it is drawn again: a few lines can name an experiment that would take days.
MAX_EXAMINED_TALLY_BYTES = MAX_EXAMINED_PACKAGES = 2**28

Verdict = tuple[Who, str]
S = TypeVar("S", EntryCount, MixCount, EntryReveal, MixReveal)
_NOTHING = "the evidence does not show what it says"
#: Kinds of statements: whose each is, and what it is signed once for.
_ONCE: dict[type[Statement], tuple[Who, Callable[[Any], object]]] = {
    EntryCommitment: (Who.ENTRY, lambda one: (one.experiment, one.round_number)),
    MixCommitment: (Who.MIX, lambda one: (one.experiment, one.round_number)),
    Receipt: (Who.ENTRY, lambda one: (one.label, one.root)),
    EntryCount: (Who.ENTRY, lambda one: one.label),
    MixCount: (Who.MIX, lambda one: one.label),
    EntryReveal: (Who.ENTRY, lambda one: one.label),
    MixReveal: (Who.MIX, lambda one: one.label),
}


def two_statements(evidence: RelayedEvidence, document: ExperimentDocument) -> Verdict:
    """One relay, one kind, one label or round or request: two different statements."""
    for kind, (who, place) in _ONCE.items():
        try:
            first, second = (kind.enclosed(data) for data in evidence.statements)
        except MalformedMessageError:
            continue
        first, second = (kind.read(data, _key(who, document)) for data in evidence.statements)
        if first.data == second.data or place(first) != place(second):
            break
        what = kind.title.removeprefix("the ").replace("relay's ", "relay's two different ")
        return who, f"It signed two statements where it signs one: {what}s for the same round or request."
    raise MalformedMessageError(_NOTHING)


def false_count(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """The entry relay's count alone, or the mixing relay's after it."""
    cover = document.relay_cover
    entry = _of(manifest, EntryCount.read(evidence.statements[0], document.entry_relay.key))
    if len(evidence.statements) == 1:
        if entry.adds_up(budget=document.budget, packages=cover.packages):
            raise MalformedMessageError(_NOTHING)
        return Who.ENTRY, (
            f"It counted {entry.capsules} capsules of {entry.clients} submissions; with {document.budget} of each and"
            f" its cover they are {document.budget * entry.clients + cover.packages}."
        )
    mix = _of(manifest, MixCount.read(evidence.statements[1], document.mix_relay.key))
    if mix.entry_count != entry.digest or mix.adds_up(entry, packages=cover.packages):
        raise MalformedMessageError(_NOTHING)
    return Who.MIX, (
        f"It counted {mix.capsules} capsules after {entry.capsules} came and {mix.refused} were refused; with its"
        f" cover they are {entry.capsules - mix.refused + cover.packages}."
    )


def false_reveal(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """The entry relay's reveal alone, or the mixing relay's after it."""
    entry = _of(manifest, EntryReveal.read(evidence.statements[0], document.entry_relay.key))
    who, reveal = Who.ENTRY, entry.mix_count
    if len(evidence.statements) == 2:
        mix = _of(manifest, MixReveal.read(evidence.statements[1], document.mix_relay.key))
        if mix.entry_reveal != entry.digest:
            raise MalformedMessageError(_NOTHING)
        who, reveal = Who.MIX, mix.mix_count
        faults = _mix_faults(mix, entry, document, manifest)
    else:
        faults = _entry_faults(entry, document, manifest)
    if not _is_count_of(reveal, document.mix_relay.key, manifest):
        return who, "Its reveal answers a count that the mixing relay did not sign for this round."
    if not faults:
        raise MalformedMessageError(_NOTHING)
    first = next(fault for fault in OpeningFault if fault in faults)
    return who, f"Its reveal is not what it was bound to: {first.value}."


def part_not_in_batch(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """A capsule of an opened part that should be under the mixing relay's root, and is not."""
    proof = evidence.proof
    if not isinstance(proof, PartProof):
        raise MalformedMessageError(_NOTHING)
    opened = _Opened.read(evidence.statements, document, manifest)
    largest = document.relay_cover.packages > MAX_EXAMINED_PACKAGES
    if largest or document.tally_bytes > MAX_EXAMINED_TALLY_BYTES:
        raise MalformedMessageError("the evidence is of an experiment whose cover is too large to be examined")
    part = OpenedPart.of(opened.role, document, manifest, opened.entry_count, opened.seed)
    if proof.package >= part.part.size:
        raise MalformedMessageError(f"the evidence names package {proof.package} of a part of {part.part.size}")
    inner, outer = part.capsules(proof.package)
    count = opened.mix_count
    proof.absence.check(capsule_digest(inner), size=count.capsules, root=count.root)
    who = Who.MIX
    if outer is not None:
        who = who_lost(capsule_digest(outer), opened.entry_count, proof.batch_place, proof.batch_absence)
    if outer is None and (proof.batch_place is not None or proof.batch_absence is not None):
        raise MalformedMessageError("the mixing relay's cover was never in the entry relay's batch")
    return who, (
        f"Package {proof.package} of the {'mixing' if outer is None else 'entry'} relay's opened part is not among"
        " the capsules that the mixing relay handed on."
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """Counts and reveals that fit each other and the manifest's commitments."""

    role: Role
    entry_count: EntryCount
    mix_count: MixCount
    seed: bytes

    @classmethod
    def read(cls, statements: tuple[bytes, ...], document: ExperimentDocument, manifest: RelayedManifest) -> _Opened:
        """Both counts and the entry relay's reveal; and the mixing relay's, where its part is looked at."""
        entry_key, mix_key = document.entry_relay.key, document.mix_relay.key
        entry_count = _of(manifest, EntryCount.read(statements[0], entry_key))
        mix_count = _of(manifest, MixCount.read(statements[1], mix_key))
        reveal = _of(manifest, EntryReveal.read(statements[2], entry_key))
        fits = mix_count.entry_count == entry_count.digest and reveal.answered == mix_count.digest
        if not fits or _entry_faults(reveal, document, manifest):
            raise MalformedMessageError("counts and reveals of the evidence do not belong together")
        if len(statements) == 3:
            return cls("entry", entry_count, mix_count, reveal.seed)
        answer = _of(manifest, MixReveal.read(statements[3], mix_key))
        if answer.entry_reveal != reveal.digest or _mix_faults(answer, reveal, document, manifest):
            raise MalformedMessageError("counts and reveals of the evidence do not belong together")
        return cls("mix", entry_count, mix_count, answer.seed)


def _entry_faults(
    reveal: EntryReveal, document: ExperimentDocument, manifest: RelayedManifest
) -> frozenset[OpeningFault]:
    """What of a reveal its relay was not bound to."""
    bound = EntryCommitment.read(manifest.entry, document.entry_relay.key)
    parts = document.relay_cover.parts
    return frozenset(reveal.faults(label=manifest.label, commitment=bound, mix_count=reveal.answered, parts=parts))


def _mix_faults(
    reveal: MixReveal, answered: EntryReveal, document: ExperimentDocument, manifest: RelayedManifest
) -> frozenset[OpeningFault]:
    bound = MixCommitment.read(manifest.mix, document.mix_relay.key)
    return frozenset(
        reveal.faults(
            label=manifest.label,
            commitment=bound,
            entry_reveal=answered,
            mix_count=reveal.answered,
            parts=document.relay_cover.parts,
        )
    )


def _is_count_of(envelope: bytes, key: VerifyKey, manifest: RelayedManifest) -> bool:
    try:
        return MixCount.read(envelope, key).label == manifest.label
    except (MalformedMessageError, BadSignatureError):
        return False


def _key(who: Who, document: ExperimentDocument) -> VerifyKey:
    return document.entry_relay.key if who is Who.ENTRY else document.mix_relay.key


def _of(manifest: RelayedManifest, statement: S) -> S:
    """A statement for the manifest's label: a relay signs for a label only when it holds that manifest."""
    if statement.label != manifest.label:
        raise MalformedMessageError("the parts of the evidence are of different rounds")
    return statement
