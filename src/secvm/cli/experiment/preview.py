"""What a specification would become, before anything is published: its plan, what can be learnt, and who would join.

Whether a device joins is asked of the device's own code (``participant.person.decisions``), about the document that the
coordinator would sign: its draft. Without a coordinator the draft is made here, with stand-ins for what only a
coordinator knows (keys, log, time), none of which a device's consent looks at.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from secvm.cli.output import note
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import (
    NewestPulse,
    check_asker,
    make_document,
    operators_of,
    plain_experiment,
    plain_rounds,
    private_plan,
)
from secvm.coordinator.experiments.specification import Specification
from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.dashboard.plan import CAVEAT, accuracy_table
from secvm.errors import BadInputError, SecVMError
from secvm.learning.arithmetic import exact
from secvm.participant.consent.ledger import spend
from secvm.participant.consent.policies import Consent, Statement
from secvm.participant.dice import safe_dice
from secvm.participant.person import decisions
from secvm.participant.relayed.preparation import terms_against
from secvm.participant.sending.transport import Transport, open_transport
from secvm.participant.storage.books import NOTHING
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.privacy.planning.accuracy_cost import ExpectedCost
from secvm.privacy.planning.planner import cost_of_plan, expected_cost
from secvm.privacy.planning.private_plan import PrivatePlan, plan_lines
from secvm.privacy.statements.plain import PrivacyStatement
from secvm.privacy.statements.plain import words as plain_words
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import words
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.policy import LogTerms, Witness
from secvm.runtime.clock import SystemClock
from secvm.runtime.settings import parse_settings

#: The coordinator's draft of a specification, and its remarks.
AskDraft = Callable[[], tuple[ExperimentDocument, list[str]]]


@dataclass(frozen=True, slots=True)
class Preview:
    """An experiment that nobody has published."""

    document: ExperimentDocument
    #: ``privacy.risk``: how often somebody who bets on a person's answer would be right, from 0.5 to 1.
    risk: float
    #: The plan of its guarantee as JSON; None: it asks for none.
    plan: dict[str, Any] | None
    cost: ExpectedCost | None
    #: Why a device with default consent would not join; none: it would.
    refusals: tuple[str, ...]
    #: All of it, for a terminal.
    lines: tuple[str, ...]

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys."""
        return {
            "risk": self.risk,
            "plan": self.plan,
            "accuracy": None if self.cost is None else self.cost.content(),
            "devices": {"join": not self.refusals, "why_not": list(self.refusals)},
        }


def look_ahead(content: dict[str, Any], ask_draft: AskDraft | None = None) -> Preview:
    """Plan it, and ask whether devices would join. ``ask_draft`` asks a coordinator; then its relays are asked for
    their terms too. None: nobody is asked. Takes seconds.
    """
    spec = parse_settings(json.dumps(content, default=str).encode(), Specification, "the specification")
    if ask_draft is not None:
        check_asker(spec)
    if spec.privacy is not None:
        note("planning two relays' cover …")
    made = private_plan(spec)
    document, remarks = (_own_draft(spec, made), []) if ask_draft is None else ask_draft()
    refusals = why_refused(document, people=spec.people, ask_relays=ask_draft is not None)
    cost, plan, lines = _cost(spec, made), None, list[str]()
    statement: Statement
    if made is None:
        plain = Consent().statement(document)
        assert isinstance(plain, PrivacyStatement), "it has no cover"
        statement, sentences = plain, plain_words(plain)
    else:
        statement = relayed = made.statement(operators_of(spec), floor=spec.floor, bytes_per_package=OUTER_BYTES)
        plan = made.content(relayed)
        # By the code of devices, which know the document alone: their numbers are those of its floor.
        shown = Consent().statement(document)
        assert isinstance(shown, RelayedStatement), "it has cover"
        sentences = words(shown)
        lines = plan_lines(plan)
    if cost is not None:
        lines.append(f"accuracy    {cost.sentence}{f' {CAVEAT}' if cost.is_forecast else ''}")
    # What the coordinator remarks of a plan stands in it already.
    remarks = [remark for remark in remarks if not any(remark in line for line in lines)]
    lines += [
        "",
        "devices will say (for the fewest people from whom a step is taken):",
        *(f"  {sentence}" for sentence in sentences),
        *remarks,
    ]
    lines += ["", f"devices: {_verdict(document, refusals)}"]
    return Preview(document, statement.risk, plan, cost, tuple(refusals), tuple(lines))


