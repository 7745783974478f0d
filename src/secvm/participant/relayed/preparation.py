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

from secvm.crypto.tokens import SEED_BYTES, TokenBatch
from secvm.errors import ConsentRefusedError, RemoteProtocolError, SecVMError, UnreachableError
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Distrust, Preparation
from secvm.participant.relayed.agreement import agree
from secvm.participant.relayed.rounds import RelayedRounds
from secvm.participant.relayed.turns import RelayedTurns
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session import FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS
from secvm.protocol.plain.session_events import Declined
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.session import RequestReady
from secvm.protocol.relays.sending.session_memory import RelayedPhase
from secvm.protocol.relays.sending.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.protocol.schedule import below


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
        issued = await self._around.transport.ask_token(request, manifest.label, relay)
        answer = issued.answer or b""
        self._around.traffic.add(len(request) + len(answer) + OVERHEAD_BYTES, now())
        if issued.answer is None:
            if issued.final:
                raise RemoteProtocolError(f"the entry relay {relay.host} gives this device no token for the round")
            return None
        (token,) = await asyncio.to_thread(batch.tokens, answer, public)
        return token

    def _seed(self, round_number: int) -> bytes:
        state, digest = self._around.state, self._document.digest
        seed = state.tokens.get(digest, round_number)
        if seed is None:
            seed = self._around.random_bytes(SEED_BYTES)
            with state.writing(durable=True):
                state.tokens.put(digest, round_number, seed)
        return seed


class RequestPreparation(Preparation):
    """Prepares the requests of one person in one experiment with two relays."""

    def __init__(
        self,
        around: Surroundings,
        document: ExperimentDocument,
        distrust: Distrust,
        turns: RelayedTurns,
        rounds: RelayedRounds,
        *,
        person: Individual,
        dice: Dice,
        spread_ms: int,
    ) -> None:
        """``spread_ms``: over which moments are spread that nobody shall know a device by."""
        super().__init__(around, document, distrust, person=person, dice=dice)
        self._turns, self._rounds, self._spread = turns, rounds, spread_ms
        self._token = RoundToken(around, document)

    @property
    def anonymous(self) -> bool:
        """Whether a token stands for the device in its request."""
        return self._token.wanted

    def plan(self, now: int) -> None:
        manifest = self._turns.manifest
        self.at = NEVER if manifest is None else self._token.when(manifest, now)

    def _wanted(self, manifest: RelayedManifest) -> bool:
        """Whether the session still wants it: it may be over, or another, since something was asked."""
        session = self._turns.session
        return session.manifest is manifest and session.phase is RelayedPhase.COMPUTING

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
            await agree(around, document, manifest, now)
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
            self._keep_model(self._turns, manifest)
            self._turns.tell(RequestReady(submission), now())
        except UnreachableError as fault:
            self._prepare_later(manifest, str(fault), now())
        except SecVMError as fault:
            # Terms that do not do, a budget that is spent: nothing of the person is in these sentences.
            if self._turns.session.phase is RelayedPhase.COMPUTING:
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
        at = now + below(self._spread, self._around.words)
        if at < manifest.instants.closes_at:
            self.at = at
        else:
            self._turns.tell(Declined(why), now)

    def _bind(self, round_number: int, label: bytes) -> None:
        state = self._around.state
        with state.writing(durable=True):
            if not state.relayed.bind(self._document.digest, round_number, label):
                raise RemoteProtocolError(f"round {round_number} was joined under another manifest before")
