"""What a person is told of an experiment with two relays: what leaves the device."""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import words
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.sending.canary import RECOUNTED_ONE_IN


def claim(document: ExperimentDocument) -> str:
    """What the document says of itself, in words."""
    terms, cover = document.privacy, document.relay_cover
    if not isinstance(terms, PrivacyTarget):
        raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is of another kind")
    told = f"epsilon {float(terms.epsilon):g} at delta {float(terms.delta):.1g}"
    return (
        f"Each of two relays adds {cover.packages:,} packages to a round that name random bins and labels, and hide"
        f" which are yours. The experiment claims a formal guarantee for all its {document.rounds} rounds together:"
        f" {told}, whatever weights are sent and whatever anybody knows, as long as one of the two relays is honest in"
        " each round."
    )


def leaves(document: ExperimentDocument, statement: RelayedStatement, policy: TrustPolicy) -> list[str]:
    """In sentences: what taking part means, and what it tells."""
    experiment, sample = document.experiment, document.experiment.features_per_person
    return [
        (
            f"It looks at: {document.features.description} (source '{document.features.source}'), at most {sample} of"
            " your features, drawn once."
        ),
        (
            f"In every round your device sends one request of exactly {document.budget} sealed packages of one size, at"
            f" a random moment within {document.windows.length_s} seconds, about"
            f" {bytes_of_a_round(document) / 1000:.0f} kB; in at most {document.rounds} rounds."
        ),
        (
            "One package says that someone with your label takes part. With probability"
            f" {float(document.train_share):g} your device trains (a package names one of {experiment.n_bins} bins and"
            " a sign), else it tests (a package names your label and the predicted one). The rest say nothing; one of"
            " these is the only one that your device looks for afterwards."
        ),
        (
            f"The relays are {policy.relays_in_words(document)}. The first knows that you take part and cannot open"
            " what you send; the second opens one seal of two, and knows neither who sent a package nor what it says;"
            " the coordinator opens the other seal and counts, and publishes what it opened for everybody to count"
            f" again. In one round of {RECOUNTED_ONE_IN} your device counts a part of it."
        ),
        *_token(document),
        claim(document),
        *words(statement),
    ]


def _token(document: ExperimentDocument) -> list[str]:
    if not document.tokens:
        return []
    return [
        (
            f"Before every round your device asks {document.entry_relay.host} for one anonymous token, and sends its"
            " packages with it and without its name. The relay learns that you take part, and cannot tell later which"
            " token was yours."
        )
    ]
