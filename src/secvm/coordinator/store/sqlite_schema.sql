-- The tables of a coordinator's SQLite file, by version: a file of version v has had the first v parts.
-- A part that was released is never changed, and a new one is added at the end.

-- Version 1 --

-- position: the order in which experiments were added.
CREATE TABLE experiments (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE,
    envelope BLOB NOT NULL,
    settings BLOB NOT NULL,
    standing TEXT NOT NULL CHECK (standing IN ('running', 'paused', 'stopped', 'finished'))
) STRICT;

-- scrubbed: nothing of the epoch is shown any more, though a scrub that was killed may still have bytes to remove.
CREATE TABLE epochs (
    epoch INTEGER PRIMARY KEY,
    closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1)),
    scrubbed INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed IN (0, closed))
) STRICT;

-- experiment, number, epoch and envelope never change: tally and next_state are written once.
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
) STRICT;

CREATE TABLE blobs (digest TEXT NOT NULL PRIMARY KEY, data BLOB NOT NULL) STRICT;

-- Secret: deleted by scrub.
CREATE TABLE keys (
    epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
    key_id INTEGER NOT NULL CHECK (key_id BETWEEN 0 AND 255),
    private BLOB NOT NULL
) STRICT;

-- Groups of capsules: deleted when they are opened, or by scrub. AUTOINCREMENT: no number is used twice.
CREATE TABLE sealed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL REFERENCES epochs (epoch),
    packed BLOB NOT NULL
) STRICT;

CREATE INDEX sealed_by_epoch ON sealed (epoch);

-- Blocks of records: deleted by scrub.
CREATE TABLE opened (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL REFERENCES epochs (epoch),
    packed BLOB NOT NULL
) STRICT;

CREATE INDEX opened_by_epoch ON opened (epoch);

CREATE TABLE deposits (
    epoch INTEGER NOT NULL REFERENCES epochs (epoch),
    relay TEXT NOT NULL,
    count BLOB NOT NULL,
    PRIMARY KEY (epoch, relay)
) STRICT;

-- Version 2 --

-- What witnesses cosigned of the log, by the name for which it is kept: size, root and note go forward together.
CREATE TABLE notes (
    name TEXT NOT NULL PRIMARY KEY,
    size INTEGER NOT NULL CHECK (size >= 0),
    root BLOB NOT NULL,
    note BLOB NOT NULL
) STRICT;

-- Records of public randomness, verified: never change. place: which of the experiment's beacons, from 0.
CREATE TABLE beacons (
    experiment TEXT NOT NULL REFERENCES experiments (digest),
    place INTEGER NOT NULL CHECK (place >= 0),
    record BLOB NOT NULL,
    PRIMARY KEY (experiment, place)
) STRICT;

-- Version 3 --

-- The last term that was given: who has it, the process knows.
CREATE TABLE driver (one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL) STRICT;

INSERT INTO driver VALUES (1, 0);

-- What a part of an epoch's records came to: deleted by scrub. Here there is one part: all.
CREATE TABLE shards (
    epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
    result BLOB NOT NULL
) STRICT;

-- Version 4 --

-- Batches of rounds with two relays. forgotten: nothing of it is shown any more, though pieces may be left.
CREATE TABLE batches (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL REFERENCES experiments (digest),
    number INTEGER NOT NULL CHECK (number >= 1),
    attempt INTEGER NOT NULL DEFAULT 0,
    whole INTEGER NOT NULL DEFAULT 0 CHECK (whole IN (0, 1)),
    forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten IN (0, 1)),
    UNIQUE (experiment, number)
) STRICT;

-- Secret until the round is opened: deleted when the batch is forgotten.
CREATE TABLE count_seeds (batch INTEGER PRIMARY KEY REFERENCES batches (id), seed BLOB NOT NULL) STRICT;

-- Inner capsules side by side, as they came: deleted when the batch is forgotten.
CREATE TABLE pieces (
    batch INTEGER NOT NULL REFERENCES batches (id),
    piece INTEGER NOT NULL CHECK (piece >= 0),
    data BLOB NOT NULL,
    PRIMARY KEY (batch, piece)
) STRICT;

-- What a piece's capsules came to: deleted when the batch is forgotten.
CREATE TABLE runs (
    batch INTEGER NOT NULL REFERENCES batches (id),
    run INTEGER NOT NULL CHECK (run >= 0),
    result BLOB NOT NULL,
    PRIMARY KEY (batch, run)
) STRICT;

-- Version 5 --

-- The log of all experiments, line by line: its order is known from nowhere else. Never changes.
CREATE TABLE entries (place INTEGER PRIMARY KEY CHECK (place >= 0), entry BLOB NOT NULL) STRICT;

-- Version 6 --

-- Secret: a key that no manifest names is deleted when its epoch is over.
CREATE TABLE fetch_keys (
    epoch INTEGER PRIMARY KEY,
    key_id INTEGER NOT NULL CHECK (key_id BETWEEN 0 AND 255),
    private BLOB NOT NULL
) STRICT;
