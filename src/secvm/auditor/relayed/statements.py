"""What the relays signed of a round: in the coordinator's opening of it, and at their own doors.

``is_opened`` judges an opening: which statements are false, whose each is, and whether the round counts as opened. A
false statement of a relay is that relay's fault. The coordinator's fault is to hold what no relay signed, to publish a
seed that is not the count key's, and to call a round opened that is not.

``RelayDoors`` asks the relays, where they can be reached, for counts and reveals of a round and for the entry relay's
leaves. A door can refute "nothing came": what the coordinator says is missing may stand there, signed. That alone
accuses nobody, since a message can be lost. Two different statements for one label are another matter.
"""

from __future__ import annotations

import base64
import binascii
import json

from secvm.auditor.findings import FaultKind
from secvm.auditor.subject import PublishedRound, Subject
from secvm.errors import BadInputError, LocalProtocolError, RemoteProtocolError
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind, Who
from secvm.protocol.relays.batches import CapsuleTree
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.cover_parts import Role
from secvm.protocol.relays.opening import Opening, opening_faults
from secvm.protocol.relays.statements import Statement

_FORGED = {OpeningFault.ENTRY_COUNT, OpeningFault.MIX_COUNT, OpeningFault.ENTRY_REVEAL, OpeningFault.MIX_REVEAL}
_BOUND = {OpeningFault.NONCE, OpeningFault.PART, OpeningFault.ENTRY_SEED, OpeningFault.MIX_SEED}
_DISAGREE = {OpeningFault.OTHER_ENTRY_COUNT, OpeningFault.OTHER_ENTRY_REVEAL}
_SEED = {OpeningFault.COUNT_SEED, OpeningFault.COUNT_KEY}

#: Four envelopes in base64.
MOST_COUNTS_BYTES = 2**15
#: Digests of one piece (docs/protocol.md §30).
PIECE = 2**16

_KINDS: dict[str, tuple[Role, type[Statement]]] = {
    "entry_count": ("entry", EntryCount),
    "mix_count": ("mix", MixCount),
    "entry_reveal": ("entry", EntryReveal),
    "mix_reveal": ("mix", MixReveal),
}
_WORDS = {"entry": "entry relay", "mix": "mixing relay"}


def is_opened(subject: Subject, published: PublishedRound) -> bool:
    """Whether the round counts as opened; all that is false in its opening is told."""
    opening, number = published.opening, published.number
    if opening is None:
        return False
    faults = set(opening_faults(opening, published.manifest, subject.document))
    known = False
    for fault in OpeningFault:
        if fault in faults & _FORGED:
            subject.fault(FaultKind.FORGED_STATEMENT, number, fault.value, evidence=_bad_opening(subject, published))
            known = True
        if fault in faults & _SEED:
            subject.fault(FaultKind.SEED, number, fault.value, evidence=_bad_opening(subject, published))
            known = True
        if fault in faults & _DISAGREE:
            subject.fault(FaultKind.COUNTS_DISAGREE, number, fault.value)
    if not faults & _FORGED:
        _judge_counts(subject, published, opening, faults)
        _judge_reveals(subject, published, opening, faults)
    if faults and opening.is_opened and not known:
        detail = next(fault.value for fault in OpeningFault if fault in faults)
        subject.fault(FaultKind.FALSE_OPENING, number, detail, evidence=_bad_opening(subject, published))
    subject.findings.passed(number, "statements", "counts", "reveals", "opened")
    return opening.is_opened and not faults


def _judge_counts(subject: Subject, published: PublishedRound, opening: Opening, faults: set[OpeningFault]) -> None:
    entry, mix = opening.entry_count, opening.mix_count
    of = {"documents": (published.manifest_envelope,)}
    if OpeningFault.ENTRY_EQUATION in faults and entry is not None:
        evidence = subject.relayed_evidence(RelayedKind.FALSE_COUNT, statements=(entry,), **of)
        subject.fault(FaultKind.ENTRY_EQUATION, published.number, evidence=evidence)
    after_this = OpeningFault.OTHER_ENTRY_COUNT not in faults
    if OpeningFault.MIX_EQUATION in faults and after_this and entry is not None and mix is not None:
        evidence = subject.relayed_evidence(RelayedKind.FALSE_COUNT, statements=(entry, mix), **of)
        subject.fault(FaultKind.MIX_EQUATION, published.number, evidence=evidence)


def _judge_reveals(subject: Subject, published: PublishedRound, opening: Opening, faults: set[OpeningFault]) -> None:
    """Each reveal by itself: what it answers, and what its relay was bound to."""
    entry, mix, count = opening.entry_reveal, opening.mix_reveal, opening.mix_count
    if OpeningFault.OTHER_MIX_COUNT in faults and count is not None:
        _judge_answered(subject, published, opening, count)
    if not faults & (_BOUND | {OpeningFault.OTHER_MIX_COUNT}):
        return
    for what, statements in (
        (FaultKind.ENTRY_REVEAL, (entry,)),
        (FaultKind.MIX_REVEAL, (entry, mix)),
    ):
        given = tuple(statement for statement in statements if statement is not None)
        if len(given) != len(statements):
            continue
        evidence = subject.relayed_evidence(
            RelayedKind.FALSE_REVEAL, documents=(published.manifest_envelope,), statements=given
        )
        if subject.convicted(evidence) is what.who:
            subject.fault(what, published.number, evidence=evidence)


