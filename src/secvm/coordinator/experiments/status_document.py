"""What is public of an experiment's rounds, as one JSON document for people and programs to read.

Nothing here is more than what signed documents already tell: counts of a round appear when the manifest after it (or
the ending) is public, and of an abandoned round nothing does. Shares come with 95 % intervals, and with the marginal
baseline that a guess would reach. ``participants`` and ``cells`` are the counts as published. Where there is cover they
hold it; ``people`` and the shares do not, and its noise is in the intervals.

The document has all rounds and is made anew whenever something changes. How a round ended never changes: its piece is
made once and kept (``Watchers.pieces``), so that a round more costs a round, and not all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from secvm.coordinator.experiments.leakage import LeakageMeter, as_text
from secvm.coordinator.store.port import Standing
from secvm.learning.aggregate.convergence import Plateau, TwoCycle
from secvm.learning.aggregate.scoring import Share
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.privacy.statements.relayed_text import PLAIN, holds
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound
from secvm.protocol.documents.privacy_terms import relayed_terms_of


@dataclass
class Watchers:
    """Is it still learning? Fed with every round that is told, once, in order."""

    experiment: Experiment
    two_cycle: TwoCycle = field(default_factory=TwoCycle)
    #: None where the operator wants no early stopping.
    plateau: Plateau | None = None
    #: None where nobody reads it.
    leakage: LeakageMeter | None = None
    #: The last round that was looked at.
    seen: int = 0
    #: Rounds whose end is told, as they stand in the status: how it ended, and the text, by number.
    pieces: dict[int, tuple[LastRound, str]] = field(default_factory=dict, repr=False)
    stop: bool = False

    def watch(self, number: int, tally: Tally | None) -> None:
        """Take note of how a round ended."""
        if number <= self.seen:
            return
        self.seen = number
        if tally is None:
            return
        tally = self.experiment.uncovered(tally)
        self.two_cycle.watch(tally, number)
        if self.leakage is not None:
            self.leakage.watch(number, tally)
        tested = int(tally.cells.sum())
        # A round in which nobody tested says nothing about the model.
        if self.plateau is not None and tested:
            self.stop = self.plateau.watch(int(np.trace(tally.cells)), tested)


@dataclass(frozen=True, slots=True)
class TellableRound:
    """A round as far as it is public."""

    number: int
    state: str
    opens_at: int
    closes_at: int
    accept_until: int
    #: How it ended, where a signed document tells it.
    last: LastRound | None


def status(
    document: ExperimentDocument, *, standing: Standing, rounds: Sequence[TellableRound], watchers: Watchers
) -> bytes:
    """The document, as JSON."""
    content: dict[str, Any] = {
        "experiment": document.digest,
        "title": document.title,
        "standing": standing.value,
        "rounds_planned": document.rounds,
        "labels": list(document.experiment.labels),
        "floor": document.floor,
        "budget": document.budget,
        "privacy": privacy_told(document),
        "test": document.test,
    }
    leakage = (watchers.leakage or LeakageMeter(document)).text(told=sum(one.last is not None for one in rounds))
    notes = notes_of(watchers, early=standing is Standing.FINISHED and len(rounds) < document.rounds)
    pieces = ",".join(_piece(one, document, watchers.pieces) for one in rounds)
    return f'{as_text(content)[:-1]},"rounds":[{pieces}],"leakage":{leakage},"notes":{as_text(notes)}}}'.encode()


def _piece(one: TellableRound, document: ExperimentDocument, pieces: dict[int, tuple[LastRound, str]]) -> str:
    kept = pieces.get(one.number)
    if kept is not None and kept[0] is one.last:
        return kept[1]
    text = as_text(_told(one, document))
    if one.last is not None:
        pieces[one.number] = one.last, text
    return text


def _told(one: TellableRound, document: ExperimentDocument) -> dict[str, Any]:
    told: dict[str, Any] = {
        "number": one.number,
        "state": one.state,
        "opens_at": one.opens_at,
        "closes_at": one.closes_at,
        "accept_until": one.accept_until,
    }
    if one.last is None or one.last.tally is None:
        return told
    experiment, labels = document.experiment, document.experiment.labels
    counted = one.last.counts
    told["participants"] = dict(zip(labels, one.last.participants, strict=True))
    told["people"] = dict(zip(labels, experiment.uncovered(counted).participants.tolist(), strict=True))
    if experiment.loss.regression:
        return told
    found = experiment.score(counted)
    told["cells"] = [list(row) for row in one.last.cells]
    told["accuracy"] = share_told(found.accuracy)
    for name in ("recall", "precision", "baseline"):
        told[name] = {label: share_told(share) for label, share in zip(labels, getattr(found, name), strict=True)}
    return told


def privacy_told(document: ExperimentDocument) -> dict[str, Any]:
    """What is claimed, and what it rests on."""
    terms = document.privacy
    if terms is None:
        return {"kind": "plain", "note": PLAIN}
    cover = document.relay_cover
    return {
        "kind": "relays",
        "epsilon": float(terms.epsilon),
        "delta": float(terms.delta),
        "parts": cover.parts,
        "cover_packages": cover.packages,
        "relays": [relay.operator for relay in document.relays],
        "note": holds(relayed_terms_of(document).operators),
    }


def share_told(share: Share) -> dict[str, Any]:
    """A share with its interval. Null where nobody was counted: JSON has no NaN."""
    low, high = share.interval
    value = None if math.isnan(share.value) else share.value
    return {"value": value, "low": low, "high": high, "hits": share.hits, "of": share.of}


def notes_of(watchers: Watchers, *, early: bool) -> list[str]:
    """What whoever runs it should know of how it learns."""
    notes = [
        f"rounds {first} to {last} swing between two models: a larger lambda, a step cap or swift would help"
        for first, last in watchers.two_cycle.spells
    ]
    if early:
        notes.append("test results no longer got better: finished early")
    return notes