def _verdict(document: ExperimentDocument, refusals: Sequence[str]) -> str:
    device = "a device for tests" if document.test else "a device with default consent"
    if refusals:
        return f"{device} refuses, because {'; and '.join(refusals)}"
    joins = "joins" if document.experiment.cover is None else "joins, if its settings name both relays"
    return f"{device} {joins}" + ("; one with somebody's own data refuses every test" if document.test else "")


def _cost(spec: Specification, made: PrivatePlan | None) -> ExpectedCost | None:
    if made is not None:
        return None if made.experiment.loss.regression else cost_of_plan(made, accuracy_table())[0]
    experiment = plain_experiment(spec)
    if spec.people is None or experiment.loss.regression:
        return None
    people = float(spec.people * exact(spec.train_share))
    hashes = spec.binning.hashes
    return expected_cost(experiment, accuracy_table(), people=people, rounds=plain_rounds(spec), hashes=hashes)[0]


def _own_draft(spec: Specification, made: PrivatePlan | None) -> ExperimentDocument:
    """The document that a coordinator with a log, and with slots that fit, would make."""
    now, windows = SystemClock().now(), spec.windows
    key, log_key, witness_key = (VerifyKey(number.to_bytes(PUBLIC_KEY_BYTES, "little")) for number in (2, 3, 4))
    witness = Witness(name="witness.example", key=witness_key)
    # Who plans need not know yet who asks.
    asker = {name: getattr(spec, name) or "nobody yet" for name in ("operator", "contact", "purpose")}
    document, _ = make_document(
        spec.model_copy(update=asker),
        key=key,
        grid=Grid(period_s=max(1, windows.length_s + windows.grace_s), lead_s=0),
        dice=bytes,
        now=now,
        log=LogTerms(name="coordinator.example", key=log_key, witnesses=(witness,), quorum=1, freshness_s=3600),
        newest=NewestPulse(1, now),
        plan=made,
    )
    return document


def why_refused(document: ExperimentDocument, *, people: int | None = None, ask_relays: bool = False) -> list[str]:
    """All reasons for which a device with default consent would not join, or would stop before the last round; none: it
    takes part to the end. Its settings name the experiment's relays, and it is for tests where the experiment is one.
    ``people``: devices that are expected in a round.
    """
    relays = tuple(TrustedRelay(url=relay.url, key=relay.key, operator=relay.operator) for relay in document.relays)
    # Devices fetch through relays of their own settings; where the experiment names none, that is told below.
    ways = [relay.url for relay in relays] or ["https://relay.example"]
    transport, consent = open_transport(ways, os.urandom, credential=None), Consent()
    way = decisions.Way(transport, TrustPolicy(relays=relays), safe_dice(os.urandom), consent, only_tests=document.test)

    def ask_terms() -> None:
        if ask_relays and document.experiment.cover is not None:
            why = asyncio.run(_terms_against(document, transport, people))
            if why is not None:
                raise BadInputError(why)

    def agree() -> None:
        consent.check(document)
        why = spend([(document, document.rounds, NOTHING)], consent).fits(consent, document.digest)
        if why is not None:
            raise BadInputError(f"in its last round {why}")

    checks: list[Callable[[], None]] = [
        partial(decisions.check_way, document, way),
        partial(decisions.check_data, document, way),
        partial(way.policy.check, document),
        agree,
        ask_terms,
    ]
    reasons = []
    for check in checks:
        try:
            check()
        except SecVMError as fault:
            reasons.append(str(fault))
    return reasons


async def _terms_against(document: ExperimentDocument, transport: Transport, people: int | None) -> str | None:
    try:
        return await terms_against(document, transport.relayed_terms, people=people)
    finally:
        await transport.close()
