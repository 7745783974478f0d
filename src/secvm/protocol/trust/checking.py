"""Checking: the pure functions by which served bytes are judged, in one place.

Each is a function of its arguments alone. So a host that carries hundreds of devices may hand all of them one that
remembers what it has judged before (``participant.trust.shared_checks``): whoever asks the same gets the same answer.
A device of its own takes this one, which remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from secvm.crypto.notes import NoteKey
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from secvm.protocol.documents.recomputation import After, Model, after_opened, first_model, model_of, next_model
from secvm.protocol.log.checkpoints import SignedCheckpoint, read_checkpoint

Value = TypeVar("Value")


class Checking:
    """Judges, and remembers nothing."""

    def accept(
        self, data: bytes, *, document: ExperimentDocument, last: AcceptedManifest | None = None
    ) -> AcceptedManifest:
        """``manifest.accept``."""
        return accept(data, document=document, last=last)

    def checkpoint(self, data: bytes, *, log: NoteKey) -> SignedCheckpoint:
        """``checkpoints.read_checkpoint``."""
        return read_checkpoint(data, log=log)

    def times(self, signed: SignedCheckpoint, witnesses: Sequence[NoteKey]) -> dict[NoteKey, int]:
        """When each of these witnesses cosigned, in seconds; wrong cosignatures are refused."""
        return signed.times(witnesses)

    def tally(self, data: bytes, *, digest: str, document: ExperimentDocument) -> Tally:
        """The tally of this digest."""
        return decode_tally(data, digest=digest, experiment=document.experiment)

    def first(self, document: ExperimentDocument) -> Model:
        """What round 1 starts from."""
        return first_model(document)

    def model(self, state: bytes, *, digest: str, document: ExperimentDocument) -> Model:
        """The model of the state of this digest."""
        return model_of(document, decode_state(state, digest=digest, experiment=document.experiment))

    def following(self, document: ExperimentDocument, model: Model, tally: Tally | None) -> Model:
        """``recomputation.next_model``."""
        return next_model(document, model.state, tally)

    def once(self, kind: str, asked: tuple[object, ...], judge: Callable[[], Value]) -> Value:  # noqa: ARG002
        """What ``judge`` comes to, a question of this kind. ``asked`` is **everything** that its answer follows from,
        bytes by their digests; an answer never changes.
        """
        return judge()

    def after_opened(self, document: ExperimentDocument, model: Model, net: Tally, *, clients: int) -> After:
        """``recomputation.after_opened``."""
        return after_opened(document, model.state, net, clients=clients)
