"""Handing a batch on: announced by its count, sent piece by piece, and done when the next one says so (§30).

Whatever was interrupted is taken up where it stopped: the next one says which pieces it has. Nothing is remembered here
but what the round itself keeps.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from secvm.crypto.signing import SigningKey
from secvm.protocol.relays.batches.pieces import FIELD, MEDIA_TYPE, piece_count, ticket_for
from secvm.relay.batches.rounds import BatchRound
from secvm.runtime.http.messages import HttpResponse

ENVELOPE_MEDIA_TYPE = "application/octet-stream"

#: Puts content at a URL, with these header fields; the answer, also where it is that nobody answers.
Put = Callable[[str, bytes, Mapping[str, str]], Awaitable[HttpResponse]]
#: Told after each thing that the next one has taken: "announced", "piece", "taken".
Told = Callable[[str], Awaitable[None]]


async def hand_on(batch: BatchRound[Any], url: str, key: SigningKey, put: Put, report: Told) -> bool:
    """Whether the next one, at this URL, has the whole batch, durably."""
    count, place = batch.count, f"{url}/batch/{batch.plan.label.hex()}"
    if count is None:
        return False
    announced = await put(f"{place}/count", count, {"content-type": ENVELOPE_MEDIA_TYPE})
    if announced.status == 202:
        await report("announced")
        have = read_have(announced.body)
        for index in range(piece_count(batch.capsules)):
            if index in have:
                continue
            data = await asyncio.to_thread(batch.piece, index)
            ticket = base64.b64encode(ticket_for(batch.plan.label, index, data).signed(key)).decode()
            answer = await put(f"{place}/{index}", data, {"content-type": MEDIA_TYPE, FIELD: ticket})
            if answer.status != 200:
                return False
            await report("piece")
        announced = await put(f"{place}/count", count, {"content-type": ENVELOPE_MEDIA_TYPE})
    if announced.status != 200:
        return False
    await report("taken")
    return True


def read_have(body: bytes) -> frozenset[int]:
    """The pieces that an answer to an announced batch names; whatever is no such list names none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return frozenset()
    listed = content.get("have") if isinstance(content, dict) else None
    return frozenset(item for item in listed if type(item) is int) if isinstance(listed, list) else frozenset()


def have_json(numbers: list[int]) -> bytes:
    """The answer itself."""
    return json.dumps({"have": numbers}, separators=(",", ":")).encode()
