"""RelayedEnding: what remains when an experiment with two relays is over (docs/protocol.md §31).

After the last round there is no next manifest. The ending names the last round's manifest and opening, and the state
and weights that follow from them; devices predict with these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from secvm.crypto.signing import SigningKey, sign, verify
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields, decode_document, digest_of, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.version import MAX_ROUND, RELAYED_ENDING_TYPE

MAX_ENDING_BYTES = 4096
#: All T rounds, or nothing more is learnt; or its operator stopped it.
Why = Literal["finished", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RelayedEnding:
    """The end of one experiment."""

    #: Digest of the experiment.
    experiment: str
    #: The last round; 0 where there was none, and then the next two are None.
    round_number: int
    manifest: str | None
    opening: str | None
    #: Digests of what remains.
    state: str
    training_weights: str
    evaluation_weights: str
    why: Why

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = encode_document(self._content())
        try:
            RelayedEnding.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"this ending cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """What the log calls it."""
        return digest_of(self.data)

    def signed(self, keys: Iterable[SigningKey]) -> bytes:
        """In its envelope, as it is served."""
        return sign(self.data, purpose=RELAYED_ENDING_TYPE, keys=keys)

    @classmethod
    def from_bytes(cls, data: bytes) -> RelayedEnding:
        """The ending of canonical bytes; nothing is checked against anything else."""
        fields = Fields(decode_document(data, max_bytes=MAX_ENDING_BYTES), "the ending")
        fields.constant("type", RELAYED_ENDING_TYPE)
        told = fields.text("why", longest=20)
        why: Why | None = "finished" if told == "finished" else "stopped" if told == "stopped" else None
        if why is None:
            raise fields.refuse("why")
        ending = cls(
            experiment=fields.digest("experiment"),
            round_number=fields.integer("round", 0, MAX_ROUND),
            manifest=None if fields.is_null("manifest") else fields.digest("manifest"),
            opening=None if fields.is_null("opening") else fields.digest("opening"),
            state=fields.digest("state"),
            training_weights=fields.digest("training_weights"),
            evaluation_weights=fields.digest("evaluation_weights"),
            why=why,
        )
        fields.done()
        if len({ending.round_number == 0, ending.manifest is None, ending.opening is None}) != 1:
            raise MalformedMessageError("an ending names the last round with its manifest and its opening, or no round")
        return ending

    def _content(self) -> dict[str, Any]:
        return {
            "evaluation_weights": self.evaluation_weights,
            "experiment": self.experiment,
            "manifest": self.manifest,
            "opening": self.opening,
            "round": self.round_number,
            "state": self.state,
            "training_weights": self.training_weights,
            "type": RELAYED_ENDING_TYPE,
            "why": self.why,
        }


def read_ending(data: bytes, document: ExperimentDocument) -> RelayedEnding:
    """The ending in an envelope that enough of the coordinator's keys signed.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not an ending that this experiment's keys signed.
    """
    keys, threshold = document.coordinator_keys, document.threshold
    return RelayedEnding.from_bytes(verify(data, purpose=RELAYED_ENDING_TYPE, keys=keys, threshold=threshold))
