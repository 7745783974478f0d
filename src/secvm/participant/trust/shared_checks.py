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
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from secvm.crypto.notes import NoteKey
from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.participant.sending.transport import Transport
from secvm.participant.trust.model_files import fetch_once
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.documents.manifest import AcceptedManifest
from secvm.protocol.documents.recomputation import After, Model
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.relays.counting.shards import ShardRun
from secvm.protocol.relays.terms import RelayedTerms
from secvm.protocol.trust.checking import Checking

#: Signatures are small; models and tallies may have a million bins. Those of a few rounds of a few experiments.
_SMALL, _LARGE = 1024, 8
#: So many answers of ``once``, by their kind: what rounds come to has a model.
_ANSWERS = {"manifest": _SMALL, "rounds": _LARGE}
#: So many of what is known by what it must be, see ``known``; lines of a log may be many.
_KNOWN = {"terms": 64, "opening": 64, "lines": _LARGE, "recounted": _SMALL}
#: At most so many shards' runs of digests, of 131 kB each, and no more than there are devices to look for canaries.
_RUNS = 64
Value = TypeVar("Value")


class _Remembered(Generic[Value]):
    """So many answers, the oldest forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[tuple[object, ...], Value] = {}
        #: Long replays run in threads of their own.
        self._lock = threading.Lock()

    def find(self, key: tuple[object, ...]) -> Value | None:
        return self._found.get(key)

    def get(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        known = self._found.get(key)
        if known is None:
            known = make()
            with self._lock:
                while len(self._found) >= self._most:
                    del self._found[next(iter(self._found))]
                self._found[key] = known
        return known


class SharedChecks(Checking):
    """Judges what is new, and remembers."""

    def __init__(self, *, devices: int = 1) -> None:
        self._accepted = _Remembered[AcceptedManifest](_SMALL)
        self._checkpoints = _Remembered[SignedCheckpoint](_SMALL)
        self._times = _Remembered[dict[NoteKey, int]](_SMALL)
        self._tallies = _Remembered[Tally](_LARGE)
        self._models = _Remembered[Model](_LARGE)
        self._afters = _Remembered[After](_LARGE)
        self._answers = {kind: _Remembered[object](most) for kind, most in _ANSWERS.items()}
        #: Digests of tallies that this has read itself, by the tally.
        self._read = _Remembered[tuple[Tally, str]](_LARGE)
        self._runs: deque[tuple[bytes, ShardRun]] = deque(maxlen=min(devices, _RUNS))
        self._known = {kind: _Remembered[Any](most) for kind, most in _KNOWN.items()}
        self._blobs: dict[str, bytes] = {}
        self._on_the_way: dict[str, asyncio.Future[bytes | None]] = {}

    def accept(
        self, data: bytes, *, document: ExperimentDocument, last: AcceptedManifest | None = None
    ) -> AcceptedManifest:
        before = None if last is None else digest_of(last.envelope)
        if last is not None and data == last.envelope:
            return last
        key = (document.digest, before, digest_of(data))
        accepted = self._accepted.get(key, lambda: super(SharedChecks, self).accept(data, document=document, last=last))
        # The same manifest under other signatures: whoever asks looks whether it is their own.
        return last if last is not None and accepted.manifest.digest == last.manifest.digest else accepted

    def checkpoint(self, data: bytes, *, log: NoteKey) -> SignedCheckpoint:
        key = (log.to_text(), digest_of(data))
        return self._checkpoints.get(key, lambda: super(SharedChecks, self).checkpoint(data, log=log))

    def times(self, signed: SignedCheckpoint, witnesses: Sequence[NoteKey]) -> dict[NoteKey, int]:
        key = (digest_of(signed.data), *(witness.to_text() for witness in witnesses))
        return dict(self._times.get(key, lambda: super(SharedChecks, self).times(signed, witnesses)))

    def tally(self, data: bytes, *, digest: str, document: ExperimentDocument) -> Tally:
        # The digest that is asked for goes in as well: bytes that do not have it are refused below, every time.
        key = (document.digest, digest, digest_of(data))
        tally = self._tallies.get(key, lambda: super(SharedChecks, self).tally(data, digest=digest, document=document))
        # While it is in here nothing else has its number.
        self._read.get((id(tally),), lambda: (tally, digest))
        return tally

    def first(self, document: ExperimentDocument) -> Model:
        return self._models.get((document.digest,), lambda: super(SharedChecks, self).first(document))

    def model(self, state: bytes, *, digest: str, document: ExperimentDocument) -> Model:
        key = (document.digest, digest, digest_of(state))
        return self._models.get(key, lambda: super(SharedChecks, self).model(state, digest=digest, document=document))

    def following(self, document: ExperimentDocument, model: Model, tally: Tally | None) -> Model:
        if tally is None:
            return super().following(document, model, None)
        key = (document.digest, "after", model.names[0], self._digest(tally))
        return self._models.get(key, lambda: super(SharedChecks, self).following(document, model, tally))

    def after_opened(self, document: ExperimentDocument, model: Model, net: Tally, *, clients: int) -> After:
        key = (document.digest, model.names[0], self._digest(net), clients)
        judge = super().after_opened
        return self._afters.get(key, lambda: judge(document, model, net, clients=clients))

    def _digest(self, tally: Tally) -> str:
        known, digest = self._read.get((id(tally),), lambda: (tally, tally_digest(tally)))
        assert known is tally
        return digest

    def once(self, kind: str, asked: tuple[object, ...], judge: Callable[[], Value]) -> Value:
        return cast("Value", self._answers[kind].get(asked, judge))

    def runs(self, root: bytes) -> list[ShardRun]:
        """Shards' runs of digests that were checked under this root."""
        return [run for of, run in self._runs if of == root]

    def keep_run(self, root: bytes, run: ShardRun) -> None:
        """Remember a run that **was checked** under this root: nobody can show another for the same place."""
        self._runs.append((root, run))

    def known(self, kind: str, name: tuple[object, ...]) -> Any:
        """What was fetched for another device, and is what its name says; None: it has to be fetched."""
        return self._known[kind].find(name)

    def keep(self, kind: str, name: tuple[object, ...], what: object | None) -> None:
        """Remember something that **was checked**. ``name`` binds it: nobody can show another under the same name."""
        if what is not None:
            self._known[kind].get(name, lambda: what)

    async def relay_terms(self, relay: Relay, label: bytes, transport: Transport) -> RelayedTerms | None:
        """What a relay has signed that it takes on, asked once for a round of this label.

        Raises ``UnreachableError`` where it does not answer.
        """
        name = (relay.url, relay.key.data, label)
        terms: RelayedTerms | None = self.known("terms", name) or await transport.relayed_terms(relay)
        self.keep("terms", name, terms)
        return terms

    def keep_tally(self, digest: str, data: bytes, document: ExperimentDocument) -> None:
        """Remember a tally that came along with something else, where it is the one of this digest."""
        if data and digest not in self._blobs:
            with contextlib.suppress(MalformedMessageError):
                self.tally(data, digest=digest, document=document)
                self._keep_blob(digest, data)

    def tally_at_hand(self, digest: str) -> bytes | None:
        """A tally of this digest that was checked for a device of this host."""
        return self._blobs.get(digest)

    def _keep_blob(self, digest: str, data: bytes) -> None:
        while len(self._blobs) >= _LARGE:
            del self._blobs[next(iter(self._blobs))]
        self._blobs[digest] = data

    async def fetch_tally(
        self, digest: str, transport: Transport, *, document: ExperimentDocument, gateway_keys: bytes | None = None
    ) -> bytes | None:
        """A tally of this digest; None where it cannot be had now, or another was served."""
        known = self._blobs.get(digest)
        if known is not None:
            return known

        async def fetch() -> bytes | None:
            most = document.most_tally_bytes
            fetched = await transport.fetch(f"/v1/blob/{digest}", most=most, gateway_keys=gateway_keys)
            if fetched is not None:
                self.keep_tally(digest, fetched.content, document)
            return self._blobs.get(digest)

        return await fetch_once(self._on_the_way, digest, fetch)
