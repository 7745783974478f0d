"""Openings and endings: how a round ended, and an experiment, in the coordinator's envelope (docs/protocol.md §31).

An opening holds both counts and both reveals as the relays signed them, the seed of the count key, the digest of the
net tally and the root of the shards. A round of which anything is missing is *unopened*: then seed, tally and shards
are null. Whether what is there is also true is the question of ``judgement``.

After the last round there is no next manifest. The ending names the last round's manifest and opening, and the state
and weights that follow from them; devices predict with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from secvm.errors import MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Missing
from secvm.protocol.records import CoordinatorRecord, Digest, Hash, ModelRecord, RoundNumber, whole, words
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.statements import enveloped
from secvm.protocol.version import MAX_ROUND, OPENING_TYPE, RELAYED_ENDING_TYPE

MAX_OPENING_BYTES = 2**14


@dataclass(frozen=True, kw_only=True)
class Opening(CoordinatorRecord):
    """The end of one round."""

    purpose: ClassVar[str] = OPENING_TYPE
    title: ClassVar[str] = "the opening"
    longest: ClassVar[int] = MAX_OPENING_BYTES

    #: Digest of the experiment.
    experiment: Digest
    round_number: RoundNumber
    label: Hash
    #: Envelopes, as the relays signed them; None where there is none.
    entry_count: Annotated[bytes, enveloped(EntryCount)] | None = None
    mix_count: Annotated[bytes, enveloped(MixCount)] | None = None
    entry_reveal: Annotated[bytes, enveloped(EntryReveal)] | None = None
    mix_reveal: Annotated[bytes, enveloped(MixReveal)] | None = None
    #: From which the count key grows; None where the round is unopened, as the next two.
    count_seed: Hash | None = None
    #: Digest of the net tally.
    tally: Digest | None = None
    #: Root of the shards.
    shards: Hash | None = None

    @property
    def missing(self) -> tuple[Missing, ...]:
        """All that is not there, in the order in which it should have come."""
        parts = {
            Missing.ENTRY_COUNT: self.entry_count,
            Missing.MIX_COUNT: self.mix_count,
            Missing.ENTRY_REVEAL: self.entry_reveal,
            Missing.MIX_REVEAL: self.mix_reveal,
            Missing.SEED: self.count_seed,
        }
        return tuple(what for what, data in parts.items() if data is None)

    @property
    def is_opened(self) -> bool:
        """Whether all is there. Whether it is true as well is another question (``judgement.opening_faults``)."""
        return not self.missing

    def _check_whole(self) -> None:
        parts = (self.count_seed, self.tally, self.shards)
        if {part is not None for part in parts} != {self.is_opened}:
            raise MalformedMessageError("seed, tally and shards stand in an opening exactly where nothing is missing")

    @classmethod
    def from_bytes(cls, data: bytes) -> Opening:
        """The opening of canonical bytes; what it holds is well formed, and **no signature in it is checked**."""
        return _read(data)


@lru_cache(maxsize=64)
def _read(data: bytes) -> Opening:
    return super(Opening, Opening).from_bytes(data)


def read_opening(data: bytes, document: ExperimentDocument) -> Opening:
    """The opening in an envelope that enough of the coordinator's keys signed.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not an opening that this experiment's keys signed.
    """
    return Opening.from_bytes(document.verified(data, purpose=OPENING_TYPE))


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
