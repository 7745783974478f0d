"""The witness as a process: here the real clock, real dice, the key and the store are picked, and put together.

A key and its memory belong together. ``make`` makes both; it makes a new key for an old memory, and never a new memory
for an old key, which would cosign again what it has forgotten.

On SIGTERM: no new connections; what is under way is answered. Everything that was answered is on the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.runtime.clock import Clock, SteeredClock, SystemClock
from secvm.runtime.disk.new_folder import making_in
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.disk.secret_files import Passphrase, make_signing_key, read_signing_key
from secvm.runtime.http.server import HttpServer
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import run_service
from secvm.runtime.settings import parse_settings, read_settings, settings_text
from secvm.witness.server import WitnessDoors
from secvm.witness.settings import WitnessSettings
from secvm.witness.store import WitnessStore

SETTINGS_FILE = "witness.toml"
KEY_FILE = "witness.key"
STORE_FILE = "witness.db"


def initialise(
    folder: Path, *, name: str, logs: Sequence[str], more: Mapping[str, Mapping[str, Any]] | None = None
) -> NoteKey:
    """A new witness in this folder, for logs told as "name key" or as C2SP writes keys; ``more`` are further settings.
    Its public key.
    """
    if (folder / SETTINGS_FILE).exists():
        raise BadInputError(f"there is a witness in {folder} already")
    named = [log.split(" ") for log in logs]
    if any(len(words) > 2 for words in named):
        raise BadInputError("a log is told as its name, a space and its key in hexadecimal, or as origin+id+key")
    content: dict[str, Any] = {
        "witness": {"name": name, "key_file": KEY_FILE},
        "store": {"path": STORE_FILE},
        "logs": [dict(zip(("name", "key")[-len(words) :], words, strict=True)) for words in named],
        **(more or {}),
    }
    # Checked before anything is made.
    parse_settings(json.dumps(content), WitnessSettings, "this witness")
    text = "# docs/how-to/run-a-witness.md shows every setting.\n\n" + settings_text(content)
    with making_in(folder, private=True) as made:
        write_atomically(made / SETTINGS_FILE, text.encode())
        return make(made / SETTINGS_FILE)


def make(path: Path, passphrase: Passphrase | None = None) -> NoteKey:
    """The witness of these settings: its key and its empty store are made, unless they are there. Its public key."""
    settings = read_settings(path, WitnessSettings)
    key_file, store = settings.witness.key_file, settings.store.path
    if not store.exists():
        if key_file.exists():
            raise BadInputError(
                f"the key {key_file} is there, but not the store {store}",
                next_step="What this key has cosigned is forgotten: retire it, and name a new file as key_file.",
            )
        WitnessStore.create(store)
    if not key_file.exists():
        make_signing_key(key_file, os.urandom)
    return public_key(settings, read_signing_key(key_file, passphrase))


def public_key(settings: WitnessSettings, key: SigningKey) -> NoteKey:
    """What others know this witness by."""
    return NoteKey(settings.witness.name, key.public, SignatureKind.COSIGNATURE)


def serve(path: Path, passphrase: Passphrase | None = None) -> None:
    """Run the witness that these settings describe, until somebody says stop."""
    settings = read_settings(path, WitnessSettings)
    clock: Clock = SystemClock() if settings.testing.clock is None else SteeredClock(settings.testing.clock)
    store = settings.store.path
    with only_one(store.with_name(f"{store.name}.lock"), "witness"):
        witness = WitnessService(settings, clock=clock, log_to=sys.stderr, passphrase=passphrase)
        run_service(witness.run, log=witness.log)


class WitnessService:
    """One witness, put together from its settings; files that are missing or wrong are told of here."""

    def __init__(
        self, settings: WitnessSettings, *, clock: Clock, log_to: TextIO, passphrase: Passphrase | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.log = Log(log_to, clock, "witness")
        self._logs = settings.known_logs()
        self._key = read_signing_key(settings.witness.key_file, passphrase)
        if self._key.public in {log.key.key for log in self._logs.values()}:
            raise BadInputError("a log cannot be its own witness: its key is the witness's")
        self._store = WitnessStore(settings.store.path)

    async def run(self, stop: asyncio.Event, listening: Callable[[int], None] | None = None) -> None:
        """Serve until ``stop`` is set, then drain. ``listening`` is told the port."""
        settings, limits = self._settings, self._settings.limits
        doors = WitnessDoors(
            self._store,
            self._logs,
            name=settings.witness.name,
            key=self._key,
            clock=self._clock,
            log=self.log,
            metrics=Metrics("witness"),
            waiting=limits.waiting,
            retry_after_s=limits.retry_after_s,
        )
        server = HttpServer(doors.handle, limits=limits.server_limits(body_bytes=limits.request_bytes))
        try:
            port = await server.start(settings.listen.host, settings.listen.port)
            self.log.tell("listening", port=port, count=len(self._logs))
            if listening is not None:
                listening(port)
            await stop.wait()
            self.log.tell("draining", connections=len(server.connections))
            doors.draining = True
            await server.drain()
        finally:
            await doors.close()
            self._store.close()
        self.log.tell("stopped")
