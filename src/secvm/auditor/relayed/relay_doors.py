"""The relays' own doors, asked where they can be reached: counts and reveals of a round, and the entry relay's leaves.

A door can refute "nothing came": what the coordinator says is missing may stand there, signed. That alone accuses
nobody, since a message can be lost. Two different statements for one label are another matter.
"""

from __future__ import annotations

import base64
import binascii
import json

from secvm.auditor.findings import FaultKind
from secvm.auditor.subject import PublishedRound, Subject
from secvm.errors import BadInputError, LocalProtocolError, RemoteProtocolError
from secvm.protocol.evidence.relayed import RelayedKind
from secvm.protocol.relays.batches.capsule_tree import CapsuleTree
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.batches.label import DIGEST_BYTES
from secvm.protocol.relays.counting.opened_parts import Role
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.statements import Statement

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


class RelayDoors:
    """Both relays' doors. One that cannot be reached is not asked again."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._shut: set[Role] = set()

    def check(self, published: PublishedRound) -> None:
        """Hold what the doors say of a round to what the coordinator says, and to each other."""
        envelopes = self._subject.findings
        if not self._subject.doors:
            envelopes.leave_out("the relays' own doors: they were not asked")
            return
        seen: dict[str, bytes] = {}
        for name in _KINDS:
            data = None if published.opening is None else getattr(published.opening, name)
            if data is not None:
                seen[name] = data
        told = set(seen)
        for role in self._subject.doors:
            for name, envelope in self._statements(role, published).items():
                if name not in told and published.opening is not None:
                    sentence = f"{name.replace('_', ' ')} is not in its opening, and the {_WORDS[role]}'s door has it"
                    envelopes.doubt("doors", sentence, round_number=published.number)
                self._compare(published, name, seen.setdefault(name, envelope), envelope)
        envelopes.passed(published.number, "doors")

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
