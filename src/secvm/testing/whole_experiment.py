"""A federation's rounds from first to last, for somebody who wants the result and steers nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from secvm.crypto.signing import Envelope
from secvm.participant.person.pinning import binning_of
from secvm.protocol.documents.blobs import decode_weights
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding
from secvm.testing.result import Result, Round

if TYPE_CHECKING:
    from secvm.learning.individual.binning import VocabularyBinning
    from secvm.testing.federation import Federation

#: States of a round in the public status once it is over.
_OVER = ("published", "abandoned", "opened", "unopened")


def document_after(federation: Federation, number: int) -> Ending | RoundManifest | RelayedEnding | RelayedManifest:
    """The signed document that follows a round: the next manifest or the ending."""
    served = federation.patiently(lambda: federation.following(number), f"what follows round {number}")
    payload = Envelope.from_bytes(served).payload
    if federation.ended(number):
        return (RelayedEnding if federation.covered else Ending).from_bytes(payload)
    return (RelayedManifest if federation.covered else RoundManifest).from_bytes(payload)


def play_rounds(
    federation: Federation, first: int, last: int, *, devices: int, vocabulary: VocabularyBinning | None
) -> Result:
    """Play these rounds, with all devices in each, or as many as there are before the coordinator ends it early."""
    document = federation.document
    assert document is not None, "the experiment has begun"
    number = first - 1
    while number < last and not federation.ended(number):
        number += 1
        federation.play_round(number, attending=devices, budget=document.budget)
    if document.experiment.cover is not None and federation.ended(number):
        federation.settle()
    status = _status(federation, number)
    digest = document_after(federation, number).evaluation_weights
    blob = federation.patiently(lambda: federation.public(f"/v1/blob/{digest}"), "the model")
    return Result(
        document=document,
        rounds=tuple(_round(figures) for figures in status["rounds"][:number]),
        devices=devices,
        weights=decode_weights(blob, digest=digest, experiment=document.experiment),
        binning=binning_of(document, vocabulary),
        notes=tuple(status["notes"]),
    )


def _round(figures: dict[str, Any]) -> Round:
    return Round.of(figures["number"], figures, learnt=figures.get("stepped", figures["state"] == "published"))


def _status(federation: Federation, number: int) -> dict[str, Any]:
    """The public status once it tells the end of this round: it is written after the document that says so."""

    def concluded() -> bytes | None:
        served = federation.public(f"/v1/experiment/{federation.digest}/status")
        rounds = [] if served is None else json.loads(served)["rounds"]
        return served if len(rounds) >= number and rounds[number - 1]["state"] in _OVER else None

    status: dict[str, Any] = json.loads(federation.patiently(concluded, f"the figures of round {number}"))
    return status
