"""From a published experiment to what a privacy statement is about. Pure, and nothing that it claims is believed."""

from __future__ import annotations

from secvm.privacy.statement import Terms
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins


def terms_of(document: ExperimentDocument) -> Terms:
    """What a statement about this experiment takes."""
    planned = getattr(document, "privacy", None)
    told = {} if planned is None else _planned(planned)
    return Terms(
        experiment=document.experiment,
        rounds=document.rounds,
        hashes=document.binning.hashes if isinstance(document.binning, HashedBins) else 1,
        floor=document.floor,
        train_share=document.train_share,
        relay_modes=tuple(getattr(relay, "mode", None) for relay in document.relays),
        **told,
    )


def _planned(planned):
    return {"participants": planned.participants, "gamma": planned.gamma, "delta": float(planned.delta)}
