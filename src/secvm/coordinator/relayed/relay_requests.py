"""Asking relays: for their commitments before a round, and for counts and reveals after it (docs/protocol.md §27, §30).

    POST R/commitment        {"experiment": D, "round": T}, with the token that both know each other by
    GET  R/counts/LABEL      what is signed so far, open to everybody

A relay that does not answer, or not with what it should, is asked again later: here that is only told apart from an
answer. What comes is bounded in size and time, and nothing of it is believed before its signature is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadSignatureError, MalformedMessageError, UnreachableError
from secvm.protocol.canonical import encode_document
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.cover.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.public_counts import MAX_SHOWN_BYTES, read_shown
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.runtime.http.client import HttpAnswer, ask_once

#: For one answer, all of it.
ANSWER_S = 10.0
_OK = 200


class Relays(Protocol):
    """The relays of experiments, as the driver knows them."""

    async def commitment(self, relay: Relay, experiment: str, number: int) -> bytes | None:
        """What a relay answers to the request for its commitment; None: nothing."""
        ...

    async def shown(self, relay: Relay, label: bytes) -> dict[str, bytes]:
        """Counts and reveals that a relay shows, by name; none where it does not answer."""
        ...


class AskedRelays:
    """Relays over HTTP. ``tokens``: by the relay's URL, as experiments write it."""

    def __init__(self, tokens: Mapping[str, str], ask: Callable[..., Awaitable[HttpAnswer]] = ask_once) -> None:
        self._ask = ask
        self._tokens = {url.rstrip("/"): token for url, token in tokens.items()}

    def __repr__(self) -> str:
        return f"AskedRelays({len(self._tokens)} with tokens)"

    async def commitment(self, relay: Relay, experiment: str, number: int) -> bytes | None:
        token = self._tokens.get(relay.url.rstrip("/"))
        if token is None:
            return None
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        body = encode_document({"experiment": experiment, "round": number})
        return await self._answer(relay, "commitment", MixCommitment.longest + ENVELOPE_BYTES, headers, body)

    async def shown(self, relay: Relay, label: bytes) -> dict[str, bytes]:
        answer = await self._answer(relay, f"counts/{label.hex()}", MAX_SHOWN_BYTES)
        try:
            return {} if answer is None else read_shown(answer)
        except MalformedMessageError:
            return {}

    async def _answer(
        self,
        relay: Relay,
        path: str,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes | None:
        url = f"{relay.url.rstrip('/')}/{path}"
        method = "GET" if body is None else "POST"
        try:
            found = await self._ask(url, answer_s=ANSWER_S, most=most, method=method, headers=headers, body=body)
        except UnreachableError:
            return None
        return found.content if found.status == _OK and len(found.content) <= most else None


async def ask_commitments(relays: Relays, document: ExperimentDocument, number: int) -> dict[str, bytes | str]:
    """By role, each relay's commitment in its envelope; or, in its place, a word for why there is none."""
    asked = {"entry": document.entry_relay, "mix": document.mix_relay}
    answers = await asyncio.gather(*(relays.commitment(one, document.digest, number) for one in asked.values()))
    return {
        role: _commitment(role, relay.key, answer, (document.digest, number))
        for (role, relay), answer in zip(asked.items(), answers, strict=True)
    }


def _commitment(role: str, key: VerifyKey, answer: bytes | None, wanted: tuple[str, int]) -> bytes | str:
    if answer is None:
        return f"{role}-relay-silent"
    kind: type[EntryCommitment | MixCommitment] = EntryCommitment if role == "entry" else MixCommitment
    try:
        told = kind.read(answer, key)
    except (MalformedMessageError, BadSignatureError):
        return f"{role}-commitment-refused"
    return answer if (told.experiment, told.round_number) == wanted else f"{role}-commitment-refused"
