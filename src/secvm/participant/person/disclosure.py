"""What a person is told before they join: the risk in short, what leaves their device, who may read it, the figures.

``in_short`` is read before a yes, ``what_leaves`` and ``figures`` by whoever wants to read everything. All are
``Sentence``s: the command line prints them, and the person's page says them in its reader's language.
"""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.participant.consent.policies import Consent, Statement
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy.risk import in_words as risk_in_words
from secvm.privacy.sentences import Sentence, say
from secvm.privacy.statements import plain, relayed_text
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.submission import RECOUNTED_ONE_IN

_SECONDS = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1))


def who_asks(document: ExperimentDocument) -> list[Sentence]:
    """Who asks, how to reach them and what for, as the signed document says: what a person is shown first."""
    if not document.operator:
        return [say("asks.unknown")]
    return [
        say("asks.by.contact", operator=document.operator, contact=document.contact)
        if document.contact
        else say("asks.by", operator=document.operator),
        *([say("asks.purpose", purpose=document.purpose)] if document.purpose else []),
        say("asks.unchecked"),
    ]


def chosen_relays(document: ExperimentDocument) -> Sentence:
    """What an invite does to trust: whoever wrote it chose whom the packages go through."""
    names = [f"{relay.host}{'' if relay.operator is None else f' ({relay.operator})'}" for relay in document.relays]
    if document.experiment.cover is None:
        return say("chosen.plain", relays=", ".join(names))
    return say("chosen.two", entry=names[0], mix=names[1])


def in_short(document: ExperimentDocument, statement: Statement | None = None) -> list[str]:
    """The risk, who must be honest, what leaves, and that there is a way out: to be read before a yes."""
    statement = statement or Consent().statement(document)
    relayed = isinstance(statement, RelayedStatement)
    return [
        risk_in_words(statement.risk, document.experiment),
        _honest(statement),
        say("short.looks", looks_at=_looks_at(document)),
        say(
            "short.sends.once" if relayed else "short.sends.spread",
            rounds=document.rounds,
            window=_duration(document.windows.length_s),
            kilobytes=_kilobytes(document),
        ),
        say("short.leave"),
    ]


def what_leaves(
    document: ExperimentDocument, statement: Statement | None = None, policy: TrustPolicy | None = None
) -> list[str]:
    """What taking part means, and what it tells, by default assumptions unless a statement says.

    ``policy`` knows who runs the relays, as far as the person has said.
    """
    statement, policy = statement or Consent().statement(document), policy or TrustPolicy()
    experiment, most = document.experiment, document.experiment.features_per_person
    looks = {"looks_at": _looks_at(document), "source": document.features.source}
    relayed = isinstance(statement, RelayedStatement)
    return [
        *(relayed_text.plainly(statement) if isinstance(statement, RelayedStatement) else plain.plainly(statement)),
        say("leaves.looks.all", **looks) if most is None else say("leaves.looks.some", most=most, **looks),
        say(
            "leaves.sends.once" if relayed else "leaves.sends.spread",
            budget=document.budget,
            window=_duration(document.windows.length_s),
            kilobytes=_kilobytes(document),
            rounds=document.rounds,
        ),
        say("leaves.says", share=float(document.train_share), bins=experiment.n_bins),
        *(_two_relays(document, policy) if relayed else [_one_relay(document, policy)]),
    ]


def figures(document: ExperimentDocument, statement: Statement | None = None) -> list[str]:
    """ε, δ, AUC and what else is a number for those who know the words."""
    statement = statement or Consent().statement(document)
    if isinstance(statement, RelayedStatement):
        return [*_claim(document), *relayed_text.figures(statement)]
    return [*plain.figures(statement)]


def _claim(document: ExperimentDocument) -> list[Sentence]:
    if document.experiment.cover is None:
        return []
    terms = document.privacy
    if not isinstance(terms, PrivacyTarget):
        raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is of another kind")
    return [say("figures.claim", packages=document.relay_cover.packages, claimed=str(terms))]


def _honest(statement: Statement) -> Sentence:
    if not isinstance(statement, RelayedStatement) or statement.risk >= 1:
        return say("short.none")
    operators = statement.terms.operators
    if operators.of_coordinator:
        return say("short.one", relay=operators.relied_on[0])
    return say("short.either", entry=operators.entry, mix=operators.mix)


def _looks_at(document: ExperimentDocument) -> str:
    # Its own sentence goes on after it.
    return document.features.description.strip().rstrip(".")


def _kilobytes(document: ExperimentDocument) -> float:
    return bytes_of_a_round(document) / 1000


def _duration(seconds: int) -> Sentence:
    name, each = next((name, each) for name, each in _SECONDS if seconds % each == 0 and seconds >= each)
    number = seconds // each
    return say(f"duration.{name}.one") if number == 1 else say(f"duration.{name}", n=number)


def _one_relay(document: ExperimentDocument, policy: TrustPolicy) -> Sentence:
    if not document.relays:
        return say("leaves.no-relay")
    return say(
        "leaves.one-relay" if len(document.relays) == 1 else "leaves.relays", relays=policy.relays_in_words(document)
    )


def _two_relays(document: ExperimentDocument, policy: TrustPolicy) -> list[Sentence]:
    return [
        say("leaves.canary"),
        say("leaves.two-relays", relays=policy.relays_in_words(document), recounted=RECOUNTED_ONE_IN),
        say("leaves.terms"),
        *([say("leaves.token", host=document.entry_relay.host)] if document.tokens else []),
    ]
