"""Whose salt is it? The one that public randomness fixed after the experiment was logged, or the experiment is refused.

An experiment names rounds of beacons that are still to come, is logged and cosigned, and only then do the rounds become
known. Whoever asks for its salt checks three things:

 1. the first checkpoint that a quorum of its witnesses cosigned contains the experiment; the moment at which
    the quorum was reached is when the experiment was **committed**,
 2. every record is what its beacon published, for exactly the round that the experiment names,
 3. none of those rounds was known to anybody at that moment.

Then nobody who wrote the experiment can have chosen the salt. What this assumes: the beacons do not collude with the
author, and fewer than a quorum of the witnesses sign with a time that is not theirs. An author can still write many
experiments and run the one whose salt pleases; all of them stand in the log, where an auditor counts those that never
ran.
"""

from __future__ import annotations

from collections.abc import Sequence

from secvm.crypto.beacons.sources import salt_from, verify_beacon
from secvm.errors import BadBeaconError, BadSignatureError
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.log.policy import LogPolicy, quorum_of
from secvm.protocol.log.proofs import LogProof


def committed_at(document: ExperimentDocument, first: bytes, *, policy: LogPolicy | None = None) -> int:
    """When a quorum had cosigned a checkpoint that contains the experiment, in milliseconds.

    ``first`` is the proof file of the experiment's entry under that checkpoint. ``policy``: the reader's own.

    Raises
    ------
    RemoteProtocolError
        It proves no such thing.
    """
    terms = document.log
    if terms is None:
        raise BadBeaconError("an experiment without a log proves no time at which it was fixed")
    entry = experiment_entry(document.digest).to_bytes()
    signed = LogProof.from_bytes(first).check(entry, log=terms.log_key)
    quorum = quorum_of(terms, policy)
    counting = [key for key in terms.witness_keys if key.key in quorum.keys]
    time_s = quorum.met_at({key.key: time_s for key, time_s in signed.times(counting).items()})
    if time_s is None:
        raise BadSignatureError("too few witnesses have cosigned the first checkpoint")
    return 1000 * time_s


def salt_of(
    document: ExperimentDocument,
    *,
    first: bytes | None,
    records: Sequence[bytes],
    allow_unsafe: bool = False,
    policy: LogPolicy | None = None,
) -> bytes:
    """The salt of an experiment with hashed bins.

    ``records`` are those of the beacons that it names, in their order; ``allow_unsafe`` takes the development beacon,
    and then only in an experiment that is marked as a test. ``policy``: the reader's own, where it has one.

    Raises
    ------
    BadBeaconError
        A record is not genuine, or its round was known when the experiment was committed.
    RemoteProtocolError
        The first checkpoint proves nothing.
    """
    binning = document.binning
    if not isinstance(binning, HashedBins):
        raise BadBeaconError("an experiment with a vocabulary has no salt")
    if binning.salt is not None:
        return binning.salt
    if first is None or len(records) != len(binning.beacons):
        raise BadBeaconError("the first checkpoint, or the record of a beacon, is missing")
    committed = committed_at(document, first, policy=policy)
    outputs = []
    for beacon, record in zip(binning.beacons, records, strict=True):
        output = verify_beacon(beacon.chain, beacon.round_number, record, allow_unsafe=allow_unsafe and document.test)
        if output.at <= committed:
            raise BadBeaconError("a beacon's round was already known when the experiment was logged")
        outputs.append(output.value)
    return salt_from(outputs, binning.bins)
