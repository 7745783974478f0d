"""Whether a device takes part in a round with two relays: what both have signed, and its person's limits.

Asked before every round, and before a person joins, with nothing of the person at hand: only documents, the relays'
terms, counts of traffic, and the ledger.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from secvm.errors import ConsentRefusedError
from secvm.participant.consent.ledger import entries, spend
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.trust.polling import opens_in_hours
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.counting.cells import Cells
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.terms import RelayedTerms

#: Many devices of one process want the same numbers: one computes, the others find them.
_ONE_AT_A_TIME = threading.Lock()
_MILLION = 1_000_000
AskTerms = Callable[[Relay], Awaitable[RelayedTerms | None]]


async def agree(around: Surroundings, document: ExperimentDocument, manifest: RelayedManifest, now: Now) -> None:
    """Return if this device may take part in the round, as far as can be said before it is entered in the ledger.

    Raises
    ------
    ConsentRefusedError
        Why not, in one sentence.
    UnreachableError
        One of the relays does not answer; it may in a moment.
    """
    consent, ledger = around.consent, around.state.ledger
    # Asked again, because the settings may be others than when the person joined.
    policy = around.policy
    why = policy.unknown_relay(document) or policy.one_hand(document) or _untimely(around, document, manifest)
    if why is None and not around.traffic.allows(bytes_of_a_round(document), now()):
        why = "this round would go beyond the device's limit of traffic for a day"
    if why is None:
        why = await terms_against(
            document, lambda relay: around.checks.relay_terms(relay, manifest.label, around.transport)
        )
    if why is not None:
        raise ConsentRefusedError(why)
    if consent.unsafe:
        return
    accepted, lines = ledger.accepted(document.digest), entries(around.state, also=document.digest)

    def think() -> None:
        with _ONE_AT_A_TIME:
            consent.check(document, accepted)
            # Looked at again when the round is entered; by then the numbers are there.
            spend(lines, consent)

    # A guarantee's numbers take seconds, in which requests of other experiments may be due.
    await asyncio.to_thread(think)


def _untimely(around: Surroundings, document: ExperimentDocument, manifest: RelayedManifest) -> str | None:
    if document.log is None and not (document.test or around.policy.without_log):
        return "the experiment has no log, so nobody can tell whether everybody is told the same"
    if not opens_in_hours(document.windows, manifest.instants.opens_at):
        return "the window opens outside the experiment's hours of the day"
    return None


async def terms_against(document: ExperimentDocument, ask: AskTerms) -> str | None:
    """Why the terms of the experiment's relays do not allow it, in one sentence; None: both have signed enough.
    ``ask`` is ``Transport.relayed_terms``, or somebody who remembers what that said.

    Raises ``UnreachableError`` where one of them does not answer.
    """
    for relay in (document.entry_relay, document.mix_relay):
        why = term_against(document, relay, await ask(relay))
        if why is not None:
            return why
    return None


def term_against(document: ExperimentDocument, relay: Relay, terms: RelayedTerms | None) -> str | None:
    """Why the terms of one of them do not; its signature was checked."""
    who = f"the {relay.role} relay {relay.host}"
    if terms is None:
        return f"{who} has not signed, with the key that the experiment names, what it takes on"
    if (terms.url, terms.operator, terms.role) != (relay.url, relay.operator, relay.role):
        return (
            f"{who} has signed terms for {terms.url} as {terms.role} relay of {terms.operator}, and the experiment"
            f" names {relay.url} of {relay.operator}"
        )
    cover, times = document.relay_cover, document.relay_times
    people = -(-document.floor * document.train_share.denominator // document.train_share.numerator)
    handed_on = document.budget * people + cover.packages
    # Both relays seal D; the mixing relay opens what the entry relay hands on as well.
    work, within = (
        (cover.packages, times.batch_s) if relay.role == "entry" else (cover.packages + handed_on, times.mix_s)
    )
    needed = {
        "cells": (Cells.of(document.experiment).count, terms.cells),
        "packages of cover": (cover.packages, terms.packages),
        f"capsules of {people} devices and cover": (handed_on, terms.capsules),
        "seconds for its step": (-(-work * terms.seconds_per_million // _MILLION), within),
    }
    for what, (wanted, most) in needed.items():
        if wanted > most:
            return f"{who} takes on {most:,} {what} at most, and a round of this experiment needs {wanted:,}"
    return None
