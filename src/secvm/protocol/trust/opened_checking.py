"""OpenedChecking: ``Checking`` for rounds with two relays too; what is said there of remembering holds here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import Model
from secvm.protocol.relays.step import After, after_opened
from secvm.protocol.trust.checking import Checking

Value = TypeVar("Value")


class OpenedChecking(Checking):
    """Judges, and remembers nothing."""

    def once(self, kind: str, asked: tuple[object, ...], judge: Callable[[], Value]) -> Value:  # noqa: ARG002
        """What ``judge`` comes to, a question of this kind. ``asked`` is **everything** that its answer follows from,
        bytes by their digests; an answer never changes.
        """
        return judge()

    def after_opened(self, document: ExperimentDocument, model: Model, net: Tally, *, clients: int) -> After:
        """``stepping.after_opened``."""
        return after_opened(document, model.state, net, clients=clients)
