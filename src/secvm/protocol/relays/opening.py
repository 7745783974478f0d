"""Opening: how a round ended, in the coordinator's envelope (docs/protocol.md §31).

It holds both counts and both reveals as the relays signed them, the seed of the count key, the digest of the net tally
and the root of the shards. A round of which anything is missing is *unopened*: then seed, tally and shards are null.
Whether what is there is also true is ``judgement``'s question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

from secvm.errors import MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.records import CoordinatorRecord, Digest, Hash, RoundNumber
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.faults import Missing
from secvm.protocol.relays.statements import enveloped
from secvm.protocol.version import OPENING_TYPE

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
        """Whether all is there. Whether it is true as well is another question (``judging.opening_faults``)."""
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
