"""What a federation's coordinator published after a round: the model that follows, and what was counted.

After a plain round all of it stands in the next manifest or the ending. A round of two relays has an opening of its
own: its net tally is there also where nothing was learnt from it, and it tells which part of the relays' cover was
opened, so that whoever knows the relays' seeds counts their cover again (``estimator.round_cover``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from secvm.auditor.audit import audit_files
from secvm.auditor.files import WebFiles
from secvm.estimator.round_cover import CoverOrigin, CoverOrigins
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest, read_relay_count
from secvm.protocol.relays.counts import EntryCount, EntryReveal
from secvm.protocol.relays.opening import Opening, clients_of
from secvm.runtime.clock import SystemClock
from secvm.testing.federation import Federation
from secvm.testing.whole_experiment import document_after


@dataclass(frozen=True, eq=False)
class Published:
    """After one round."""

    #: The state's bytes.
    state: bytes = field(repr=False)
    #: Digest of the weights by which people are predicted.
    evaluation_weights: str
    #: None: an abandoned round, or an unopened one.
    tally: Tally | None = field(repr=False)
    #: Packages of devices that were handed on, nulls among them.
    packages: int
    #: Where two relays' cover came from.
    origin: CoverOrigin | None = None


def published(federation: Federation, number: int) -> Published:
    """What there is after this round; what follows it is public."""
    document = federation.document
    assert document is not None
    told = document_after(federation, number)
    if document.experiment.cover is None:
        assert isinstance(told, Ending | RoundManifest)
        assert told.last is not None
        handed_on = told.last.relay_count
        packages = 0 if handed_on is None else read_relay_count(handed_on, document).capsules
        tally, origin = told.last.tally, None
    else:
        path = f"/v1/experiment/{document.digest}/opening/{number}"
        shown = federation.patiently(lambda: federation.public(path), f"the opening of round {number}")
        opening = document.read(Opening, shown)
        packages = clients_of(opening) * document.budget
        tally, origin = opening.tally, _origin(federation.cover_seeds, document, opening)
    return Published(
        state=_blob(federation, told.state),
        evaluation_weights=told.evaluation_weights,
        tally=None
        if tally is None
        else decode_tally(_blob(federation, tally), digest=tally, experiment=document.experiment),
        packages=packages,
        origin=origin,
    )


def origins_of(rounds: list[Published]) -> CoverOrigins | None:
    """Where the cover of all these rounds came from, the first one first; None: there was none. That of a round that
    stayed unopened is in no tally: any other stands in its place.
    """
    found = [one.origin for one in rounds]
    known = next((one for one in found if one is not None), None)
    if known is None:
        return None

    def origin(round_number: int) -> CoverOrigin:
        return found[round_number - 1] or known

    return origin


def _origin(seeds: tuple[str, str], document: ExperimentDocument, opening: Opening) -> CoverOrigin | None:
    if opening.entry_count is None or opening.entry_reveal is None:
        return None
    count = EntryCount.enclosed(opening.entry_count)
    return CoverOrigin.of_opening(
        seeds,
        opening.round_number,
        document.relay_cover.parts,
        label=opening.label,
        roots=(count.received, count.root),
        opened=EntryReveal.enclosed(opening.entry_reveal).part,
    )


def _blob(federation: Federation, digest: str) -> bytes:
    return federation.patiently(lambda: federation.public(f"/v1/blob/{digest}"), "a blob that is named")


def from_outside(federation: Federation) -> tuple[list[str], int]:
    """What an auditor finds, and how many forks the witnesses have kept as evidence."""
    seen = [
        json.loads(federation.patiently(lambda name=name: federation.answer(name, "/v1/seen"), name))  # type: ignore[misc]
        for name in federation.witness_names
    ]
    report = audit_files(
        WebFiles(federation.coordinator_url, SystemClock()), now=federation.clock.now, experiment=federation.digest
    )
    return [fault.sentence for fault in report.faults], sum(len(one["forks"]) for one in seen)
