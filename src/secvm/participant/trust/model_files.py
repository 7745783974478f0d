"""Weights by digest: fetched once or computed here, and the last ones believed kept as files.

A host that carries many devices for a test shares one shelf among them: what a digest names is the same for everybody,
so nothing flows from one to another. The files are public; they are here so that a person can predict offline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.learning.weights import Weights
from secvm.participant.sending.transport import Transport
from secvm.protocol.documents.blobs import decode_weights
from secvm.protocol.documents.experiment import ExperimentDocument

#: Training and evaluation weights of a few experiments.
_IN_MEMORY = 8
#: Magic line and header of weights are shorter.
_HEADER_BYTES = 2**13


async def fetch_once(
    on_the_way: dict[str, asyncio.Future[bytes | None]], digest: str, fetch: Callable[[], Awaitable[bytes | None]]
) -> bytes | None:
    """What ``fetch`` gets: whoever asks for the same digest meanwhile waits for the one answer."""
    asked = on_the_way.get(digest)
    if asked is not None:
        # Whoever is told to stop must not take the others' answer along.
        return await asyncio.shield(asked)
    asked = on_the_way[digest] = asyncio.get_running_loop().create_future()
    data = None
    try:
        data = await fetch()
    finally:
        # Also when this was cancelled: the others try by themselves then.
        del on_the_way[digest]
        asked.set_result(data)
    return data


class ModelShelf:
    """Weights in memory and in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[bytes, Weights]] = {}
        self._on_the_way: dict[str, asyncio.Future[bytes | None]] = {}
        #: Who believes which model; a file without anybody goes.
        self._held: dict[object, str] = {}

    async def weights(
        self, digest: str, document: ExperimentDocument, transport: Transport, *, gateway_keys: bytes | None = None
    ) -> Weights | None:
        """The weights of this digest; None where they cannot be had now. ``gateway_keys``: see ``Transport.fetch``.

        Raises
        ------
        MalformedMessageError
            They are no weights of this experiment, or not those that were asked for.
        """
        if digest not in self._known:
            data = await self._fetch(digest, document, transport, gateway_keys)
            if data is None:
                return None
            self._remember(digest, data, document)
        return self._known[digest][1]

    def put(self, digest: str, weights: Weights) -> None:
        """Weights that were computed on this device, under their digest."""
        if digest not in self._known:
            self._make_room()
            self._known[digest] = (weights.to_bytes(), weights)

    def hold(self, owner: object, digest: str) -> None:
        """Keep this model's file for its owner, instead of the one before."""
        known = self._known.get(digest)
        path = self._folder / digest
        if known is not None and not path.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, known[0])
        before = self._held.get(owner)
        self._held[owner] = digest
        if before is not None and before not in self._held.values():
            (self._folder / before).unlink(missing_ok=True)

    def kept(self, digest: str, document: ExperimentDocument) -> Weights:
        """A model out of its file."""
        try:
            data = (self._folder / digest).read_bytes()
        except OSError:
            raise BadInputError(
                "the model's file is not there", next_step="Let the device run until a round."
            ) from None
        return decode_weights(data, digest=digest, experiment=document.experiment)

    async def _fetch(
        self, digest: str, document: ExperimentDocument, transport: Transport, gateway_keys: bytes | None
    ) -> bytes | None:
        async def fetch() -> bytes | None:
            experiment = document.experiment
            most = 4 * experiment.models.n_models * (experiment.n_bins + 1) + _HEADER_BYTES
            fetched = await transport.fetch(f"/v1/blob/{digest}", most=most, gateway_keys=gateway_keys)
            return None if fetched is None else fetched.content

        return await fetch_once(self._on_the_way, digest, fetch)

    def _remember(self, digest: str, data: bytes, document: ExperimentDocument) -> None:
        weights = decode_weights(data, digest=digest, experiment=document.experiment)
        self._make_room()
        self._known[digest] = (data, weights)

    def _make_room(self) -> None:
        while len(self._known) >= _IN_MEMORY:
            del self._known[next(iter(self._known))]
