-- Experiments, rounds, blobs, and what is known of logs and beacons.

-- experiment --
-- One experiment, held until the end of the transaction.
SELECT digest, envelope, settings, standing FROM experiments WHERE digest = %(digest)s FOR UPDATE;

-- experiments --
-- All, in the order they were added.
SELECT digest, envelope, settings, standing FROM experiments ORDER BY position;

-- in_turn --
-- One at a time adds experiments, until the end of the transaction.
SELECT pg_advisory_xact_lock(1399153494, 1);

-- add_experiment --
-- A new one. Nothing is returned when it is there already.
INSERT INTO experiments (digest, envelope, settings, standing)
VALUES (%(digest)s, %(envelope)b, %(settings)b, %(standing)s)
ON CONFLICT (digest) DO NOTHING
RETURNING true;

-- set_standing --
-- What its operator, or its last round, decided.
UPDATE experiments SET standing = %(standing)s WHERE digest = %(digest)s RETURNING true;

-- rounds --
-- All rounds of an experiment.
SELECT experiment, number, epoch, state, envelope, tally, next_state
FROM rounds WHERE experiment = %(digest)s ORDER BY number;

-- round --
-- One round. Whoever asks changes it, and is the only one who drives.
SELECT experiment, number, epoch, state, envelope, tally, next_state
FROM rounds WHERE experiment = %(digest)s AND number = %(number)s FOR UPDATE;

-- announce --
-- A round begins.
INSERT INTO rounds (experiment, number, epoch, state, envelope)
VALUES (%(digest)s, %(number)s, %(epoch)s, %(state)s, %(envelope)b);

-- set_state --
-- The round's state alone.
UPDATE rounds SET state = %(state)s WHERE experiment = %(digest)s AND number = %(number)s;

-- conclude --
-- State and outcome of a round, once.
UPDATE rounds SET state = %(state)s, tally = %(tally)s, next_state = %(next_state)s
WHERE experiment = %(digest)s AND number = %(number)s;

-- blob --
-- Bytes by their digest.
SELECT data FROM blobs WHERE digest = %(digest)s;

-- keep_blob --
-- What is there stays.
INSERT INTO blobs (digest, data) VALUES (%(digest)s, %(data)b) ON CONFLICT (digest) DO NOTHING;

-- append_in_turn --
-- One at a time appends to the log, until the end of the transaction.
SELECT pg_advisory_xact_lock(1399153494, 2);

-- size --
-- Entries of the log.
SELECT count(*) FROM entries;

-- append --
-- The next entry of the log.
INSERT INTO entries (place, entry) VALUES (%(place)s, %(entry)b);

-- entries --
-- The log from an index on.
SELECT entry FROM entries WHERE place >= %(since)s ORDER BY place;

-- notes --
-- All checkpoints that are kept.
SELECT name, size, root, note FROM notes ORDER BY name;

-- note --
-- The checkpoint of one name.
SELECT name, size, root, note FROM notes WHERE name = %(name)s FOR UPDATE;

-- keep_note --
-- The newest checkpoint of a name.
INSERT INTO notes (name, size, root, note)
VALUES (%(name)s, %(size)s, %(root)b, %(note)b)
ON CONFLICT (name) DO UPDATE SET size = excluded.size, root = excluded.root, note = excluded.note;

-- beacon --
-- The record of one beacon.
SELECT record FROM beacons WHERE experiment = %(digest)s AND place = %(place)s;

-- keep_beacon --
-- What is there stays.
INSERT INTO beacons (experiment, place, record) VALUES (%(digest)s, %(place)s, %(record)b)
ON CONFLICT (experiment, place) DO NOTHING;

-- beacons --
-- All records of an experiment's beacons.
SELECT place, record FROM beacons WHERE experiment = %(digest)s ORDER BY place;
