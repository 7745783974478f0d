"""The tables of a coordinator's SQLite file, as numbered migrations: a file of version v has had the first v of them.

A migration that was released is never changed; a new one is added at the end. docs/data-model.md tells their story.
"""

from __future__ import annotations

#: "SecV": SQLite keeps it in the file's header, so that another program's database is not taken for ours.
APPLICATION_ID = 0x53656356

_FIRST = (
    # position: the order in which experiments were added.
    """
    CREATE TABLE experiments (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT NOT NULL UNIQUE,
        envelope BLOB NOT NULL,
        settings BLOB NOT NULL,
        standing TEXT NOT NULL CHECK (standing IN ('running', 'paused', 'stopped', 'finished'))
    ) STRICT
    """,
    # scrubbed: nothing of the epoch is shown any more, though a scrub that was killed may still have bytes to remove.
    """
    CREATE TABLE epochs (
        epoch INTEGER PRIMARY KEY,
        closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1)),
        scrubbed INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed IN (0, closed))
    ) STRICT
    """,
    # experiment, number, epoch and envelope never change; tally and next_state are written once.
    """
    CREATE TABLE rounds (
        experiment TEXT NOT NULL REFERENCES experiments (digest),
        number INTEGER NOT NULL CHECK (number >= 1),
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        state TEXT NOT NULL
            CHECK (state IN ('announced', 'open', 'closing', 'tallied', 'published', 'abandoned')),
        envelope BLOB NOT NULL,
        tally TEXT,
        next_state TEXT,
        PRIMARY KEY (experiment, number)
    ) STRICT
    """,
    "CREATE TABLE blobs (digest TEXT NOT NULL PRIMARY KEY, data BLOB NOT NULL) STRICT",
    # Secret; deleted by scrub.
    """
    CREATE TABLE keys (
        epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
        key_id INTEGER NOT NULL CHECK (key_id BETWEEN 0 AND 255),
        private BLOB NOT NULL
    ) STRICT
    """,
    # Groups of capsules; deleted when they are opened, or by scrub. AUTOINCREMENT: no number is used twice.
    """
    CREATE TABLE sealed (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        packed BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sealed_by_epoch ON sealed (epoch)",
    # Blocks of records; deleted by scrub.
    """
    CREATE TABLE opened (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        packed BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX opened_by_epoch ON opened (epoch)",
    """
    CREATE TABLE deposits (
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        relay TEXT NOT NULL,
        count BLOB NOT NULL,
        PRIMARY KEY (epoch, relay)
    ) STRICT
    """,
)

_LOG = (
    # What witnesses cosigned of each log: size, root and newest go forward together; first never changes.
    """
    CREATE TABLE notes (
        origin TEXT NOT NULL PRIMARY KEY,
        size INTEGER NOT NULL CHECK (size >= 0),
        root BLOB NOT NULL,
        newest BLOB NOT NULL,
        first BLOB NOT NULL
    ) STRICT
    """,
    # Records of public randomness, verified; never change. place: which of the experiment's beacons, from 0.
    """
    CREATE TABLE beacons (
        experiment TEXT NOT NULL REFERENCES experiments (digest),
        place INTEGER NOT NULL CHECK (place >= 0),
        record BLOB NOT NULL,
        PRIMARY KEY (experiment, place)
    ) STRICT
    """,
)

_TOKENS = (
    # Digests of capsules and nonces of their tokens, side by side; deleted by scrub.
    """
    CREATE TABLE spent (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        packed BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX spent_by_epoch ON spent (epoch)",
)

_NODES = (
    # The last term that was given; who has it, the process knows.
    "CREATE TABLE driver (one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL) STRICT",
    "INSERT INTO driver VALUES (1, 0)",
    # What a part of an epoch's records came to; deleted by scrub. Here there is one part: all.
    """
    CREATE TABLE shards (
        epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
        result BLOB NOT NULL
    ) STRICT
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _LOG, _TOKENS, _NODES)
