"""Tokens of two real relays: devices' own transport asks for one and spends it, and somebody has bad ideas."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from secvm.crypto.tokens import TOKEN_BYTES, TokenBatch
from secvm.participant.sending.transport import RelayTransport
from secvm.protocol.relays.counts import EntryCount
from secvm.protocol.relays.submission import Receipt
from secvm.runtime.http.client import HttpClient
from tests.system.test_two_relays import CLIENTS, World, check_outcome, play_to_the_end, world


async def token_of(made: World, transport: RelayTransport, seed: int) -> bytes:
    """A client's token, as a device asks for it."""
    assert made.manifest is not None
    public = made.manifest.entry_commitment.tokens
    assert public is not None
    batch = TokenBatch(bytes([seed]) * 32, 1)
    first, again = [
        await transport.ask_token(batch.request(public), made.label, made.document.entry_relay) for _ in range(2)
    ]
    assert first.content is not None
    assert first.content == again.content, "the same request again is free"
    return batch.tokens(first.content, public)[0]


async def mallory(made: World, transport: RelayTransport, seed: int, honest: bytes) -> None:
    """A client like any other, with one credential, who wants to count for more."""
    assert made.manifest is not None
    relay, label, public = made.document.entry_relay, made.label, made.manifest.entry_commitment.tokens
    assert public is not None
    more = await transport.ask_token(TokenBatch(b"n" * 32, 1).request(public), label, relay)
    assert more.final, "one token for each client"
    elsewhere = await transport.ask_token(TokenBatch(b"n" * 32, 1).request(public), bytes(32), relay)
    assert (elsewhere.content, elsewhere.final) == (None, False), "a label that the relay does not know yet"
    for token in (bytes(TOKEN_BYTES), os.urandom(TOKEN_BYTES), honest):
        # None, made up, and used before by another request.
        told = await transport.submit(token + made.body(seed), label, relay, anonymous=True)
        assert (told.content, told.final) == (None, True)
    told = await transport.submit(made.body(seed), label, relay)
    assert (told.content, told.final) == (None, True), "a credential is no token"


def test_a_round_with_tokens_counts_each_client_once_and_asks_nobody_s_name(tmp_path: Path) -> None:
    async def main() -> None:
        # Known by credential: a submission without one is taken all the same, because it has a token.
        async with world(tmp_path, tokens=True, clients={"known_by": "credential"}) as made:
            for role in ("entry", "mix"):
                made.start(role)
            await made.announce()
            for role in ("entry", "mix"):
                await made.hear(role, "step", stage="named")
            relay = made.document.entry_relay
            plain = RelayTransport(HttpClient(connections=1), [relay.url], os.urandom)
            tokens = [await token_of(made, plain.for_client(f"client {client}"), client) for client in range(CLIENTS)]
            made.go_to(made.instants.opens_at)
            for client, token in enumerate(tokens):
                body = token + made.body(client)
                first = await plain.submit(body, made.label, relay, anonymous=True)
                assert first.content is not None
                assert Receipt.read(first.content, relay.key).capsules == made.document.budget
                # The same capsules again need no token that is true.
                again = bytes(TOKEN_BYTES) + made.body(client)
                assert (await plain.submit(again, made.label, relay, anonymous=True)).content == first.content
            await mallory(made, plain.for_client("client 0"), CLIENTS, tokens[0])
            papers = await play_to_the_end(made)
            check_outcome(made, papers)
            assert EntryCount.enclosed(papers["entry_count"]).clients == CLIENTS
            await plain.close()

    asyncio.run(main())
