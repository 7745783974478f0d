"""Where a device's rounds come from: out of a log, checked step by step (``trusting``), or on a server's word alone.

Both are asked the same three things: what is new, whether it is over, and with which weights a round is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from secvm.errors import SecVMError
from secvm.learning.weights import Weights
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.storage.state import Model
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.ending import Ending, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, RoundManifest


@dataclass(frozen=True, slots=True)
class News:
    """What an asking brought."""

    #: Envelope of the newest manifest, as it was served; None: it was over before its first round.
    manifest: bytes | None = field(repr=False)
    #: By so much at least the server's clock is ahead; None: it did not say.
    ahead: int | None
    #: The experiment is over, and that is stored.
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """How far a device is in a round, or was."""

    round_number: int
    waiting: int
    acknowledged: int
    lost: int
    done: bool


class Rounds(Protocol):
    """One experiment's rounds."""

    async def ask(self, now: Now) -> News | None:
        """The newest manifest that may be told to the session; None where nobody answered.

        Raises
        ------
        CheatingError
            What was served convicts the server.
        RemoteProtocolError
            It cannot be believed; nothing has changed.
        OverLimitError
            There is more to fetch than may be fetched today.
        """
        ...

    async def ask_for_ending(self, last: AcceptedManifest, now: Now) -> Ending | None:
        """Whether it is over, where ``ask`` has not told that already."""
        ...

    async def weights(self, manifest: RoundManifest, now: Now) -> tuple[Weights, Weights] | None:
        """For training and for evaluation; None where they cannot be had now."""
        ...


class UnloggedRounds:
    """Without a log: what the server signs is taken, and nobody can tell whether others are told the same."""

    def __init__(self, around: Surroundings, document: ExperimentDocument) -> None:
        self._around, self._document = around, document
        self._path = f"/v1/experiment/{document.digest}"

    async def ask(self, now: Now) -> News | None:
        fetched = await self._around.fetch(f"{self._path}/manifest/latest", now)
        return None if fetched is None else News(fetched.content, fetched.ahead)

    async def ask_for_ending(self, last: AcceptedManifest, now: Now) -> Ending | None:
        around = self._around
        fetched = await around.fetch(f"{self._path}/ending", now)
        if fetched is None:
            return None
        try:
            ending = accept_ending(fetched.content, document=self._document, last=last)
            weights = await around.shelf.weights(ending.evaluation_weights, self._document, around.transport)
        except SecVMError:
            # Not one to believe, or its weights are none: rounds may still come.
            return None
        if weights is None:
            return None
        with around.state.writing(durable=True):
            around.state.put_ending(self._document.digest, fetched.content)
            around.state.put_model(self._document.digest, Model(ending.round_number, ending.evaluation_weights))
        return ending

    async def weights(self, manifest: RoundManifest, now: Now) -> tuple[Weights, Weights] | None:
        around, document = self._around, self._document
        training = await around.shelf.weights(manifest.training_weights, document, around.transport)
        evaluation = await around.shelf.weights(manifest.evaluation_weights, document, around.transport)
        if training is None or evaluation is None:
            return None
        around.traffic.add(4 * training.mantissas.size * 2 + 2 * OVERHEAD_BYTES, now())
        return training, evaluation
