"""Asking for a round's anonymous tokens (docs/protocol.md §24): all B at once, before the window opens.

The issuer learns that this client takes part in a round, which it would see from the capsules as well, and nothing by
which a token could be recognised. Its proof is checked under the key in the manifest, which is the same for everybody:
an issuer that takes another key for one device gives it nothing that this device would use.
"""

from __future__ import annotations

import asyncio

from secvm.crypto.tokens import SEED_BYTES, TokenBatch
from secvm.errors import RemoteProtocolError
from secvm.participant.surroundings import Now, Surroundings
from secvm.participant.transport import OVERHEAD_BYTES
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.schedule import below
from secvm.protocol.tokens import TokenTerms


class TokenAsking:
    """The tokens of one experiment on one device."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, terms: TokenTerms) -> None:
        self._around, self._document, self._terms = around, document, terms
        #: The round that was asked for last, and its batch: blinding is most of the work.
        self._batch: tuple[int, TokenBatch] | None = None

    def __repr__(self) -> str:
        return "TokenAsking(...)"

    def when(self, manifest: RoundManifest, now: int) -> int:
        """When to ask: at a random moment of the first half of what is left before the window opens."""
        return now + below(max(1, (manifest.opens_at - now) // 2), self._around.words)

    async def ask(self, manifest: RoundManifest, now: Now) -> tuple[bytes, ...] | None:
        """The round's tokens; None where nobody answered, or asked to wait.

        Raises
        ------
        RemoteProtocolError
            The issuer gives this device none, or what it gives are none.
        """
        public = manifest.token_key or b""
        batch = self._batch_of(manifest.round_number)
        # In a thread: some milliseconds for each token.
        request = await asyncio.to_thread(batch.request, public)
        issued = await self._around.transport.ask_issuer(self._terms.issuer, request)
        answer = issued.answer or b""
        self._around.traffic.add(len(request) + len(answer) + OVERHEAD_BYTES, now())
        if issued.answer is None:
            if issued.final:
                raise RemoteProtocolError("the issuer gives this device no tokens for the round")
            return None
        return tuple(await asyncio.to_thread(batch.tokens, answer, public))

    def _batch_of(self, round_number: int) -> TokenBatch:
        if self._batch is not None and self._batch[0] == round_number:
            return self._batch[1]
        state, digest = self._around.state, self._document.digest
        seed = state.tokens.get(digest, round_number)
        if seed is None:
            seed = self._around.random_bytes(SEED_BYTES)
            with state.writing(durable=True):
                state.tokens.put(digest, round_number, seed)
        batch = TokenBatch(seed, self._document.budget)
        self._batch = (round_number, batch)
        return batch
