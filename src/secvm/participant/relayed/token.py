"""A round's one anonymous token (docs/protocol.md §24): asked for before the window opens, spent with the request.

The entry relay learns that this client takes part in a round, and nothing by which the token could be recognised: a
request that then comes over another address is nobody's. Its proof is checked under the key in its commitment, which
stands in the manifest and is the same for everybody: a relay that takes another key for one device gives it nothing
that this device would use.

The seed is on the disk before anything is asked. After a crash the same bytes are asked with, and the same token is
given: so a device never has two for a round. The commit that stores the sealed request forgets the seed.
"""

from __future__ import annotations

import asyncio

from secvm.crypto.tokens import SEED_BYTES, TokenBatch
from secvm.errors import RemoteProtocolError
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session import FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS
from secvm.protocol.relays.manifest import RelayedManifest
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
