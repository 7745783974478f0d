"""A round's request: computed and sealed, once relays and person agree to it.

In this order, each durably: the round's one label and its place in the ledger; the sealed request with its canary. What
the device decides meanwhile rests on public facts: a round that is declined is declined in one sentence.

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
from dataclasses import dataclass, field

from secvm.crypto.tokens import SEED_BYTES, TokenBatch
from secvm.errors import ConsentRefusedError, RemoteProtocolError, SecVMError, UnreachableError
from secvm.participant.consent.ledger import entries, spend
from secvm.participant.membership import Preparation, spread_ms
from secvm.participant.relayed.rounds import RelayedRounds
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.participant.turns import Turns
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.plain.session import FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS
from secvm.protocol.plain.session_events import Declined
from secvm.protocol.plain.session_memory import NEVER, Phase
from secvm.protocol.relays.counting import Cells
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.session import RelayedSession, RequestReady, SendRequest
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.protocol.schedule import below

#: Many devices of one process want the same numbers: one computes, the others find them.
_ONE_AT_A_TIME = threading.Lock()
_MILLION = 1_000_000
AskTerms = Callable[[Relay], Awaitable[RelayedTerms | None]]


class RoundToken:
    """The tokens of one experiment on one device, a round at a time."""

    def __init__(self, around: Surroundings, document: ExperimentDocument) -> None:
        self._around, self._document = around, document
        #: The round that was asked for last, and how often in vain.
        self._tries = (0, 0)

    def __repr__(self) -> str:
        return "RoundToken(...)"

    @property
    def wanted(self) -> bool:
        """Whether the experiment has tokens."""
        return self._document.tokens

    def when(self, manifest: RelayedManifest, now: int) -> int:
        """When to ask first: at a random moment of the first half of what is left before the window opens."""
        if not self.wanted:
            return now
        return now + below(max(1, (manifest.instants.opens_at - now) // 2), self._around.words)

    def again(self, manifest: RelayedManifest, now: int) -> int:
        """When to ask again, after nobody answered: a random time that doubles with each attempt."""
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
        if not self.wanted:
            return b""
        public = manifest.entry_commitment.tokens or b""
        batch = TokenBatch(self._seed(manifest.round_number), 1)
        # In a thread: some milliseconds.
        request = await asyncio.to_thread(batch.request, public)
        relay = self._document.entry_relay
        reply = await self._around.transport.ask_token(request, manifest.label, relay)
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


@dataclass(eq=False, repr=False)
class RequestPreparation(Preparation):
    """Prepares the requests of one person in one experiment with two relays."""

    _turns: Turns[RelayedSession, SendRequest]
    _rounds: RelayedRounds
    _token: RoundToken = field(init=False)

    def __post_init__(self) -> None:
        self._token = RoundToken(self._around, self._document)

    @property
    def anonymous(self) -> bool:
        """Whether a token stands for the device in its request."""
        return self._token.wanted

    def plan(self, now: int) -> None:
        manifest = self._turns.session.manifest
        self.at = NEVER if manifest is None else self._token.when(manifest, now)

    def _wanted(self, manifest: RelayedManifest) -> bool:
        """Whether the session still wants it: it may be over, or another, since something was asked."""
        session = self._turns.session
        return session.manifest is manifest and session.phase is Phase.COMPUTING

    async def _agree(self, manifest: RelayedManifest, now: Now) -> None:
        """Return if this device may take part in the round, as far as can be said before it is entered in the ledger:
        what both relays have signed, and its person's limits. Nothing of the person is looked at.

        Raises
        ------
        ConsentRefusedError
            Why not, in one sentence.
        UnreachableError
            One of the relays does not answer; it may in a moment.
        """
        around, document = self._around, self._document
        consent, policy, state = around.consent, around.policy, around.state
        # Asked again, because the settings may be others than when the person joined.
        why = policy.unknown_relay(document) or policy.one_hand(document)
        if why is None and document.log is None and not (document.test or policy.without_log):
            why = "the experiment has no log, so nobody can tell whether everybody is told the same"
        why = why or self._untimely(manifest.instants.opens_at, now())
        if why is None:
            why = await terms_against(
                document, lambda relay: around.checks.relay_terms(relay, manifest.label, around.transport)
            )
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

    async def prepare(self, now: Now) -> bool:
        manifest, around, document = self._turns.session.manifest, self._around, self._document
        self.at = NEVER
        if manifest is None or not self._wanted(manifest):
            return False
        if self._distrust.why is not None:
            self._turns.tell(Declined(self._distrust.why), now())
            return False
        # Where each package goes, the canary too, before anything of the person is looked at.
        order = draw_order(document.budget, around.words)
        try:
            await self._agree(manifest, now)
            token = await self._token.ask(manifest, now)
            model = self._rounds.model()
            why = next(filter(None, map(around.policy.caps.refuses, (model.training, model.evaluation))), None)
            if self._turns.left or not self._wanted(manifest):
                return False
            if why is not None:
                raise ConsentRefusedError(why)
            if token is None:
                # Asked again, with the same bytes, until the window closes.
                self.at = self._token.again(manifest, now())
                return False
            self._bind(manifest.round_number, manifest.label)
            packages = self._contribute(manifest.round_number, model.training, model.evaluation)
            secrets = around.random_bytes(SECRETS_BYTES * document.budget)
            submission = seal_submission(
                document, manifest, packages, order=order, ephemerals=secrets, token=token, sealer=around.sealer
            )
            self._keep_model(manifest)
            self._turns.tell(RequestReady(submission), now())
        except UnreachableError as fault:
            self._prepare_later(manifest, str(fault), now())
        except SecVMError as fault:
            # Terms that do not do, a budget that is spent: nothing of the person is in these sentences.
            if self._turns.session.phase is Phase.COMPUTING:
                self._turns.tell(Declined(str(fault)), now())
        else:
            return True
        return False

    def _prepare_later(self, manifest: RelayedManifest, why: str, now: int) -> None:
        """A relay that is away for a moment costs nobody a round: it is asked again as long as the window is not over,
        each time after a random while.
        """
        if not self._wanted(manifest):
            return
        at = now + below(spread_ms(self._document.windows), self._around.words)
        if at < manifest.instants.closes_at:
            self.at = at
        else:
            self._turns.tell(Declined(why), now)

    def _bind(self, round_number: int, label: bytes) -> None:
        state = self._around.state
        with state.writing(durable=True):
            if not state.relayed.bind(self._document.digest, round_number, label):
                raise RemoteProtocolError(f"round {round_number} was joined under another manifest before")


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
