"""Targets: SQLite files, of ours and of other programs, that a disk or somebody has changed.

SQLite reads them, and it is not ours; what is held to laws here is what our code makes of its answers.
"""

from __future__ import annotations

import functools
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from secvm.errors import BadInputError, StoreError
from secvm.participant.sources.browsers import BOTH
from secvm.participant.sources.port import Options
from secvm.participant.storage.state import FILE as STATE_FILE
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.relay.store import RoundStore
from secvm.witness.store import WitnessStore
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Target

_PLACES = "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url, title, hidden, visit_count, last_visit_date)"


def _folder(name: str) -> Path:
    """A fresh folder that nobody else may look into."""
    folder = world.folder() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def _database(
    name: str,
    file: str,
    read: Callable[[Path], object],
    make: Callable[[Path], object],
    *allowed: type[Exception],
) -> Target:
    """A program's file: ``make`` writes a good one into a folder, ``read`` is given a folder with any bytes for it."""

    def decode(data: bytes) -> object:
        folder = _folder(name)
        (folder / file).write_bytes(data)
        return read(folder)

    @functools.cache
    def seeds() -> list[bytes]:
        folder = _folder(f"{name}-made")
        make(folder)
        with closing(sqlite3.connect(folder / file)) as db:
            # One file without a log beside it, and small pages: a change shall hit something.
            for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 512", "VACUUM"):
                db.execute(statement)
        return [(folder / file).read_bytes()]

    return Target(name, decode, seeds, allowed=(BadInputError, *allowed))


# ── a person's vault ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read_vault(folder: Path) -> object:
    with Vault(folder, unsafe_unsynced=True) as vault:
        return vault.summary(), vault.features(), vault.label("question"), len(vault.answered())


def _make_vault(folder: Path) -> None:
    with Vault(folder, unsafe_unsynced=True) as vault:
        vault.put("words", {"one": 1, "two": -2})
        vault.set_label("question", "yes")


# ── a device's state ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read_state(folder: Path) -> object:
    with closing(DeviceState(folder, unsafe_unsynced=True)) as state:
        return [(record.digest, record.status) for record in state.records()]


def _make_state(folder: Path) -> None:
    with closing(DeviceState(folder, unsafe_unsynced=True)) as state, state.writing(durable=False):
        state.ledger.put("ab" * 32, 1)
    row = ("ab" * 32, "joined", b"envelope", "TRAIN", 1, 0, struct.pack("<3q", 8, 1, 2))
    with closing(sqlite3.connect(folder / STATE_FILE)) as db, db:
        columns = "digest, status, envelope, cohort, label, target, vector"
        db.execute(f"INSERT INTO experiment ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608


# ── relay and witness ────────────────────────────────────────────────────────────────────────────────────────────────


def _read_relay(folder: Path) -> object:
    with closing(RoundStore(folder / "relay.db", bytes)) as store:
        return store.sealed(), store.read(1)


def _read_witness(folder: Path) -> object:
    with closing(WitnessStore(folder / "witness.db")) as store:
        return store.seen(), store.forks()


# ── a browser's history ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_places(folder: Path) -> object:
    return BOTH.read(Options(home=folder, now=10**12, path=folder / "places.sqlite"))


def _make_places(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "places.sqlite")) as db, db:
        db.execute(_PLACES)
        rows = [(i, f"https://host{i}.example/p", f"A title {i}", 0, 3, 10**15) for i in range(3)]
        db.executemany("INSERT INTO moz_places VALUES (?, ?, ?, ?, ?, ?)", rows)


TARGETS = (
    _database("vault-file", "vault.db", _read_vault, _make_vault),
    _database("state-file", STATE_FILE, _read_state, _make_state, StoreError),
    _database(
        "relay-store-file",
        "relay.db",
        _read_relay,
        lambda folder: RoundStore(folder / "relay.db", bytes).close(),
        StoreError,
        # Once it is open, what SQLite says of a page that was changed is passed on as it is, and ends the relay.
        *(sqlite3.DatabaseError, UnicodeDecodeError, MemoryError),
    ),
    _database(
        "witness-store-file",
        "witness.db",
        _read_witness,
        lambda folder: WitnessStore.create(folder / "witness.db"),
        StoreError,
    ),
    _database("history-file", "places.sqlite", _read_places, _make_places),
)
