"""What a person is told and what their device agrees to, at random: statements, refusals, and a ledger over time."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

from secvm.learning.cover_law import Noise, RelayCover
from secvm.participant.consent import ledger
from secvm.participant.consent.policies import Budget, Consent, Statement, needed_for
from secvm.participant.person import disclosure
from secvm.participant.storage.books import NOTHING, Accepted
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.privacy.sentences import Sentence
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument, publish, read_published
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR
from tests.contract.parity.channel import JSON, or_error
from tests.contract.parity.rounds import draw_document
from tests.effort import scaled
from tests.seeds import seed_for
from tests.unit.participant.test_state import PERSON
from tests.unit.participant.world import real_document

#: Covers with what people tell, of which most experiments have one.
GUARANTEES = scaled(2, 60)
_NAMES = ("Entry e.V.", " entry E.V.", "Mix Ltd.", "STRASSE", "straße", "İ", "The university")
#: What Python's ledger says of experiments without a guarantee, which a browser never joins.
_WITHOUT = ("d_squared", "auc", "auc_budget", "accepted_auc")


def draw_consent(dice: random.Random) -> JSON:
    """A question for both languages."""
    documents = [_document(dice, number) for number in range(dice.choice((1, 1, 2, 3)))]
    spent = dice.choice((0.5, 4.0, 4.0, 9.5))
    return {
        "envelopes": [publish(document, keys=(COORDINATOR,)).hex() for document in documents],
        "consent": {
            "most_epsilon": dice.choice((0.25, 4.0, 4.0, 31.0)),
            "most_rounds": dice.choice((3, 1000)),
            "delta": dice.choice((1e-6, 1e-6, 1 / 3000)),
            "unsafe": dice.random() < 0.1,
            "one_relay": dice.random() < 0.5,
        },
        "budget": {"epsilon": spent, "delta": dice.choice((1e-5, 1.5e-6, 1.0))},
        "accepted": [dice.choice((None, None, 0.3, 2.0, 12.5)) for _ in documents],
        "known": [
            ["https://entry.example/", dice.choice(_NAMES)],
            ["https://mix.example/", dice.choice(_NAMES)],
        ][dice.choice((0, 0, 1, 2)) :],
        # Rounds as they come: now and then one comes again.
        "rounds": [[dice.randrange(len(documents)), dice.randint(1, 3)] for _ in range(dice.randint(0, 6))],
    }


def _document(dice: random.Random, number: int) -> ExperimentDocument:
    if dice.random() < 0.1:
        return replace(_plain(dice), title=f"plain {number}")
    # Guarantees take a second to reckon, and are remembered: most experiments share theirs with others.
    document = _covered(dice) if dice.random() < 0.05 else _shared(dice.randrange(GUARANTEES))
    entry, mix = document.relays
    return replace(
        document,
        title=f"experiment {number}",
        relays=(replace(entry, operator=_operator(dice, 0)), replace(mix, operator=_operator(dice, 2))),
        **_said(dice, document),
    )


@cache
def _shared(which: int) -> ExperimentDocument:
    return _covered(random.Random(seed_for("parity of guarantees", which)))


def _covered(dice: random.Random) -> ExperimentDocument:
    """An experiment with relays' cover."""
    document, _ = draw_document(dice)
    assert document.experiment.cover is not None
    epsilon = dice.choice((Fraction(1), Fraction(7, 3), Fraction(9), Fraction(32)))
    return replace(
        document,
        experiment=replace(document.experiment, cover=_cover(dice, document.experiment.cover)),
        rounds=dice.choice((1, 2, 2, 3, 5, 30)),
        privacy=PrivacyTarget(epsilon, Fraction(1, dice.choice((10**6, 10**6, 10**9, 300)))),
    )


def _plain(dice: random.Random) -> ExperimentDocument:
    document = real_document(rounds=dice.choice((1, 7)))
    relays = document.relays[: dice.randint(0, 1)] or document.relays
    keys = (COORDINATOR.public,)
    return replace(document, relays=relays, coordinator_keys=keys, test=True, **_said(dice, document))


def _said(dice: random.Random, document: ExperimentDocument) -> dict[str, Any]:
    return {
        "floor": dice.choice((1, 3, 1000, 10**6 + 1)),
        "features": replace(document.features, description=dice.choice(("Words.", " Words... ", "Größe"))),
        "windows": replace(document.windows, length_s=dice.choice((1, 7, 60, 600, 3600, 86_400, 5 * 86_400))),
        "operator": dice.choice(("", *_NAMES)),
        "contact": dice.choice(("", "mail@example.org")),
        "purpose": dice.choice(("", "To know.")),
    }


def _operator(dice: random.Random, usual: int) -> str:
    return _NAMES[usual] if dice.random() < 0.6 else dice.choice(_NAMES)


