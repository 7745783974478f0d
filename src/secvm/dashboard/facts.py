"""What is fixed of an experiment, out of its signed document, for people to read. Pure; slow where cover is reckoned.

The statement is computed here, from the document alone, as a device computes it: what a status document claims of
itself is not repeated.
"""

from __future__ import annotations

from typing import Any

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.privacy.accounting.guarantee import finite
from secvm.privacy.statements import relayed_text
from secvm.privacy.statements.plain import state, words
from secvm.privacy.statements.relayed import RelayedAssumption, state_relayed
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of
from secvm.protocol.documents.terms import write_learning
from secvm.protocol.plain.sealed_requests import REQUEST_BYTES

#: What a device counts for a package: header, ephemeral key and tag around a request, as devices seal it
#: (docs/protocol.md §14), and the HTTP around all of it. Forms and experiments are told the same (a test compares).
BYTES_PER_PACKAGE = 7 + 32 + REQUEST_BYTES + 16 + 400


def facts(document: ExperimentDocument) -> dict[str, Any]:
    """The question, and all that decides how it is answered."""
    experiment, binning, windows = document.experiment, document.binning, document.windows
    learning = write_learning(experiment, binning.bins)
    return {
        "question": document.question,
        "features": {
            "source": document.features.source,
            "description": document.features.description,
            "presence": document.features.presence,
        },
        "labels": list(experiment.labels),
        "bins": binning.bins,
        "hashes": binning.hashes if isinstance(binning, HashedBins) else None,
        "beacons": [
            {"chain": beacon.chain, "round": beacon.round_number}
            for beacon in (binning.beacons if isinstance(binning, HashedBins) else ())
        ],
        "features_per_person": experiment.features_per_person,
        "train_share": float(document.train_share),
        "rounds": document.rounds,
        "floor": document.floor,
        "budget": document.budget,
        "windows": {
            "length_s": windows.length_s,
            "grace_s": windows.grace_s,
            "first_opening": windows.first_opening,
            "hours": [list(pair) for pair in windows.hours],
            "time_zone": windows.time_zone,
        },
        "relays": [
            {
                "url": relay.url,
                "role": relay.role,
                "operator": relay.operator,
                "key": relay.key.data.hex(),
            }
            for relay in document.relays
        ],
        "log": None
        if document.log is None
        else {
            "name": document.log.name,
            "quorum": document.log.quorum,
            "freshness_s": document.log.freshness_s,
            "witnesses": [witness.name for witness in document.log.witnesses],
        },
        "descent": learning["rule"]["name"],
        "lambda": learning["rule"]["constants"].get("lambda"),
        "constants": learning["rule"]["constants"],
        "loss": learning["loss"]["name"],
        "multiclass": learning["multiclass"],
        "thinning": learning["thinning"],
        "robust": learning["robust"],
        "class_weights": learning["class_weights"],
        "tokens": document.tokens,
        "test": document.test,
    }


def has_guarantee(document: ExperimentDocument) -> bool:
    """Whether its document gives one, as a device judges it: whatever a status says."""
    if document.experiment.cover is None:
        return False
    return relayed_terms_of(document).operators.why_no_guarantee(one_relay=False) is None


def privacy(document: ExperimentDocument) -> dict[str, Any]:
    """What is guaranteed, in numbers and in plain sentences. May take seconds: in a thread."""
    if document.experiment.cover is not None:
        return _by_relays(document)
    statement = state(terms_of(document), bytes_per_package=BYTES_PER_PACKAGE)
    return {
        "kind": "plain",
        "epsilon": None,
        "delta": None,
        "why_no_guarantee": "this experiment adds no noise",
        "assumptions": [],
        "statement": words(statement),
        "bytes_per_round": statement.bytes_per_round,
    }


def _by_relays(document: ExperimentDocument) -> dict[str, Any]:
    terms = relayed_terms_of(document)
    delta = float(terms.claimed.delta)
    statement = state_relayed(terms, RelayedAssumption(delta=delta), bytes_per_package=OUTER_BYTES)
    planned = statement.planned
    return {
        "kind": "relays",
        "epsilon": None if planned is None else finite(planned.epsilon),
        "delta": None if planned is None else planned.delta,
        "why_no_guarantee": statement.why_no_guarantee,
        "assumptions": [] if planned is None else relayed_text.rests_on(terms.operators, planned),
        "statement": relayed_text.words(statement),
        "bytes_per_round": statement.bytes_per_round,
    }
