"""Ending: the statement that an experiment is over, signed like its manifests (docs/protocol.md §13).

Every manifest tells how the round before it ended. After the last round there is no next manifest, so this tells it,
and names the state and the weights that remain: with it a device predicts. An ending is accepted when

 1. enough of the experiment's coordinator keys signed it,
 2. it is canonical and complete,
 3. it is of this experiment, and its last round is one of the experiment's T,
 4. no round after it was accepted; and if that very round was, the ending names its manifest's digest, and an
    abandoned round left state and weights as they were,
 5. counts fit the labels and reach the floor,
 6. a round that was counted has the relay's count where a manifest must have it (``manifest``, 8), and a
    count is signed by a relay of the experiment.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.documents.manifest import (
    MAX_MANIFEST_BYTES,
    AcceptedManifest,
    LastRound,
    RoundManifest,
    check_consistent,
    fits_labels,
    reaches_floor,
    tells_count,
)
from secvm.protocol.log.entries import EntryKind, ModelNames, ModelRecord
from secvm.protocol.records import Digest, choice, whole
from secvm.protocol.version import ENDING_TYPE, MAX_ROUND


class Why(enum.Enum):
    """Why an experiment is over."""

    #: All its rounds are, or its coordinator saw that nothing more is to be learnt.
    FINISHED = "finished"
    #: Somebody wanted it so.
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class Ending(ModelRecord):
    """The end of one experiment."""

    purpose: ClassVar[str] = ENDING_TYPE
    title: ClassVar[str] = "the ending"
    longest: ClassVar[int] = MAX_MANIFEST_BYTES
    reserved: ClassVar[tuple[str, ...]] = ("log",)
    entry_kind: ClassVar[EntryKind] = EntryKind.ENDING

    #: The last round; 0 where there was none.
    round_number: Annotated[int, whole(0, MAX_ROUND, name="round")]
    #: Digest of the last round's manifest; None where there was none.
    manifest: Digest | None
    #: How the last round ended; None where there was none.
    last: LastRound | None
    why: Annotated[Why, choice(Why)]

    def _check_whole(self) -> None:
        if len({self.round_number == 0, self.manifest is None, self.last is None}) != 1:
            raise MalformedMessageError("an ending tells of its last round, unless there was none")


def make_ending(
    document: ExperimentDocument,
    *,
    why: Why,
    model: ModelNames,
    before: RoundManifest | None = None,
    last: LastRound | None = None,
) -> Ending:
    """The ending after the round of ``before``, which ended as ``last`` says; both None where there was no round."""
    state, training_weights, evaluation_weights = model
    ending = Ending(
        experiment=document.digest,
        round_number=0 if before is None else before.round_number,
        manifest=None if before is None else before.digest,
        last=last,
        state=state,
        training_weights=training_weights,
        evaluation_weights=evaluation_weights,
        why=why,
    )
    faults = ending_faults(ending, document, before)
    if faults:
        raise LocalProtocolError(f"this ending would not be accepted: {faults[0].value}")
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
    # (1), (2)
    ending = document.read(Ending, data)
    # (3), (4), (5), (6)
    faults = ending_faults(ending, document, None if last is None else last.manifest)
    check_consistent(faults, ending.last, data, document=document, last=last)
    return ending


def ending_faults(
    ending: Ending, document: ExperimentDocument, before: RoundManifest | None
) -> tuple[Inconsistency, ...]:
    """Steps 3 to 5, and of 6 what must be there: all that is wrong, in their order."""
    follows = before is not None and ending.round_number == before.round_number
    counted = ending.last is not None and ending.last.tally is not None
    checks = {
        # (3)
        Inconsistency.OTHER_EXPERIMENT: ending.experiment == document.digest,
        Inconsistency.TOO_MANY_ROUNDS: ending.round_number <= document.rounds,
        # (4)
        Inconsistency.ROUND_AFTER: before is None or ending.round_number >= before.round_number,
        Inconsistency.OTHER_ROUND: not follows or (before is not None and ending.manifest == before.digest),
        Inconsistency.ABANDONED_STEP: not follows or counted or (before is not None and ending.model == before.model),
        # (5)
        Inconsistency.OTHER_LABELS: fits_labels(ending.last, document),
        Inconsistency.BELOW_FLOOR: reaches_floor(ending.last, document),
        # (6)
        Inconsistency.NO_COUNT: tells_count(ending.last, document),
    }
    return tuple(fault for fault, holds in checks.items() if not holds)
