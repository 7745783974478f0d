"""Opening: how a round ended, in the coordinator's envelope (docs/protocol.md §31).

It holds both counts and both reveals as the relays signed them, the seed of the count key, the digest of the net tally
and the root of the shards. A round of which anything is missing is *unopened*: then seed, tally and shards are null.
Whether what is there is also true is ``judging``'s question.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from secvm.crypto.signing import SigningKey, sign, verify
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields, base64_text, decode_document, digest_of, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.faults import Missing
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement, taken_bytes
from secvm.protocol.version import MAX_ROUND, OPENING_TYPE

MAX_OPENING_BYTES = 2**14
#: What stands in the opening for each relay's statement, in the order in which they come about.
_STATEMENTS: dict[str, type[Statement]] = {
    "entry_count": EntryCount,
    "mix_count": MixCount,
    "entry_reveal": EntryReveal,
    "mix_reveal": MixReveal,
}


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The end of one round."""

    #: Digest of the experiment.
    experiment: str
    round_number: int
    label: bytes
    #: Envelopes, as the relays signed them; None where there is none.
    entry_count: bytes | None = None
    mix_count: bytes | None = None
    entry_reveal: bytes | None = None
    mix_reveal: bytes | None = None
    #: From which the count key grows; None where the round is unopened, as the next two.
    count_seed: bytes | None = None
    #: Digest of the net tally.
    tally: str | None = None
    #: Root of the shards.
    shards: bytes | None = None

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

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = encode_document(self._content())
        try:
            Opening.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"this opening cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """What the next manifest and the log call it."""
        return digest_of(self.data)

    def signed(self, keys: Iterable[SigningKey]) -> bytes:
        """In its envelope, as it is served."""
        return sign(self.data, purpose=OPENING_TYPE, keys=keys)

    @staticmethod
    @lru_cache(maxsize=64)
    def from_bytes(data: bytes) -> Opening:
        """The opening of canonical bytes; what it holds is well formed, and **no signature in it is checked**."""
        fields = Fields(decode_document(data, max_bytes=MAX_OPENING_BYTES), "the opening")
        fields.constant("type", OPENING_TYPE)
        told: dict[str, bytes | None] = {}
        for name, kind in _STATEMENTS.items():
            told[name] = None
            if not fields.is_null(name):
                envelope = fields.base64(name, longest=kind.longest + ENVELOPE_BYTES)
                kind.enclosed(envelope)  # refuses what is none
                told[name] = envelope
        opening = Opening(
            experiment=fields.digest("experiment"),
            round_number=fields.integer("round", 1, MAX_ROUND),
            label=taken_bytes(fields, "label"),
            **told,
            count_seed=None if fields.is_null("count_seed") else taken_bytes(fields, "count_seed"),
            tally=None if fields.is_null("tally") else fields.digest("tally"),
            shards=None if fields.is_null("shards") else taken_bytes(fields, "shards"),
        )
        fields.done()
        if (
            len(
                {
                    opening.is_opened,
                    opening.count_seed is not None,
                    opening.tally is not None,
                    opening.shards is not None,
                }
            )
            > 1
        ):
            raise MalformedMessageError("seed, tally and shards stand in an opening exactly where nothing is missing")
        return opening

    def _content(self) -> dict[str, Any]:
        envelopes = {name: getattr(self, name) for name in _STATEMENTS}
        return {
            **{name: None if data is None else base64_text(data) for name, data in envelopes.items()},
            "count_seed": None if self.count_seed is None else self.count_seed.hex(),
            "experiment": self.experiment,
            "label": self.label.hex(),
            "round": self.round_number,
            "shards": None if self.shards is None else self.shards.hex(),
            "tally": self.tally,
            "type": OPENING_TYPE,
        }


def read_opening(data: bytes, document: ExperimentDocument) -> Opening:
    """The opening in an envelope that enough of the coordinator's keys signed.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not an opening that this experiment's keys signed.
    """
    keys, threshold = document.coordinator_keys, document.threshold
    return Opening.from_bytes(verify(data, purpose=OPENING_TYPE, keys=keys, threshold=threshold))
