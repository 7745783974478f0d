"""Evidence in plain words: what was signed, by whose key, and what the reader must still check.

The examiners of ``protocol`` decide whether a file convicts. This tells a person who has never seen one what it means,
without a network: nothing here depends on anybody's word but that of the signatures.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from secvm.crypto.signing import Envelope, VerifyKey
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.missing_canary import BEGINS, MissingCanary, examine_canary
from secvm.protocol.evidence.plain import Evidence, Kind, examine
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind, is_relayed_evidence

_WHAT: dict[Kind | RelayedKind, str] = {
    Kind.TWO_DOCUMENTS: "two documents that cannot both be true, each with the coordinator's signature",
    Kind.BAD_DOCUMENT: "a document with the coordinator's signature that its experiment, or the one before, forbids",
    Kind.WRONG_STEP: "a model with the coordinator's signature that does not follow from the round before it",
    Kind.WRONG_COUNTS: "counts and the name of a tally with the coordinator's signature; the tally has other counts",
    Kind.FORKED_LOG: "two checkpoints of one size with the log's signature, and different content",
    Kind.NOT_IN_LOG: "a line under the log's signature, and another document of its round with the coordinator's",
    Kind.TWO_ENTRIES: "two lines under the log's signature that cannot both stand where they do",
    RelayedKind.TWO_STATEMENTS: "two statements with one relay's signature, where a relay signs one",
    RelayedKind.FALSE_COUNT: "a count with a relay's signature that does not add up",
    RelayedKind.FALSE_REVEAL: "a reveal with a relay's signature of what that relay was not bound to",
    RelayedKind.PART_NOT_IN_BATCH: "counts and reveals with the relays' signatures, and a capsule that they lack",
    RelayedKind.TWO_DOCUMENTS: "two documents that cannot both be true, each with the coordinator's signature",
    RelayedKind.BAD_DOCUMENT: "documents with the coordinator's signature that its experiment, or each other, forbid",
    RelayedKind.WRONG_STEP: "a model with the coordinator's signature that does not follow from the round before it",
    RelayedKind.WRONG_COUNT: (
        "the capsules of a shard, under the mixing relay's signature, the key that opens them, and a count of them with"
        " the coordinator's signature that they do not give"
    ),
    RelayedKind.WRONG_TALLY: (
        "a net tally with the coordinator's signature, and its own counts of all shards, which do not give it"
    ),
}
_WHAT_OF_CANARY = "the entry relay's receipt for a capsule that says nothing, and the mixing relay's count without it"
#: Parts of evidence that are counted for the reader, as far as a kind of evidence has them.
_PARTS = ("documents", "checkpoints", "statements", "blobs", "entries")
_BY_THE_LOG = (Kind.FORKED_LOG, Kind.NOT_IN_LOG, Kind.TWO_ENTRIES)

STILL_TO_CHECK = (
    "that the experiment's digest below is the one that people agreed to: the file convicts whoever runs that one",
    "that the keys below are those of the people you have in mind: the experiment names them, and nothing else does",
)
WATERMARK = "A server can mark what it serves to one device: whoever hands this on may show who received it."


@dataclass(frozen=True, slots=True)
class Explanation:
    """A piece of evidence that convicts."""

    kind: str
    #: In one sentence.
    sentence: str
    #: Digest and title.
    experiment: str
    title: str
    #: What the file holds.
    what: str
    #: Key ids, and whose they are.
    signed_by: tuple[str, ...]
    #: How many documents, checkpoints, blobs and lines of the log.
    parts: dict[str, int]

    def to_content(self) -> dict[str, Any]:
        """For programs; keys stay."""
        return {
            "evidence": "convicts",
            **asdict(self),
            "signed_by": list(self.signed_by),
            "still_to_check": list(STILL_TO_CHECK),
        }


def explain(data: bytes) -> Explanation:
    """What this file shows, in words.

    Raises
    ------
    RemoteProtocolError
        It shows nothing.
    """
    if data.startswith(BEGINS):
        return _explain_canary(data)
    relayed = is_relayed_evidence(data)
    finding = examine_relayed(data) if relayed else examine(data)
    evidence = RelayedEvidence.from_bytes(data) if relayed else Evidence.from_bytes(data)
    document = read_published(evidence.experiment)
    return Explanation(
        kind=finding.kind.value,
        sentence=finding.sentence,
        experiment=finding.experiment,
        title=finding.title,
        what=_WHAT[finding.kind],
        signed_by=_signers(evidence, document),
        parts={name: len(getattr(evidence, name)) for name in _PARTS if hasattr(evidence, name)},
    )


def _explain_canary(data: bytes) -> Explanation:
    finding, canary = examine_canary(data), MissingCanary.from_bytes(data)
    document = finding.document
    return Explanation(
        kind="missing-canary",
        sentence=finding.sentence,
        experiment=document.digest,
        title=document.title,
        what=_WHAT_OF_CANARY,
        signed_by=tuple(f"{whose} {key.key_id.hex()}" for whose, key in _relay_keys(document)),
        parts={"statements": 2 + (canary.entry_count is not None)},
    )


def _relay_keys(document: ExperimentDocument) -> list[tuple[str, VerifyKey]]:
    return [("entry relay", document.entry_relay.key), ("mixing relay", document.mix_relay.key)]


def _signers(evidence: Evidence | RelayedEvidence, document: ExperimentDocument) -> tuple[str, ...]:
    """Whose signatures are under the parts, of those that count."""
    keys = [("coordinator", key) for key in document.coordinator_keys]
    envelopes = evidence.documents
    if isinstance(evidence, RelayedEvidence):
        keys += _relay_keys(document)
        envelopes += evidence.statements
    under = {key_id for envelope in envelopes for key_id, _ in Envelope.from_bytes(envelope).signatures}
    signers = [f"{whose} {key.key_id.hex()}" for whose, key in keys if key.key_id in under]
    if evidence.kind in _BY_THE_LOG and document.log is not None:
        log_key = document.log.log_key
        signers.append(f"log {log_key.name}+{log_key.key_id.hex()}")
    return tuple(signers)
