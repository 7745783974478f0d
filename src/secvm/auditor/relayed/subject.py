"""One experiment with two relays under audit: what it was found with, and the signed bytes that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from secvm.auditor.files import PublicFiles
from secvm.auditor.relayed_findings import Found
from secvm.auditor.subject import Subject
from secvm.errors import RemoteProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind, Who
from secvm.protocol.relays.counting.opened_parts import Role
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening


@dataclass(frozen=True, slots=True)
class ShownRound:
    """The coordinator's documents of a round, with their envelopes."""

    manifest: RelayedManifest
    manifest_envelope: bytes
    opening: Opening | None = None
    opening_envelope: bytes | None = None

    @property
    def number(self) -> int:
        return self.manifest.round_number

    @property
    def envelopes(self) -> tuple[bytes, ...]:
        """As evidence takes them."""
        after = () if self.opening_envelope is None else (self.opening_envelope,)
        return (self.manifest_envelope, *after)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedSubject:
    """What every check of such an experiment works with."""

    subject: Subject
    #: The relays' own doors, by role, where they are asked.
    doors: Mapping[Role, PublicFiles] = field(default_factory=dict)
    #: Also look at capsules, where they are public.
    capsules: bool = True

    @property
    def document(self) -> ExperimentDocument:
        return self.subject.document

    def found(
        self, what: Found, number: int | None, detail: str = "", *, evidence: RelayedEvidence | None = None
    ) -> None:
        """Something is wrong."""
        self.subject.findings.fault(
            what.check, what.sentence(detail), round_number=number, evidence=evidence, found=what.name
        )

    def evidence(self, kind: RelayedKind, **parts: Any) -> RelayedEvidence:
        """Signed bytes of this experiment; ``Findings`` keeps them only if they convict."""
        return RelayedEvidence(kind=kind, experiment=self.subject.envelope, **parts)

    def convicted(self, evidence: RelayedEvidence) -> Who | None:
        """Whom these bytes convict; None: nobody."""
        try:
            return examine_relayed(evidence.to_bytes()).who
        except RemoteProtocolError:
            return None
