"""What a person is told before they join: what leaves their device, who may read it, and what is promised about it."""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.participant.consent.policies import Consent, Statement
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy import risk
from secvm.privacy.statements.plain import words as plain_words
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import words as relayed_words
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.submission import RECOUNTED_ONE_IN

NO_GUARANTEE = (
    "This experiment adds no noise, so there is no formal guarantee. Tallies are public and stay so: anybody, not only"
    " the coordinator, can use them to guess at you."
)
_ANONYMOUS = (
    "Before every round your device asks {} for one anonymous token, and sends its packages with it and without its"
    " name. The relay learns that you take part, and cannot tell later which token was yours."
)


def who_asks(document: ExperimentDocument) -> list[str]:
    """Who asks, how to reach them and what for, as the signed document says: what a person is shown first."""
    if not document.operator:
        return ["It does not say who asks."]
    contact = f" Contact: {document.contact}" if document.contact else ""
    return [
        f"Asked by {document.operator}.{contact}",
        *([f"Purpose: {document.purpose}"] if document.purpose else []),
        "They say so themselves; nobody has checked it.",
    ]


def chosen_relays(document: ExperimentDocument) -> str:
    """What an invite does to trust: whoever wrote it chose whom the packages go through."""
    names = [f"{relay.host}{'' if relay.operator is None else f' ({relay.operator})'}" for relay in document.relays]
    if document.experiment.cover is None:
        return (
            f"Whoever invited you chose whom your packages go through: {', '.join(names)}. If those who run that work"
            " together with those who ask, they learn what you send."
        )
    return (
        f"Whoever invited you chose the two relays that your packages go through: {' and '.join(names)}. Your answer"
        " is hidden as long as one of the two is honest: make sure that you know and trust one of them."
    )


def in_short(document: ExperimentDocument, statement: Statement | None = None) -> list[str]:
    """What taking part means in a few words, to be read first."""
    statement, rounds = statement or Consent().statement(document), document.rounds
    relayed = isinstance(statement, RelayedStatement)
    when = "one random moment" if relayed else "random times"
    return [
        f"It looks at {_looks_at(document)}, on your device. They stay here.",
        (
            f"In each of {rounds} round{'s' * (rounds != 1)} your device sends {document.budget} small sealed packages"
            f" at {when} of {_duration(document.windows.length_s)}, as everybody's does:"
            f" {bytes_of_a_round(document) / 1000:.0f} kB."
        ),
        risk.in_words(statement.risk, document.experiment),
        "You can pause or leave at any time. What was sent by then cannot be taken back.",
    ]


def _duration(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit} {name}{'s' * (seconds != unit)}"
    return f"{seconds} seconds"


def _looks_at(document: ExperimentDocument) -> str:
    # Sentences of ours go on after it.
    return document.features.description.strip().rstrip(".")


def guarantee(document: ExperimentDocument) -> str:
    """What is promised about the packages themselves, in words: nothing, or what two relays' cover is made for."""
    if document.experiment.cover is None:
        return NO_GUARANTEE
    terms, cover = document.privacy, document.relay_cover
    if not isinstance(terms, PrivacyTarget):
        raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is of another kind")
    bound = f"epsilon {float(terms.epsilon):g} at delta {float(terms.delta):.1g}"
    return (
        f"Each of two relays adds {cover.packages:,} packages to a round that name random bins and labels, and hide"
        f" which are yours. The experiment claims a formal guarantee for all its {document.rounds} rounds together:"
        f" {bound}, whatever weights are sent and whatever anybody knows, as long as one of the two relays is honest in"
        " each round."
    )


def what_leaves(
    document: ExperimentDocument, statement: Statement | None = None, policy: TrustPolicy | None = None
) -> list[str]:
    """In sentences: what taking part means, and what it tells, by default assumptions unless a statement says.

    ``policy`` knows who runs the relays, as far as the person has said.
    """
    statement, policy = statement or Consent().statement(document), policy or TrustPolicy()
    experiment, sample = document.experiment, document.experiment.features_per_person
    looked_at = "all of your features" if sample is None else f"at most {sample} of your features, drawn once"
    relayed = isinstance(statement, RelayedStatement)
    sends, when, rest = "exactly", "random times", "The rest say nothing."
    if relayed:
        sends, when = "one request of exactly", "a random moment"
        rest = "The rest say nothing; one of these is the only one that your device looks for afterwards."
    return [
        f"It looks at: {_looks_at(document)} (source '{document.features.source}'), {looked_at}.",
        (
            f"In every round your device sends {sends} {document.budget} sealed packages of one size, at {when} within"
            f" {document.windows.length_s} seconds, about {bytes_of_a_round(document) / 1000:.0f} kB; in at most"
            f" {document.rounds} rounds."
        ),
        (
            "One package says that someone with your label takes part. With probability"
            f" {float(document.train_share):g} your device trains (a package names one of {experiment.n_bins} bins and"
            f" a sign), else it tests (a package names your label and the predicted one). {rest}"
        ),
        *(_two_relays(document, policy) if relayed else [_one_relay(document, policy)]),
        *(relayed_words(statement) if isinstance(statement, RelayedStatement) else plain_words(statement)),
    ]


def _one_relay(document: ExperimentDocument, policy: TrustPolicy) -> str:
    several = len(document.relays) > 1
    knows = "A relay knows"
    if document.relays:
        knows = f"The relay{'s' * several} {policy.relays_in_words(document)} know{'s' * (not several)}"
    return (
        f"{knows} that you take part, and not what you send. The coordinator knows what was sent, and not by whom. If"
        " both work together, this does not hold."
    )


def _two_relays(document: ExperimentDocument, policy: TrustPolicy) -> list[str]:
    return [
        (
            f"The relays are {policy.relays_in_words(document)}. The first knows that you take part and cannot open"
            " what you send; the second opens one seal of two, and knows neither who sent a package nor what it says;"
            " the coordinator opens the other seal and counts, and publishes what it opened for everybody to count"
            f" again. In one round of {RECOUNTED_ONE_IN} your device counts a part of it."
        ),
        (
            "Before every round your device asks both relays for their terms, so the second sees its address as well:"
            " it learns that you may take part in something, and not in what."
        ),
        *([_ANONYMOUS.format(document.entry_relay.host)] if document.tokens else []),
        guarantee(document),
    ]
