"""What comes before a round's request is sealed: relays and person agree to it, and a token is asked for.

What the device decides here rests on public facts: a round that is declined is declined in one sentence.

**The token.** A round's one anonymous token (docs/protocol.md §24) is asked for before the window opens, and spent with
the request. The entry relay learns that this client takes part in a round, and nothing by which the token could be
recognised: a request that then comes over another address is nobody's. Its proof is checked under the key in its
commitment, which stands in the manifest and is the same for everybody: a relay that takes another key for one device
gives it nothing that this device would use.

The seed is on the disk before anything is asked. After a crash the same bytes are asked with, and the same token is
given: so a device never has two for a round. The commit that stores the sealed request forgets the seed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from secvm.crypto.tokens import SEED_BYTES, TokenBatch
from secvm.errors import ConsentRefusedError, RemoteProtocolError
from secvm.participant.consent.ledger import entries, spend
from secvm.participant.relayed.refusals import Refusals
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.plain.session_memory import FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS
from secvm.protocol.relays.counting import Cells
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.schedule import below

#: Many devices of one process want the same numbers: one computes, the others find them.
_ONE_AT_A_TIME = threading.Lock()
_MILLION = 1_000_000
AskTerms = Callable[[Relay], Awaitable[RelayedTerms | None]]


class RoundToken:
    """The tokens of one experiment on one device, a round at a time."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, refusals: Refusals) -> None:
        self._around, self._document, self._refusals = around, document, refusals
        #: The round that was asked for last, and how often in vain.
        self._tries = (0, 0)

    def __repr__(self) -> str:
        return "RoundToken(...)"

    def when(self, manifest: RelayedManifest, now: int) -> int:
        """When to ask first: at a random moment of the first half of what is left before the window opens."""
        if not self._document.tokens:
            return now
        return now + below(max(1, (manifest.instants.opens_at - now) // 2), self._around.words)

    def again(self, manifest: RelayedManifest, now: int) -> int | None:
        """When to ask again, after it was put off: a random time that doubles with each attempt; None: not in this
        round.
        """
        relay, refusals = self._document.entry_relay, self._refusals
        if refusals.is_silent(relay, manifest):
            return None
        if refusals.is_refused(relay, manifest):
            return now + 1 + refusals.wait(manifest, now)
        number, tries = self._tries
        self._tries = (manifest.round_number, 1 + (tries if number == manifest.round_number else 0))
        patience = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(self._tries[1] - 1, 20))
        return now + 1 + below(patience, self._around.words)

    async def ask(self, manifest: RelayedManifest, now: Now) -> bytes | None:
        """The round's token, empty where the experiment has none; None where nobody answered, or asked to wait.

        Raises
        ------
        RemoteProtocolError
            The relay gives this device none, or what it gives is none.
        """
        if not self._document.tokens:
            return b""
        public = manifest.entry_commitment.tokens or b""
        batch = TokenBatch(self._seed(manifest.round_number), 1)
        # In a thread: some milliseconds.
        request = await asyncio.to_thread(batch.request, public)
        relay = self._document.entry_relay
        reply = await self._around.transport.ask_token(request, manifest.label, relay)
        self._refusals.heard(relay, manifest, answered=reply.answered)
        self._around.traffic.add(len(request) + len(reply.content or b"") + OVERHEAD_BYTES, now())
        if reply.content is None:
            if reply.final:
                raise RemoteProtocolError(f"the entry relay {relay.host} gives this device no token for the round")
            return None
        (token,) = await asyncio.to_thread(batch.tokens, reply.content, public)
        return token

    def _seed(self, round_number: int) -> bytes:
        state, digest = self._around.state, self._document.digest
        seed = state.relayed.token_seed(digest, round_number)
        if seed is None:
            seed = self._around.random_bytes(SEED_BYTES)
            with state.writing(durable=True):
                state.relayed.put_token_seed(digest, round_number, seed)
        return seed


async def agree(around: Surroundings, document: ExperimentDocument, untimely: str | None, ask_terms: AskTerms) -> None:
    """Return if this device may take part in the round, as far as can be said before it is entered in the ledger:
    what both relays have signed, and its person's limits. Nothing of the person is looked at. ``untimely``: why not, by
    the round's time.

    Raises
    ------
    ConsentRefusedError
        Why not, in one sentence.
    UnreachableError
        One of the relays does not answer; it may in a moment.
    """
    consent, policy, state = around.consent, around.policy, around.state
    # Asked again, because the settings may be others than when the person joined.
    why = policy.unknown_relay(document) or policy.one_hand(document)
    if why is None and document.log is None and not (document.test or policy.without_log):
        why = "the experiment has no log, so nobody can tell whether everybody is told the same"
    why = why or untimely
    if why is None:
        why = await terms_against(document, ask_terms)
    if why is not None:
        raise ConsentRefusedError(why)
    if consent.unsafe:
        return
    accepted, lines = state.ledger.accepted(document.digest), entries(state, also=document.digest)

    def think() -> None:
        with _ONE_AT_A_TIME:
            consent.check(document, accepted)
            # Looked at again when the round is entered; by then the numbers are there.
            spend(lines, consent)

    # A guarantee's numbers take seconds, in which requests of other experiments may be due.
    await asyncio.to_thread(think)


def bind(state: DeviceState, document: ExperimentDocument, manifest: RelayedManifest) -> None:
    """Take the manifest's label for its round, durably and for ever; raise ``RemoteProtocolError`` where the round has
    another one.
    """
    number = manifest.round_number
    with state.writing(durable=True):
        if not state.relayed.bind(document.digest, number, manifest.label):
            raise RemoteProtocolError(f"round {number} was joined under another manifest before")


async def terms_against(document: ExperimentDocument, ask: AskTerms, *, people: int | None = None) -> str | None:
    """Why the terms of the experiment's relays do not allow it, in one sentence; None: both have signed enough.
    ``ask`` is ``Transport.relayed_terms``, or somebody who remembers what that said. ``people``: devices in a round;
    None: as many as the floor takes, which is all that a device knows.

    Raises ``UnreachableError`` where one of them does not answer.
    """
    for relay in (document.entry_relay, document.mix_relay):
        why = term_against(document, relay, await ask(relay), people=people)
        if why is not None:
            return why
    return None


def term_against(
    document: ExperimentDocument, relay: Relay, terms: RelayedTerms | None, *, people: int | None = None
) -> str | None:
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
    people = people or -(-document.floor * document.train_share.denominator // document.train_share.numerator)
    handed_on = document.budget * people + cover.packages
    # Both relays seal D; the mixing relay opens what the entry relay hands on as well.
    work, within = (
        (cover.packages, times.batch_s) if relay.role == "entry" else (cover.packages + handed_on, times.mix_s)
    )
    needed = {
        "cells": (Cells.of(document.experiment).count, terms.cells),
        "packages of cover": (cover.packages, terms.packages),
        f"capsules of {people:,} devices and cover": (handed_on, terms.capsules),
        "seconds for its step": (-(-work * terms.seconds_per_million // _MILLION), within),
    }
    for what, (wanted, most) in needed.items():
        if wanted > most:
            return f"{who} takes on {most:,} {what} at most, and a round of this experiment needs {wanted:,}"
    return None
