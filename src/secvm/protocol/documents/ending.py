"""Ending: the statement that an experiment is over, signed like its manifests (docs/protocol.md §13).

Every manifest tells how the round before it ended. After the last round there is no next manifest, so this tells it,
and names the state and the weights that remain: with it a device predicts. An ending is accepted when

 1. enough of the experiment's coordinator keys signed it,
 2. it is canonical and complete,
 3. it is of this experiment, and its last round is one of the experiment's T,
 4. no round after it was accepted; and if that very round was, the ending names its manifest's digest, and an
    abandoned round left state and weights as they were,
 5. counts fit the labels and reach the floor,
 6. a round that was counted has the relay's count where a manifest must have it (``protocol.manifest``, 8), and a
    count is signed by a relay of the experiment.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from secvm.crypto.signing import SigningKey, sign, verify
from secvm.errors import InconsistentManifestError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields, decode_document, digest_of, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.inconsistency import Inconsistency
from secvm.protocol.documents.manifest import (
    MAX_MANIFEST_BYTES,
    AcceptedManifest,
    LastRound,
    RoundManifest,
    read_last,
    read_relay_count,
    tells_count,
    write_last,
)
from secvm.protocol.version import ENDING_TYPE, MAX_ROUND


class Why(enum.Enum):
    """Why an experiment is over."""

    #: All its rounds are, or its coordinator saw that nothing more is to be learnt.
    FINISHED = "finished"
    #: Somebody wanted it so.
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of one experiment."""

    #: Digest of the experiment.
    experiment: str
    #: The last round; 0 where there was none.
    round_number: int
    #: Digest of the last round's manifest; None where there was none.
    manifest: str | None
    #: How the last round ended; None where there was none.
    last: LastRound | None
    #: Digests of the descent state and of the weights that follow from it.
    state: str
    training_weights: str
    evaluation_weights: str
    why: Why

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = encode_document(self._content())
        try:
            Ending.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"this ending cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes."""
        return digest_of(self.data)

    def signed(self, keys: Iterable[SigningKey]) -> bytes:
        """In its envelope, as it is served."""
        return sign(self.data, purpose=ENDING_TYPE, keys=keys)

    @classmethod
    def from_bytes(cls, data: bytes) -> Ending:
        """The ending of canonical bytes, complete in itself; nothing is checked against anything else."""
        fields = Fields(decode_document(data, max_bytes=MAX_MANIFEST_BYTES), "the ending")
        fields.constant("type", ENDING_TYPE)
        fields.null("log")
        why = fields.text("why", longest=20)
        if why not in {one.value for one in Why}:
            raise fields.refuse("why")
        ending = cls(
            experiment=fields.digest("experiment"),
            round_number=fields.integer("round", 0, MAX_ROUND),
            manifest=None if fields.is_null("manifest") else fields.digest("manifest"),
            last=None if fields.is_null("last") else read_last(fields.inner("last")),
            state=fields.digest("state"),
            training_weights=fields.digest("training_weights"),
            evaluation_weights=fields.digest("evaluation_weights"),
            why=Why(why),
        )
        fields.done()
        if len({ending.round_number == 0, ending.manifest is None, ending.last is None}) != 1:
            raise MalformedMessageError("an ending tells of its last round, unless there was none")
        return ending

    def _content(self) -> dict[str, Any]:
        return {
            "evaluation_weights": self.evaluation_weights,
            "experiment": self.experiment,
            "last": None if self.last is None else write_last(self.last),
            "log": None,
            "manifest": self.manifest,
            "round": self.round_number,
            "state": self.state,
            "training_weights": self.training_weights,
            "type": ENDING_TYPE,
            "why": self.why.value,
        }


def make_ending(
    document: ExperimentDocument,
    *,
    why: Why,
    state: bytes,
    training_weights: bytes,
    evaluation_weights: bytes,
    before: RoundManifest | None = None,
    last: LastRound | None = None,
) -> Ending:
    """The ending after the round of ``before``, which ended as ``last`` says; both None where there was no round."""
    ending = Ending(
        experiment=document.digest,
        round_number=0 if before is None else before.round_number,
        manifest=None if before is None else before.digest,
        last=last,
        state=digest_of(state),
        training_weights=digest_of(training_weights),
        evaluation_weights=digest_of(evaluation_weights),
        why=why,
    )
    fault = _fault(ending, document, before)
    if fault is not None:
        raise LocalProtocolError(f"this ending would not be accepted: {fault}")
    _ = ending.data  # refuses what cannot be read again
    return ending


def accept_ending(data: bytes, *, document: ExperimentDocument, last: AcceptedManifest | None = None) -> Ending:
    """The ending in this envelope, if a device should believe it.

    ``last`` is the newest manifest that this device accepted.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not an ending that this experiment's keys signed.
    InconsistentManifestError
        Signed, but not what the experiment or its manifests allow.
    """
    # (1)
    payload = verify(data, purpose=ENDING_TYPE, keys=document.coordinator_keys, threshold=document.threshold)
    # (2)
    ending = Ending.from_bytes(payload)
    # (3), (4), (5)
    fault = _fault(ending, document, None if last is None else last.manifest)
    if fault is not None:
        raise InconsistentManifestError(fault, evidence=(data,) if last is None else (last.envelope, data))
    # (6)
    if ending.last is not None and ending.last.relay_count is not None:
        read_relay_count(ending.last.relay_count, document)
    return ending


def _fault(ending: Ending, document: ExperimentDocument, before: RoundManifest | None) -> str | None:
    return next((fault.value for fault in ending_faults(ending, document, before)), None)


def ending_faults(
    ending: Ending, document: ExperimentDocument, before: RoundManifest | None
) -> tuple[Inconsistency, ...]:
    """Steps 3 to 5, and of 6 what must be there: all that is wrong, in their order."""
    follows = before is not None and ending.round_number == before.round_number
    told = ending.last if ending.last is not None and ending.last.tally is not None else None
    checks = {
        # (3)
        Inconsistency.OTHER_EXPERIMENT: ending.experiment == document.digest,
        Inconsistency.TOO_MANY_ROUNDS: ending.round_number <= document.rounds,
        # (4)
        Inconsistency.ROUND_AFTER: before is None or ending.round_number >= before.round_number,
        Inconsistency.OTHER_ROUND: not follows or (before is not None and ending.manifest == before.digest),
        Inconsistency.ABANDONED_STEP: not follows
        or told is not None
        or (
            before is not None
            and (ending.state, ending.training_weights, ending.evaluation_weights)
            == (before.state, before.training_weights, before.evaluation_weights)
        ),
        # (5)
        Inconsistency.OTHER_LABELS: told is None or len(told.participants) == len(document.experiment.labels),
        Inconsistency.BELOW_FLOOR: told is None or document.reaches_floor(told.participants),
        # (6)
        Inconsistency.NO_COUNT: tells_count(told, document),
    }
    return tuple(fault for fault, holds in checks.items() if not holds)


__all__ = ["Ending", "Why", "accept_ending", "ending_faults", "make_ending"]
