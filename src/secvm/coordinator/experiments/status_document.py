"""The public status of an experiment: one JSON document about its rounds, for people and programs.

Its numbers are those of signed documents: counts of a round appear when the manifest after it, or the ending, is
public; of an abandoned round no counts appear, only a word for why (``RoundEnd``). Shares come with 95 % intervals and
with the marginal baseline that a guess would reach. ``participants`` and ``cells`` are the counts as published. Where
there is cover they include it; ``people`` and the shares do not, and its noise is in the intervals.

The leakage part says what the public tallies have given away so far, and what all rounds were planned for. After each
round: d'² and AUC of somebody who knows a person's features and asks for the label (``privacy.experiment_leak``), as if
the person had sent in every round. It follows from public counts alone.

The document covers all rounds and is made anew whenever something changes. How a round ended never changes, so its
piece of text is made once and kept (``Watchers.pieces``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from secvm.coordinator.store.port import Standing
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau, TwoCycle
from secvm.learning.aggregate.scoring import Share
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.privacy.leakage import PlannedLeak, auc_of, measured_leak, planned_leak
from secvm.privacy.statements.relayed_text import PLAIN, holds
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound, RoundManifest
from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of
from secvm.protocol.relays.manifest import Instants
from secvm.protocol.round_state import RoundEnd


@dataclass
class LeakageMeter:
    """Fed with every round that is concluded, once, in order."""

    document: ExperimentDocument
    #: d'² of each tallied round; None where there is no law for the label.
    rounds: dict[int, float | None] = field(default_factory=dict)
    #: The same as text, made once.
    _pieces: dict[int, str] = field(default_factory=dict, repr=False)

    def watch(self, number: int, tally: Tally) -> None:
        """Compute what the tally of a round gives away."""
        self.rounds[number] = measured_leak(self.document.experiment, tally, hashes=terms_of(self.document).hashes)

    @cached_property
    def _planned(self) -> PlannedLeak | None:
        terms = terms_of(self.document)
        return planned_leak(terms.experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes)

    def text(self, *, public_rounds: int) -> str:
        """The text for the public status: stable keys, null where there is no number. So many rounds have public ends:
        ``public_rounds``.
        """
        planned = self._planned
        rounds = {
            number: known for number, known in self.rounds.items() if number <= public_rounds and known is not None
        }
        so_far = None if planned is None else math.fsum(rounds.values())
        content: dict[str, Any] = {
            "formal_guarantee": False,
            "rounds_told": public_rounds,
            "planned_d_prime": None if planned is None else math.sqrt(planned.d_squared),
            "planned_auc": None if planned is None else planned.auc,
            "d_prime": None if so_far is None else math.sqrt(so_far),
            "auc": None if so_far is None else auc_of(so_far),
        }
        pieces = ",".join(self._piece(number, known) for number, known in rounds.items())
        return f'{as_text(content)[:-1]},"per_round":[{pieces}]}}'

    def _piece(self, number: int, leak: float) -> str:
        if number not in self._pieces:
            self._pieces[number] = as_text({"round": number, "d_prime": math.sqrt(leak), "auc": auc_of(leak)})
        return self._pieces[number]


def as_text(content: object) -> str:
    """JSON as the status is written in."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


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
        tally = aggregate.uncovered(self.experiment.cover, tally)
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
    times: RoundManifest | Instants
    #: How it ended, where a signed document tells it.
    last: LastRound | None
    #: And why, where that is known.
    end: RoundEnd | None = None


def status(
    document: ExperimentDocument, *, standing: Standing, rounds: Sequence[TellableRound], watchers: Watchers
) -> bytes:
    """The document of a plain experiment, as JSON."""
    leakage = (watchers.leakage or LeakageMeter(document)).text(
        public_rounds=sum(known.last is not None for known in rounds)
    )
    notes = notes_of(watchers, early=standing is Standing.FINISHED and len(rounds) < document.rounds)
    pieces = ",".join(_piece(known, document, watchers.pieces) for known in rounds)
    head = as_text(heading(document, standing))[:-1]
    return f'{head},"rounds":[{pieces}],"leakage":{leakage},"notes":{as_text(notes)}}}'.encode()


def _piece(known: TellableRound, document: ExperimentDocument, pieces: dict[int, tuple[LastRound, str]]) -> str:
    kept = pieces.get(known.number)
    if kept is not None and kept[0] is known.last:
        return kept[1]
    text = as_text(_told(known, document))
    if known.last is not None:
        pieces[known.number] = known.last, text
    return text


def _told(known: TellableRound, document: ExperimentDocument) -> dict[str, Any]:
    content = round_heading(known.number, known.state, known.times)
    if known.last is None:
        return content
    content |= end_told(known.end)
    return content if known.last.tally is None else content | scores(document.experiment, known.last.counts)


def heading(document: ExperimentDocument, standing: Standing) -> dict[str, Any]:
    """What the status of every experiment begins with."""
    return {
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


def round_heading(number: int, state: str, times: RoundManifest | Instants) -> dict[str, Any]:
    """What the status tells of every round."""
    window = {name: getattr(times, name) for name in ("opens_at", "closes_at", "accept_until")}
    return {"number": number, "state": state, **window}


def end_told(end: RoundEnd | None) -> dict[str, str]:
    """What the status tells of why a round ended as it did."""
    return {} if end is None else {"end": end.word}


def scores(experiment: Experiment, tally: Tally) -> dict[str, Any]:
    """The counts of a tallied round, and the shares that follow from its tests."""
    labels, people = experiment.labels, aggregate.uncovered(experiment.cover, tally).participants
    content: dict[str, Any] = {
        "participants": dict(zip(labels, tally.participants.tolist(), strict=True)),
        "people": dict(zip(labels, people.tolist(), strict=True)),
        # Of all labels together: with cover the noise of "people" is larger than a small round.
        "trained": asdict(aggregate.trained(experiment, tally)),
    }
    if experiment.loss.regression:
        return content
    score = aggregate.score(experiment, tally)
    content |= {"cells": tally.cells.tolist(), "accuracy": share_told(score.accuracy)}
    for name in ("recall", "precision", "baseline"):
        content[name] = {label: share_told(share) for label, share in zip(labels, getattr(score, name), strict=True)}
    return content


def privacy_told(document: ExperimentDocument) -> dict[str, Any]:
    """The privacy that an experiment claims, and what the claim rests on."""
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
