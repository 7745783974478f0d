"""RelayedEnding: what remains when an experiment with two relays is over (docs/protocol.md §31).

After the last round there is no next manifest. The ending names the last round's manifest and opening, and the state
and weights that follow from them; devices predict with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from secvm.errors import MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.records import Digest, ModelRecord, whole, words
from secvm.protocol.version import MAX_ROUND, RELAYED_ENDING_TYPE

#: All T rounds, or nothing more is learnt; or its operator stopped it.
Why = Literal["finished", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RelayedEnding(ModelRecord):
    """The end of one experiment."""

    purpose: ClassVar[str] = RELAYED_ENDING_TYPE
    title: ClassVar[str] = "the ending"
    longest: ClassVar[int] = 4096

    #: Digest of the experiment.
    experiment: Digest
    #: The last round; 0 where there was none, and then the next two are None.
    round_number: Annotated[int, whole(0, MAX_ROUND, name="round")]
    manifest: Digest | None
    opening: Digest | None
    why: Annotated[Why, words("finished", "stopped")]

    def _check_whole(self) -> None:
        if len({self.round_number == 0, self.manifest is None, self.opening is None}) != 1:
            raise MalformedMessageError("an ending names the last round with its manifest and its opening, or no round")


def read_ending(data: bytes, document: ExperimentDocument) -> RelayedEnding:
    """The ending in an envelope that enough of the coordinator's keys signed.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not an ending that this experiment's keys signed.
    """
    return RelayedEnding.from_bytes(document.verified(data, purpose=RELAYED_ENDING_TYPE))
