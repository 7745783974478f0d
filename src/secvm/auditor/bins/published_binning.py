"""The bins of an experiment as its coordinator publishes them, with the salt checked as a device checks it."""

from __future__ import annotations

from secvm.auditor.experiment_list import is_digest, listed_experiments
from secvm.auditor.files import MOST_DOCUMENT_BYTES, MOST_LOG_BYTES, PublicFiles, experiment_path
from secvm.auditor.findings import Findings
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.learning.individual.binning import HashBinning
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.trust.salt import salt_of


def published_bins(files: PublicFiles, name: str) -> HashBinning:
    """The hashed bins of the experiment whose digest begins so.

    Raises
    ------
    BadInputError
        There is no such experiment, it has a vocabulary, or its salt cannot be told.
    """
    listed = listed_experiments(files, Findings()) or {}
    found = [digest for digest in listed if name and digest.startswith(name.lower())]
    digest = name.lower() if is_digest(name.lower()) else found[0] if len(found) == 1 else ""
    envelope = files.get(experiment_path(digest), most=MOST_DOCUMENT_BYTES) if digest else None
    if envelope is None:
        raise BadInputError("there is no such experiment at this coordinator, or more than one")
    try:
        document = read_published(envelope, digest=digest)
    except RemoteProtocolError as fault:
        raise BadInputError(f"the experiment cannot be believed: {fault}") from None
    if not isinstance(document.binning, HashedBins):
        raise BadInputError("the experiment's bins are the words of a vocabulary: nothing collides there")
    salt = _salt(files, document, document.binning)
    return HashBinning(n_bins=document.binning.bins, salt=salt, n_hashes=document.binning.hashes)


def _salt(files: PublicFiles, document: ExperimentDocument, binning: HashedBins) -> bytes:
    try:
        first = files.get(experiment_path(document.digest, "first"), most=MOST_LOG_BYTES)
        served = (
            files.get(experiment_path(document.digest, "beacon", index), most=MOST_LOG_BYTES)
            for index in range(len(binning.beacons))
        )
        records = [record for record in served if record is not None]
        return salt_of(document, first=first, records=records, allow_unsafe=document.test)
    except RemoteProtocolError as fault:
        raise BadInputError(f"the experiment's salt cannot be told: {fault}") from None
