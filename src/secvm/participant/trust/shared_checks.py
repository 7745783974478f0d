"""SharedChecks: what a host that carries many devices has judged already, so that it is not judged hundreds of times.

A signature that was verified for one device holds for the next; a step that was played again comes to the same model.
Everything is remembered under **digests of all that went in**: the bytes that were served, the document, the keys, the
state and the tally from which a step was taken. Other bytes have another name, and are judged anew. So a device that is
lied to does not see what others were told, and nothing about a person is in here. What was refused is not remembered:
the error and its evidence are made for whoever asks.

What is bound to be the same for everybody is fetched once for all: weights (``model_files``) and tallies by their
digests, openings that a manifest names, lines that lead to a signed root of the log, runs of digests under the mixing
relay's root, shards that were counted again, and terms that a relay signed, once a round. What may change is fetched by
each device: manifests and checkpoints, by which it sees whether it is told the same as all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from secvm.errors import MalformedMessageError
from secvm.participant.sending.transport import Transport
from secvm.participant.trust.model_files import fetch_once
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.shards import ShardRun
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.trust.trusted_log import Checking

#: Signatures are small; models and tallies may have a million bins. Those of a few rounds of a few experiments.
_SMALL, _LARGE = 1024, 8
#: So much is remembered of each kind: what was judged; what was fetched for one device and holds for all (``known``).
#: What rounds come to has a model, and lines of a log may be many.
_KINDS = {
    **dict.fromkeys(("accepted", "checkpoint", "times", "manifest", "recounted"), _SMALL),
    **dict.fromkeys(("tally", "digest", "model", "after", "rounds", "blob", "lines"), _LARGE),
    **dict.fromkeys(("terms", "opening"), 64),
}
#: At most so many shards' runs of digests, of 131 kB each, and no more than there are devices to look for canaries.
_RUNS = 64
Value = TypeVar("Value")


class _Remembered:
    """So many answers, the oldest forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[tuple[object, ...], Any] = {}
        #: Long replays run in threads of their own.
        self._lock = threading.Lock()

    def find(self, key: tuple[object, ...]) -> Any:
        return self._answers.get(key)

    def get(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        known: Value | None = self._answers.get(key)
        if known is None:
            known = make()
            with self._lock:
                while len(self._answers) >= self._most:
                    del self._answers[next(iter(self._answers))]
                self._answers[key] = known
        return known


class SharedChecks(Checking):
    """Judges what is new, and remembers: ``Checking`` says for every question all that its answer follows from."""

    def __init__(self, *, devices: int = 1) -> None:
        self._remembered = {kind: _Remembered(most) for kind, most in _KINDS.items()}
        self._runs: deque[tuple[bytes, ShardRun]] = deque(maxlen=min(devices, _RUNS))
        self._on_the_way: dict[str, asyncio.Future[bytes | None]] = {}

    def once(self, kind: str, asked: Callable[[], tuple[object, ...]], judge: Callable[[], Value]) -> Value:
        return self._remembered[kind].get(asked(), judge)

    def runs(self, root: bytes) -> list[ShardRun]:
        """Shards' runs of digests that were checked under this root."""
        return [run for of, run in self._runs if of == root]

    def keep_run(self, root: bytes, run: ShardRun) -> None:
        """Remember a run that **was checked** under this root: nobody can show another for the same place."""
        self._runs.append((root, run))

    def known(self, kind: str, name: tuple[object, ...]) -> Any:
        """What was fetched for another device, and is what its name says; None: it has to be fetched."""
        return self._remembered[kind].find(name)

    def keep(self, kind: str, name: tuple[object, ...], what: object | None) -> None:
        """Remember something that **was checked**. ``name`` binds it: nobody can show another under the same name."""
        if what is not None:
            self._remembered[kind].get(name, lambda: what)

    async def relay_terms(
        self, relay: Relay, label: bytes, ask: Callable[[Relay], Awaitable[RelayedTerms | None]]
    ) -> RelayedTerms | None:
        """What a relay has signed that it takes on, asked once for a round of this label.

        Raises ``UnreachableError`` where it does not answer.
        """
        name = (relay.url, relay.key.data, label)
        terms: RelayedTerms | None = self.known("terms", name) or await ask(relay)
        self.keep("terms", name, terms)
        return terms

    def keep_tally(self, digest: str, data: bytes, document: ExperimentDocument) -> None:
        """Remember a tally that came along with something else, where it is the one of this digest."""
        if data and self.tally_at_hand(digest) is None:
            with contextlib.suppress(MalformedMessageError):
                self.tally(data, digest=digest, document=document)
                self.keep("blob", (digest,), data)

    def tally_at_hand(self, digest: str) -> bytes | None:
        """A tally of this digest that was checked for a device of this host."""
        blob: bytes | None = self.known("blob", (digest,))
        return blob

    async def fetch_tally(
        self, digest: str, transport: Transport, *, document: ExperimentDocument, gateway_keys: bytes | None = None
    ) -> bytes | None:
        """A tally of this digest; None where it cannot be had now, or another was served."""
        known = self.tally_at_hand(digest)
        if known is not None:
            return known

        async def fetch() -> bytes | None:
            most = document.most_tally_bytes
            fetched = await transport.fetch(f"/v1/blob/{digest}", most=most, gateway_keys=gateway_keys)
            if fetched is not None:
                self.keep_tally(digest, fetched.content, document)
            return self.tally_at_hand(digest)

        return await fetch_once(self._on_the_way, digest, fetch)
