"""From a published experiment to what a privacy statement is about. Pure, and nothing that it claims is believed."""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.privacy.statements.operators import Operators
from secvm.privacy.statements.plain import Terms
from secvm.privacy.statements.relayed import CoveredTerms
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument


def terms_of(document: ExperimentDocument) -> Terms:
    """What a statement about an experiment without cover takes."""
    return Terms(
        experiment=document.experiment,
        rounds=document.rounds,
        hashes=document.binning.hashes,
        floor=document.floor,
        train_share=document.train_share,
        relays=len(document.relays),
        logged=document.log is not None,
        quorum=None if document.log is None else (document.log.quorum, len(document.log.witnesses)),
    )


def relayed_terms_of(document: ExperimentDocument, *, coordinator: str | None = None) -> CoveredTerms:
    """What a statement about an experiment with two relays takes; ``coordinator``: who runs it, as the person has said.

    Raises ``LocalProtocolError`` where the experiment has not the cover of two relays.
    """
    claimed, entry, mix = document.privacy, document.entry_relay, document.mix_relay
    if claimed is None or entry.operator is None or mix.operator is None:
        raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is null")
    return CoveredTerms(
        experiment=document.experiment,
        rounds=document.rounds,
        hashes=document.binning.hashes,
        floor=document.floor,
        train_share=document.train_share,
        claimed=PrivacyTarget(claimed.epsilon, claimed.delta),
        operators=Operators(
            entry=entry.operator, mix=mix.operator, coordinators=(coordinator or "", document.operator)
        ),
    )
