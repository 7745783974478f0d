"""Documents that stand in a coordinator's log, of either version, as lines and out of their envelopes."""

from __future__ import annotations

from secvm.crypto.signing import Envelope, verify
from secvm.errors import MalformedMessageError
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.examination import read_told
from secvm.protocol.log.entries import Entry, ending_entry, manifest_entry, opening_entry
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding
from secvm.protocol.version import ENDING_TYPE, MANIFEST_TYPE

Told = RoundManifest | Ending | RelayedManifest | Opening | RelayedEnding


def entry_of(told: Told) -> Entry:
    """The line of a document."""
    if isinstance(told, Ending | RelayedEnding):
        return ending_entry(told.experiment, told.digest)
    make = opening_entry if isinstance(told, Opening) else manifest_entry
    return make(told.experiment, told.round_number, told.digest)


def read_logged(data: bytes, document: ExperimentDocument) -> Told:
    """A document of the experiment that its coordinator signed, of whatever kind.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        It is none.
    """
    if document.experiment.cover is not None:
        return read_told(data, document)
    return read_signed(data, document)


def read_signed(data: bytes, document: ExperimentDocument) -> RoundManifest | Ending:
    """The same of an experiment without relays' cover."""
    keys, threshold = document.coordinator_keys, document.threshold
    payload = Envelope.from_bytes(data).payload
    told: RoundManifest | Ending
    try:
        told = RoundManifest.from_bytes(payload)
    except MalformedMessageError:
        told = Ending.from_bytes(payload)
    verify(data, purpose=ENDING_TYPE if isinstance(told, Ending) else MANIFEST_TYPE, keys=keys, threshold=threshold)
    if told.experiment != document.digest:
        raise MalformedMessageError("the evidence has a document of another experiment")
    return told
