"""Evidence in plain words: what was signed, by whose key, and what the reader must still check.

``protocol.evidence.examine`` decides whether a file convicts. This tells a person who has never seen one what it means,
without a network: nothing here depends on anybody's word but that of the signatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secvm.crypto.signing import Envelope
from secvm.protocol.documents import digest_of
from secvm.protocol.evidence import Evidence, Finding, Kind, examine
from secvm.protocol.experiment_document import ExperimentDocument, read_published

_WHAT = {
    Kind.TWO_DOCUMENTS: "two documents that cannot both be true, each with the coordinator's signature",
    Kind.BAD_DOCUMENT: "a document with the coordinator's signature that its experiment, or the one before, forbids",
    Kind.WRONG_STEP: "a model with the coordinator's signature that does not follow from the round before it",
    Kind.WRONG_COUNTS: "counts and the name of a tally with the coordinator's signature; the tally has other counts",
    Kind.FORKED_LOG: "two checkpoints of one size with the log's signature, and different content",
    Kind.NOT_IN_LOG: "a checkpoint with the log's signature, without documents that have the coordinator's",
}
_BY_THE_LOG = (Kind.FORKED_LOG, Kind.NOT_IN_LOG)

STILL_TO_CHECK = (
    "that the experiment's digest below is the one that people agreed to: the file convicts whoever runs that one",
    "that the keys below are those of the people you have in mind: the experiment names them, and nothing else does",
)
WATERMARK = "A server can mark what it serves to one device: whoever hands this on may show who received it."


@dataclass(frozen=True, slots=True)
class Explanation:
    """A piece of evidence that convicts."""

    finding: Finding
    #: What the file holds.
    what: str
    #: Key ids, and whose they are.
    signed_by: tuple[str, ...]
    #: How many documents, checkpoints and blobs.
    parts: dict[str, int]

    def to_content(self) -> dict[str, Any]:
        """For programs; keys stay."""
        return {
            "evidence": "convicts",
            "kind": self.finding.kind.value,
            "sentence": self.finding.sentence,
            "experiment": self.finding.experiment,
            "title": self.finding.title,
            "what": self.what,
            "signed_by": list(self.signed_by),
            "parts": self.parts,
            "still_to_check": list(STILL_TO_CHECK),
        }


def explain(data: bytes) -> Explanation:
    """What this file shows, in words.

    Raises
    ------
    RemoteProtocolError
        It shows nothing.
    """
    finding = examine(data)
    evidence = Evidence.from_bytes(data)
    document = read_published(evidence.experiment, digest=digest_of(Envelope.from_bytes(evidence.experiment).payload))
    return Explanation(
        finding=finding,
        what=_WHAT[finding.kind],
        signed_by=_signers(evidence, document),
        parts={
            "documents": len(evidence.documents),
            "checkpoints": len(evidence.checkpoints),
            "blobs": len(evidence.blobs),
        },
    )


def _signers(evidence: Evidence, document: ExperimentDocument) -> tuple[str, ...]:
    """Whose signatures are under the parts, of those that count."""
    under = {key_id for data in evidence.documents for key_id, _ in Envelope.from_bytes(data).signatures}
    found = [f"coordinator {key.key_id.hex()}" for key in document.coordinator_keys if key.key_id in under]
    if evidence.kind in _BY_THE_LOG and document.log is not None:
        key = document.log.log_key(document.digest)
        found.append(f"log {key.name}+{key.key_id.hex()}")
    return tuple(found)
