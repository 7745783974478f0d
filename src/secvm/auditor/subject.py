"""One experiment under audit: its document, where its files are, what is found. Every check works on one of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from secvm.auditor.files import MOST_DOCUMENT_BYTES, PublicFiles
from secvm.auditor.findings import Findings
from secvm.errors import RemoteProtocolError
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry


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

    @property
    def now(self) -> int:
        """Milliseconds."""
        return self.time()

    def read(self, check: str, path: str, number: int | None, *, most: int = MOST_DOCUMENT_BYTES) -> bytes | None:
        """A file; None where there is none, and a fault where it is longer than it can be."""
        try:
            return self.files.get(path, most=most)
        except RemoteProtocolError as fault:
            self.findings.fault(check, f"{path} cannot be read: {fault}", round_number=number)
            return None

    def evidence(
        self,
        kind: Kind,
        *,
        documents: tuple[bytes, ...] = (),
        blobs: tuple[bytes, ...] = (),
        checkpoints: tuple[bytes, ...] = (),
        entries: tuple[LoggedEntry, ...] = (),
    ) -> Evidence:
        """Signed bytes of this experiment; ``Findings`` keeps them only if they convict."""
        return Evidence(
            kind=kind,
            experiment=self.envelope,
            documents=documents,
            blobs=blobs,
            checkpoints=checkpoints,
            entries=entries,
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """A document that its coordinator signed."""

    told: RoundManifest | Ending
    #: As it was served.
    envelope: bytes

    @property
    def manifest(self) -> RoundManifest | None:
        """The manifest, if it is one."""
        return self.told if isinstance(self.told, RoundManifest) else None
