"""Documents that stand in a coordinator's log, of either version, as lines and out of their envelopes."""

from __future__ import annotations

from secvm.crypto.signing import Envelope, verify
from secvm.errors import MalformedMessageError
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.examination import read_relayed_document
from secvm.protocol.log.entries import Entry, ending_entry, manifest_entry, opening_entry
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding
from secvm.protocol.version import ENDING_TYPE, MANIFEST_TYPE

LoggedDocument = RoundManifest | Ending | RelayedManifest | Opening | RelayedEnding


def entry_of(document: LoggedDocument) -> Entry:
    """The line of a document."""
    if isinstance(document, Ending | RelayedEnding):
        return ending_entry(document.experiment, document.digest)
    make = opening_entry if isinstance(document, Opening) else manifest_entry
    return make(document.experiment, document.round_number, document.digest)


def read_logged(data: bytes, document: ExperimentDocument) -> LoggedDocument:
    """A document of the experiment that its coordinator signed, of whatever kind.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        It is none.
    """
    if document.experiment.cover is not None:
        return read_relayed_document(data, document)
    return read_signed(data, document)


def read_signed(data: bytes, document: ExperimentDocument) -> RoundManifest | Ending:
    """The same of an experiment without relays' cover."""
    keys, threshold = document.coordinator_keys, document.threshold
    payload = Envelope.from_bytes(data).payload
    read: RoundManifest | Ending
    try:
        read = RoundManifest.from_bytes(payload)
    except MalformedMessageError:
        read = Ending.from_bytes(payload)
    verify(data, purpose=ENDING_TYPE if isinstance(read, Ending) else MANIFEST_TYPE, keys=keys, threshold=threshold)
    if read.experiment != document.digest:
        raise MalformedMessageError("the evidence has a document of another experiment")
    return read
