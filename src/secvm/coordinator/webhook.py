"""Webhook: what whoever runs a coordinator should hear at once, posted as JSON to an address of theirs.

    {"event": "round-abandoned", "coordinator": "secvm.example", "at": 1790000000000, "text": "Round 3 of …",
     "experiment": "3fa9…", "round": 3, "reason": "too-few-trained"}
    {"event": "quorum-lost", …, "parties": ["w1.example", "w2.example"]}

There are ``round-abandoned``, ``quorum-lost``, ``quorum-regained``, ``relay-lost`` and ``relay-regained``. They hold
public names and digests alone. Nobody waits for a post: events wait in a short queue, each is tried a few times, and
what cannot be delivered is counted and forgotten, also when the process ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic

from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.disk.secret_files import Passphrase, read_secret
from secvm.runtime.http.client import HttpClient, checked_url, goes_in_clear
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import any_of
from secvm.runtime.settings import Settings

#: For one answer, all of it.
TIMEOUT_S = 10.0
#: Between tries of one event; after the last it is given up.
PAUSES_S = (1.0, 5.0, 30.0)
#: Events that may wait.
WAITING = 100
_MOST_ANSWER_BYTES = 2**12
_NOBODY = 0
#: After these the same post may be taken later; any other refusal is final.
_TRY_LATER = frozenset({_NOBODY, 408, 425, 429, *range(500, 600)})


class WebhookPart(Settings):
    """Where events are posted. Whoever knows the address may post there, so it may stand in a file of its own."""

    url: Annotated[str | None, pydantic.Field(repr=False)] = None
    #: Goes before ``url``.
    url_file: Path | None = None

    @pydantic.model_validator(mode="after")
    def _is_one_address(self) -> Self:
        if self.url is None and self.url_file is None:
            raise ValueError("a webhook has url or url_file")
        if self.url is not None:
            _checked(self.url)
        return self

    def address(self, passphrase: Passphrase | None = None) -> str:
        """Where events are posted."""
        if self.url_file is None:
            return _checked(self.url or "")
        try:
            return _checked(read_secret(self.url_file, shortest=1, passphrase=passphrase).decode().strip())
        except ValueError:
            raise BadInputError(f"{self.url_file} holds no address for a webhook: one line, https://…") from None


def _checked(url: str) -> str:
    try:
        url = checked_url(url)
    except BadInputError:
        url = ""
    if not url or goes_in_clear(url):
        raise ValueError("url should be https://… without ? and @, or http:// on this machine")
    return url


class Webhook:
    """Posts events to one address, in order. For one event loop."""

    def __init__(
        self,
        url: str,
        *,
        coordinator: str,
        log: Log = SILENT,
        metrics: Metrics | None = None,
        pauses_s: Sequence[float] = PAUSES_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``coordinator``: by which name the receiver tells one coordinator from another."""
        self._url, self._coordinator, self._log = url, coordinator, log
        self._pauses_s, self._timeout_s = tuple(pauses_s), timeout_s
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(WAITING)
        metrics = Metrics("coordinator") if metrics is None else metrics
        self._posts = metrics.counter(
            "webhook_events",
            "Events for the webhook, by what became of them.",
            {"outcome": ("delivered", "given-up", "dropped")},
        )

    def __repr__(self) -> str:
        # Whoever knows the address may post to it.
        return "Webhook(...)"

    def tell(self, event: str, *, at: int, text: str, **fields: str | int | Sequence[str]) -> None:
        """Have an event posted; where too many wait it is dropped."""
        body = {"event": event, "coordinator": self._coordinator, "at": at, "text": text, **fields}
        try:
            self._waiting.put_nowait(body)
        except asyncio.QueueFull:
            self._posts.add(outcome="dropped")

    async def run(self, stop: asyncio.Event) -> None:
        """Post what comes, until told to stop."""
        async with HttpClient(answer_s=self._timeout_s, connections=1) as client:
            while not stop.is_set():
                next_one = asyncio.ensure_future(self._waiting.get())
                await any_of(stop.wait(), asyncio.shield(next_one))
                if next_one.done():
                    await any_of(stop.wait(), self._deliver(client, next_one.result()))
                else:
                    next_one.cancel()

    async def _deliver(self, client: HttpClient, event: Mapping[str, Any]) -> None:
        body = json.dumps(event, ensure_ascii=False).encode()
        status = await self._post(client, body)
        for pause_s in self._pauses_s:
            if status not in _TRY_LATER:
                break
            await asyncio.sleep(pause_s)
            status = await self._post(client, body)
        if 200 <= status < 300:
            self._posts.add(outcome="delivered")
            return
        self._posts.add(outcome="given-up")
        self._log.tell("webhook-given-up", status=status)

    async def _post(self, client: HttpClient, body: bytes) -> int:
        """The status that is answered."""
        headers = {"content-type": "application/json"}
        try:
            answer = await client.ask(self._url, most=_MOST_ANSWER_BYTES, method="POST", headers=headers, body=body)
        except UnreachableError:
            return _NOBODY
        return answer.status