def _judge_answered(subject: Subject, published: PublishedRound, opening: Opening, count: bytes) -> None:
    """A reveal that answers another count than the published one: where both are signed, there are two."""
    answers = []
    if opening.entry_reveal is not None:
        answers.append(EntryReveal.enclosed(opening.entry_reveal).mix_count)
    if opening.mix_reveal is not None:
        answers.append(MixReveal.enclosed(opening.mix_reveal).mix_count)
    first = MixCount.enclosed(count).data
    for answered in answers:
        if MixCount.enclosed(answered).data == first:
            continue
        evidence = subject.relayed_evidence(RelayedKind.TWO_STATEMENTS, statements=(count, answered))
        if subject.convicted(evidence) is Who.MIX:
            subject.fault(
                FaultKind.TWO_STATEMENTS_OF_MIX, published.number, "a reveal answers the other", evidence=evidence
            )


def _bad_opening(subject: Subject, published: PublishedRound) -> RelayedEvidence:
    return subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=published.envelopes)


class RelayDoors:
    """Both relays' doors. One that cannot be reached is not asked again."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._shut: set[Role] = set()

    def check(self, published: PublishedRound) -> None:
        """Hold what the doors say of a round to what the coordinator says, and to each other."""
        findings = self._subject.findings
        if not self._subject.doors:
            findings.leave_out("the relays' own doors: they were not asked")
            return
        seen: dict[str, bytes] = {}
        for name in _KINDS:
            data = None if published.opening is None else getattr(published.opening, name)
            if data is not None:
                seen[name] = data
        published_names = set(seen)
        for role in self._subject.doors:
            for name, envelope in self._statements(role, published).items():
                if name not in published_names and published.opening is not None:
                    sentence = f"{name.replace('_', ' ')} is not in its opening, and the {_WORDS[role]}'s door has it"
                    findings.doubt("doors", sentence, round_number=published.number)
                self._compare(published, name, seen.setdefault(name, envelope), envelope)
        findings.passed(published.number, "doors")

    def _compare(self, published: PublishedRound, name: str, first: bytes, second: bytes) -> None:
        role, kind = _KINDS[name]
        if kind.enclosed(first).data == kind.enclosed(second).data:
            return
        what = FaultKind.TWO_STATEMENTS_OF_ENTRY if role == "entry" else FaultKind.TWO_STATEMENTS_OF_MIX
        evidence = self._subject.relayed_evidence(RelayedKind.TWO_STATEMENTS, statements=(first, second))
        # The coordinator's may be forged, which is told by itself.
        if self._subject.convicted(evidence) is what.who:
            self._subject.fault(what, published.number, f"two of {name.replace('_', ' ')}", evidence=evidence)

    def _statements(self, role: Role, published: PublishedRound) -> dict[str, bytes]:
        """What a door has of a round, if the relays signed it for this label."""
        data = self._get(role, f"/counts/{published.manifest.label.hex()}", MOST_COUNTS_BYTES)
        if data is None:
            return {}
        document = self._subject.document
        envelopes: dict[str, bytes] = {}
        keys = {"entry": document.entry_relay.key, "mix": document.mix_relay.key}
        for name, envelope in read_door(data).items():
            signer, kind = _KINDS[name]
            try:
                statement = kind.read(envelope, keys[signer])
            except RemoteProtocolError:
                continue
            if getattr(statement, "label", None) == published.manifest.label:
                envelopes[name] = envelope
        return envelopes

    def leaves(self, published: PublishedRound, count: EntryCount) -> CapsuleTree | None:
        """The digests of the entry relay's batch, as either relay keeps them, if they are those of this count."""
        for role in self._subject.doors:
            pieces = []
            for number in range(-(-count.capsules // PIECE)):
                size = min(PIECE, count.capsules - number * PIECE) * DIGEST_BYTES
                piece = self._get(role, f"/leaves/{published.manifest.label.hex()}/{number}", size)
                if piece is None or len(piece) != size:
                    break
                pieces.append(piece)
            else:
                try:
                    tree = CapsuleTree(b"".join(pieces))
                except LocalProtocolError:
                    continue
                if tree.root == count.root:
                    return tree
        return None

    def _get(self, role: Role, path: str, most: int) -> bytes | None:
        if role in self._shut:
            return None
        try:
            return self._subject.doors[role].get(path, most=most)
        except RemoteProtocolError:
            return None
        except BadInputError as fault:
            self._shut.add(role)
            self._subject.findings.leave_out(f"the {_WORDS[role]}'s own door: {fault}")
            return None


def read_door(data: bytes) -> dict[str, bytes]:
    """The envelopes that a door tells, by name; whatever is none is not there. Nothing is checked."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    envelopes: dict[str, bytes] = {}
    for name in _KINDS:
        text = content.get(name)
        if isinstance(text, str):
            try:
                envelopes[name] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                continue
    return envelopes