def _cover(dice: random.Random, like: RelayCover) -> RelayCover:
    """As many cells as the other, in most cases with noise that is enough for a guarantee."""
    strong = dice.random() < 0.8

    def noise(cells: int) -> Noise:
        if not strong:
            return Noise(cells=cells, shape=Fraction(dice.randint(1, 9), 2), odds=Fraction(dice.randint(1, 20), 4))
        return Noise(cells=cells, shape=Fraction(dice.randint(60, 600), 3), odds=Fraction(dice.randint(4, 30), 4))

    kinds = [noise(kind.cells) for kind in like.kinds]
    each = math.ceil(sum(kind.cells * kind.part(like.parts) * kind.odds for kind in kinds))
    # With little room a part overflows now and then, which is a δ of its own.
    packages = like.parts * (each + (1 if dice.random() < 0.1 else math.ceil(8 * math.sqrt(each * 30)) + 50))
    test = None if like.test is None else kinds[2]
    return replace(like, train=kinds[0], participation=kinds[1], test=test, packages=packages)


# ── Python's answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def answer_consent(question: JSON) -> JSON:
    """What Python's device says and counts."""
    consent = Consent(**question["consent"], budget=Budget(**question["budget"]))
    policy = TrustPolicy(relays=tuple(TrustedRelay(url=url, operator=name) for url, name in question["known"]))
    with tempfile.TemporaryDirectory() as folder:
        state = DeviceState(Path(folder) / "device")
        try:
            return _answer(question, consent, policy, state)
        finally:
            state.close()


def _answer(question: JSON, consent: Consent, policy: TrustPolicy, state: DeviceState) -> JSON:
    envelopes = [bytes.fromhex(envelope) for envelope in question["envelopes"]]
    documents = [read_published(envelope) for envelope in envelopes]
    accepted = [Accepted(epsilon=epsilon) for epsilon in question["accepted"]]
    told = [_told(document, consent, policy, own) for document, own in zip(documents, accepted, strict=True)]
    for document, envelope, own in zip(documents, envelopes, accepted, strict=True):
        if document.experiment.cover is not None:
            state.join(document.digest, envelope, PERSON, accepted=own)
    counted = [
        or_error(partial(ledger.enter, state, documents[which], number, consent))
        for which, number in question["rounds"]
        if documents[which].experiment.cover is not None
    ]
    rooms = [
        or_error(partial(ledger.check_room, state, document, consent, own))
        for document, own in zip(documents, accepted, strict=True)
        if document.experiment.cover is not None and state.ledger.rounds().get(document.digest) is None
    ]
    spent = ledger.read_ledger(state, consent)
    return {
        "told": told,
        "counted": counted,
        "rooms": rooms,
        "rounds": sorted(state.ledger.rounds().items()),
        "ledger": _without(spent.content(consent)),
        "risks": [[entry.risk, entry.variation] for entry in spent.spendings],
        "words": _contents(ledger.in_words(spent)),
        "figures": _contents(ledger.figures(spent, consent)),
    }


def _told(document: ExperimentDocument, consent: Consent, policy: TrustPolicy, accepted: Accepted) -> JSON:
    statement = consent.statement(document)
    relayed = isinstance(statement, RelayedStatement)
    told: JSON = {
        "who": _contents(disclosure.who_asks(document)),
        "chosen": disclosure.chosen_relays(document).content(),
        "short": _contents(disclosure.in_short(document, statement)),
        "leaves": _contents(disclosure.what_leaves(document, statement, policy)),
        "figures": [
            # The law's corrections are for whoever could join.
            said
            for said in _contents(disclosure.figures(document, statement))
            if said["key"] != "figures.corrected"
        ],
    }
    if relayed:
        told["statement"] = statement.content()
        told["needed"] = _needed(statement)
    return told | _verdicts(document, consent, statement, accepted, relayed=relayed)


def _verdicts(
    document: ExperimentDocument, consent: Consent, statement: Statement, accepted: Accepted, *, relayed: bool
) -> JSON:
    if not relayed:
        # Whatever its person says: a browser joins none of them.
        return {"check": or_error(partial(replace(consent, unsafe=False).check, document))}
    return {
        "check": or_error(partial(consent.check, document)),
        "accepted": or_error(partial(consent.check, document, accepted)),
        "weighed": or_error(partial(consent.weigh, statement, NOTHING)),
    }


def _needed(statement: Statement) -> JSON | None:
    needed = needed_for(statement)
    return None if needed is None or needed.epsilon is None else {"auc": None, "epsilon": needed.epsilon}


def _without(content: JSON) -> JSON:
    kept = {name: value for name, value in content.items() if name not in _WITHOUT}
    return kept | {"experiments": [{k: v for k, v in e.items() if k not in _WITHOUT} for e in content["experiments"]]}


def _contents(sentences: list[Any]) -> list[JSON]:
    """As a page is given them: JSON has no ∞."""
    contents = [sentence.content() for sentence in sentences if isinstance(sentence, Sentence)]
    return [
        said | {"values": {k: None if v == math.inf else v for k, v in said["values"].items()}} for said in contents
    ]
