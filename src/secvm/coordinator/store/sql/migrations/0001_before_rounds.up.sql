-- What a coordinator keeps for good: experiments, rounds, blobs, notes of its logs, beacons.
-- Text is compared byte by byte ("C"), as every other store compares it.

CREATE TABLE experiments (
    -- The order in which experiments were added.
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest text COLLATE "C" NOT NULL UNIQUE,
    envelope bytea NOT NULL,
    settings bytea NOT NULL,
    -- The only column that changes.
    standing text NOT NULL CHECK (standing IN ('running', 'paused', 'stopped', 'finished'))
);

CREATE TABLE epochs (
    epoch bigint PRIMARY KEY,
    -- Whoever appends holds this row FOR SHARE until its commit; closing changes it, and so waits for them.
    closed boolean NOT NULL DEFAULT false,
    -- Nothing of the epoch is shown any more, though a scrub that was killed may still have tables to drop.
    scrubbed boolean NOT NULL DEFAULT false CHECK (closed OR NOT scrubbed)
);

-- experiment, number, epoch and envelope never change; tally and next_state are written once.
CREATE TABLE rounds (
    experiment text COLLATE "C" NOT NULL REFERENCES experiments (digest),
    number bigint NOT NULL CHECK (number >= 1),
    epoch bigint NOT NULL REFERENCES epochs (epoch),
    state text NOT NULL CHECK (state IN ('announced', 'open', 'closing', 'tallied', 'published', 'abandoned')),
    envelope bytea NOT NULL,
    tally text,
    next_state text,
    PRIMARY KEY (experiment, number)
);

CREATE TABLE blobs (
    digest text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);

CREATE TABLE deposits (
    epoch bigint NOT NULL REFERENCES epochs (epoch),
    relay text COLLATE "C" NOT NULL,
    count bytea NOT NULL,
    PRIMARY KEY (epoch, relay)
);

-- What witnesses cosigned of the log, by the name for which it is kept: size, root and note go forward together.
CREATE TABLE notes (
    name text COLLATE "C" PRIMARY KEY,
    size bigint NOT NULL CHECK (size >= 0),
    root bytea NOT NULL,
    note bytea NOT NULL
);

-- Records of public randomness, verified; never change. place: which of the experiment's beacons, from 0.
CREATE TABLE beacons (
    experiment text COLLATE "C" NOT NULL REFERENCES experiments (digest),
    place integer NOT NULL CHECK (place >= 0),
    record bytea NOT NULL,
    PRIMARY KEY (experiment, place)
);
