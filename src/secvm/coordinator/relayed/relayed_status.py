"""What is public of the rounds of an experiment with two relays, as one JSON document for people and programs.

A round is ``opened`` or ``unopened`` once its opening is public, with the counts and figures of it: submissions,
capsules, what was refused, what was junk, whether the model stepped. ``participants`` and ``cells`` are of the net
tally, with the cover that is left in it; ``people`` and the shares are without its mean, and its noise is in the
intervals.
"""

from __future__ import annotations

import json
from typing import Any

from secvm.coordinator.experiments.status_document import notes_of, privacy_told, share_told
from secvm.coordinator.relayed.forgetting import kept_until
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.store.port import Standing
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.judgement import clients_of


def status(book: RelayedBook, rounds: int, opened: int, kept_days: int) -> bytes:
    """The document: so many rounds are public, and so many of their openings, shards for so many days."""
    document, standing = book.document, book.stored.standing
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
        "rounds": [_told(book, one, kept_days, is_told=at < opened) for at, one in enumerate(book.rounds[:rounds])],
        "leakage": _leakage(document, opened),
        "notes": notes_of(book.watchers, early=standing is Standing.FINISHED and rounds < document.rounds),
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _leakage(document: ExperimentDocument, opened: int) -> dict[str, Any]:
    """Of tallies under a guarantee nobody has a number but ε, as the document claims it for all rounds."""
    terms = relayed_terms_of(document)
    numbers = ("planned_d_prime", "planned_auc", "d_prime", "auc", "epsilon")
    return {
        **dict.fromkeys(numbers),
        "formal_guarantee": terms.operators.why_no_guarantee(one_relay=False) is None,
        "rounds_told": opened,
        "epsilon_planned": float(terms.claimed.epsilon),
        "delta": float(terms.claimed.delta),
        "per_round": [],
    }


def _told(book: RelayedBook, one: KeptRound, kept_days: int, *, is_told: bool) -> dict[str, Any]:
    times = one.manifest.instants
    told: dict[str, Any] = {
        "number": one.stored.number,
        "state": one.stored.state.value if one.is_live else "closing",
        "opens_at": times.opens_at,
        "closes_at": times.closes_at,
        "accept_until": times.accept_until,
        "open_by": times.open_by,
    }
    if not is_told or one.opening is None or one.figures is None:
        return told
    told["state"] = "opened" if one.opening.is_opened else "unopened"
    told["reasons"] = list(one.figures.reasons)
    if one.opening.mix_count is None or not one.opening.is_opened:
        return told
    net = book.tally(one)
    assert net is not None, "an opened round has a tally"
    experiment, labels = book.document.experiment, book.document.experiment.labels
    told |= {
        "clients": clients_of(one.opening),
        "capsules": one.figures.capsules,
        "packages": one.figures.packages,
        "refused": MixCount.enclosed(one.opening.mix_count).refused,
        "junk": one.figures.junk,
        "stepped": one.figures.stepped,
        "kept_until": kept_until(one, kept_days),
        "participants": dict(zip(labels, net.participants.tolist(), strict=True)),
        "people": dict(zip(labels, experiment.uncovered(net).participants.tolist(), strict=True)),
    }
    if experiment.loss.regression:
        return told
    found = experiment.score(net)
    told["cells"] = net.cells.tolist()
    told["accuracy"] = share_told(found.accuracy)
    for name in ("recall", "precision", "baseline"):
        told[name] = {label: share_told(share) for label, share in zip(labels, getattr(found, name), strict=True)}
    return told
