"""One experiment under audit: its document, its files, its history as far as it is shown, and what is found of it.

Every check works on a ``Subject``; both replays are a ``History``, which the log is held to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from secvm.auditor.files import MOST_DOCUMENT_BYTES, PublicFiles
from secvm.auditor.findings import FaultKind, Findings
from secvm.errors import RemoteProtocolError
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.plain import Evidence, Kind
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind, Who
from secvm.protocol.log.entries import CoordinatorRecord, Entry, experiment_entry
from secvm.protocol.relays.cover_parts import Role
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening

_MOST_KEPT_BYTES = 2**25


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an experiment's audit works with."""

    document: ExperimentDocument
    #: The experiment as it was served, for evidence.
    envelope: bytes
    files: PublicFiles
    findings: Findings
    #: What time it is, in milliseconds: an audit may take hours, and what it reads is of the moment when it is read.
    time: Callable[[], int]
    #: The files are a copy of some time ago: nothing in them is fresh.
    snapshot: bool = False
    #: Also look at states and weights, which follow from the tallies.
    models: bool = True
    #: With two relays: also look at capsules, where they are public.
    capsules: bool = True
    #: With two relays: the relays' own doors, by role, where they are asked.
    doors: Mapping[Role, PublicFiles] = field(default_factory=dict)

    @property
    def now(self) -> int:
        """The time in milliseconds."""
        return self.time()

    def read(self, check: str, path: str, number: int | None, *, most: int = MOST_DOCUMENT_BYTES) -> bytes | None:
        """Read a file; None where there is none, and a fault where it is longer than it can be."""
        try:
            return self.files.get(path, most=most)
        except RemoteProtocolError as fault:
            self.findings.fault(check, f"{path} cannot be read: {fault}", round_number=number)
            return None

    def fault(
        self, kind: FaultKind, number: int | None, detail: str = "", *, evidence: RelayedEvidence | None = None
    ) -> None:
        """Note a fault of a round with two relays; ``detail`` says more of this case."""
        sentence = kind.sentence(detail)
        self.findings.fault(kind.check, sentence, round_number=number, evidence=evidence, kind=kind)

    def evidence(self, kind: Kind, **parts: Any) -> Evidence:
        """Signed bytes of this experiment; ``Findings`` keeps them only if they convict."""
        return Evidence(kind=kind, experiment=self.envelope, **parts)

    def relayed_evidence(self, kind: RelayedKind, **parts: Any) -> RelayedEvidence:
        """Signed bytes of this experiment with two relays; ``Findings`` keeps them only if they convict."""
        return RelayedEvidence(kind=kind, experiment=self.envelope, **parts)

    def convicted(self, evidence: RelayedEvidence) -> Who | None:
        """Whom these bytes convict; None: nobody."""
        try:
            return examine_relayed(evidence.to_bytes()).who
        except RemoteProtocolError:
            return None


@dataclass(frozen=True, slots=True)
class SignedDocument:
    """A manifest or ending that its coordinator signed."""

    content: RoundManifest | Ending
    #: As it was served.
    envelope: bytes

    @property
    def manifest(self) -> RoundManifest | None:
        """The manifest, if it is one."""
        return self.content if isinstance(self.content, RoundManifest) else None


@dataclass(frozen=True, slots=True)
class PublishedRound:
    """The coordinator's documents of a round with two relays, with their envelopes."""

    manifest: RelayedManifest
    manifest_envelope: bytes
    opening: Opening | None = None
    opening_envelope: bytes | None = None

    @property
    def number(self) -> int:
        """The round's number."""
        return self.manifest.round_number

    @property
    def envelopes(self) -> tuple[bytes, ...]:
        """Manifest and opening, as evidence takes them."""
        after = () if self.opening_envelope is None else (self.opening_envelope,)
        return (self.manifest_envelope, *after)


class History(ABC):
    """The documents of an experiment, as far as they are shown: what its log should hold."""

    def __init__(self, subject: Subject) -> None:
        self._subject, self._document, self._findings = subject, subject.document, subject.findings
        #: When the window of each round closed.
        self.closed_at: dict[int, int] = {}
        #: When the first round's window opened.
        self.first_opening: int | None = None
        self._entries: dict[object, Entry] = {}
        #: Envelopes of the newest documents, for evidence.
        self._envelopes: dict[Entry, bytes] = {}
        self._kept_bytes = 0
        self._note(experiment_entry(subject.document.digest))

    @abstractmethod
    def follow(self) -> None:
        """Read and judge what is shown and was not read before."""

    def shown_entries(self) -> list[Entry]:
        """What the log should hold, as the documents say, in their order."""
        return list(self._entries.values())

    def envelope_of(self, entry: Entry) -> bytes | None:
        """The document of an entry, for evidence; None where it is not kept."""
        return self._envelopes.get(entry)

    def _note(self, entry: Entry) -> None:
        self._entries[entry.key] = entry

    def _keep(self, document: CoordinatorRecord, envelope: bytes) -> None:
        """Keep a document that is shown; of very many large ones, the newest."""
        entry = document.log_entry
        self._note(entry)
        self._envelopes[entry] = envelope
        self._kept_bytes += len(envelope)
        while self._kept_bytes > _MOST_KEPT_BYTES:
            self._kept_bytes -= len(self._envelopes.pop(next(iter(self._envelopes))))

    def _other_than(self, document: RoundManifest | RelayedManifest) -> bytes | None:
        """The envelope of another manifest of the same round that is shown, where it is kept."""
        entry = document.log_entry
        known = self._entries.get(entry.key)
        return None if known in (None, entry) else self._envelopes.get(known)
