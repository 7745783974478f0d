"""Targets: SQLite files, of ours and of other programs, that a disk or somebody has changed.

SQLite reads them, and it is not ours; what is held to laws here is what our code makes of its answers.
"""

from __future__ import annotations

import functools
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

from secvm.errors import BadInputError, StoreError
from secvm.participant.sources.browsers import Firefox
from secvm.participant.sources.port import Options
from secvm.participant.storage.state import FILE as STATE_FILE
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.relay.store import RoundStore
from secvm.witness.store import WitnessStore
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Target

_VAULT_FILE = "vault.db"
_PLACES = "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url, title, hidden, visit_count, last_visit_date)"


def _in_folder(name: str, file: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """The bytes as this file of a fresh folder that nobody else may look into."""

    def decode(data: bytes) -> object:
        folder = world.folder() / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        (folder / file).write_bytes(data)
        return read(folder)

    return decode


def _file_of(name: str, file: str, make: Callable[[Path], None]) -> list[bytes]:
    folder = world.folder() / f"{name}-made"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    make(folder)
    with sqlite3.connect(folder / file) as db:
        # One file without a log beside it, and small pages: a change shall hit something.
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    db.close()
    return [(folder / file).read_bytes()]


# ── a person's vault ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read_vault(folder: Path) -> object:
    with Vault(folder, unsafe_unsynced=True) as vault:
        return vault.summary(), vault.features(), vault.label("question"), len(vault.answered())


@functools.cache
def _vaults() -> list[bytes]:
    def make(folder: Path) -> None:
        with Vault(folder, unsafe_unsynced=True) as vault:
            vault.put("words", {"one": 1, "two": -2})
            vault.set_label("question", "yes")

    return _file_of("vault", _VAULT_FILE, make)


# ── a device's state ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read_state(folder: Path) -> object:
    state = DeviceState(folder, unsafe_unsynced=True)
    try:
        return [(record.digest, record.status) for record in state.records()]
    finally:
        state.close()


@functools.cache
def _states() -> list[bytes]:
    def make(folder: Path) -> None:
        state = DeviceState(folder, unsafe_unsynced=True)
        with state.writing(durable=False):
            state.ledger.put("ab" * 32, 1)
        state.close()
        row = ("ab" * 32, "joined", b"envelope", "TRAIN", 1, 0, struct.pack("<3q", 8, 1, 2))
        db = sqlite3.connect(folder / STATE_FILE)
        with db:
            columns = "digest, status, envelope, cohort, label, target, vector"
            db.execute(f"INSERT INTO experiment ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
        db.close()

    return _file_of("state", STATE_FILE, make)


# ── relay and witness ────────────────────────────────────────────────────────────────────────────────────────────────


def _read_relay(folder: Path) -> object:
    store = RoundStore(folder / "relay.db", bytes)
    try:
        return store.sealed(), store.read(1)
    finally:
        store.close()


def _read_witness(folder: Path) -> object:
    store = WitnessStore(folder / "witness.db")
    try:
        return store.seen(), store.forks()
    finally:
        store.close()


@functools.cache
def _relays() -> list[bytes]:
    def make(folder: Path) -> None:
        RoundStore(folder / "relay.db", bytes).close()

    return _file_of("relay", "relay.db", make)


@functools.cache
def _witnesses() -> list[bytes]:
    return _file_of("witness", "witness.db", lambda folder: WitnessStore.create(folder / "witness.db"))


# ── a browser's history ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_places(folder: Path) -> object:
    return Firefox().read(Options(home=folder, now=10**12, path=folder / "places.sqlite"))


@functools.cache
def _histories() -> list[bytes]:
    def make(folder: Path) -> None:
        db = sqlite3.connect(folder / "places.sqlite")
        with db:
            db.execute(_PLACES)
            rows = [(i, f"https://host{i}.example/p", f"A title {i}", 0, 3, 10**15) for i in range(3)]
            db.executemany("INSERT INTO moz_places VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.close()

    return _file_of("places", "places.sqlite", make)


TARGETS = (
    Target(
        name="vault-file", decode=_in_folder("vault", _VAULT_FILE, _read_vault), allowed=(BadInputError,), seeds=_vaults
    ),
    Target(
        name="state-file",
        decode=_in_folder("state", STATE_FILE, _read_state),
        allowed=(BadInputError, StoreError),
        seeds=_states,
    ),
    Target(
        name="relay-store-file",
        decode=_in_folder("relay", "relay.db", _read_relay),
        # Once it is open, what SQLite says of a page that was changed is passed on as it is, and ends the relay.
        allowed=(BadInputError, StoreError, sqlite3.DatabaseError, UnicodeDecodeError, MemoryError),
        seeds=_relays,
    ),
    Target(
        name="witness-store-file",
        decode=_in_folder("witness", "witness.db", _read_witness),
        allowed=(BadInputError, StoreError),
        seeds=_witnesses,
    ),
    Target(
        name="history-file",
        decode=_in_folder("places", "places.sqlite", _read_places),
        allowed=(BadInputError,),
        seeds=_histories,
    ),
)
