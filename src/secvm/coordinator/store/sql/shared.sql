-- What is asked alike of a SQLite file and of PostgreSQL: experiments, rounds, blobs, the log, beacons, and how epochs and
-- batches stand. It is written for PostgreSQL; ``queries.for_sqlite`` makes of it what SQLite understands.

-- experiment --
-- One experiment, held until the end of the transaction.
SELECT digest, envelope, settings, standing FROM experiments WHERE digest = %(digest)s FOR UPDATE;

-- experiments --
-- All, in the order they were added.
SELECT digest, envelope, settings, standing FROM experiments ORDER BY position;

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

-- begin_epoch --
-- An epoch that nobody has used yet begins open. Nothing is returned when it is there.
INSERT INTO epochs (epoch) VALUES (%(epoch)s) ON CONFLICT (epoch) DO NOTHING RETURNING true;

-- epoch --
-- How an epoch stands.
SELECT closed, scrubbed FROM epochs WHERE epoch = %(epoch)s;

-- hold_epoch --
-- How the epoch stands; and nobody scrubs it before the end of this transaction.
SELECT closed, scrubbed FROM epochs WHERE epoch = %(epoch)s FOR SHARE;

-- close_epoch --
-- Nothing is appended any more. Waits for everybody who holds the epoch open.
UPDATE epochs SET closed = true WHERE epoch = %(epoch)s AND NOT closed;

-- mark_scrubbed --
-- From here on nothing of it is shown. An epoch that nobody has used needs no tables.
INSERT INTO epochs (epoch, closed, scrubbed) VALUES (%(epoch)s, true, true)
ON CONFLICT (epoch) DO UPDATE SET closed = true, scrubbed = true;

-- deposited --
-- Whether the relay has deposited.
SELECT true FROM deposits WHERE epoch = %(epoch)s AND relay = %(relay)s;

-- put_deposit --
-- The count alone, where there are too many groups for one statement.
INSERT INTO deposits (epoch, relay, count) VALUES (%(epoch)s, %(relay)s, %(count)b)
ON CONFLICT (epoch, relay) DO NOTHING
RETURNING true;

-- deposits --
-- All counts of an epoch.
SELECT epoch, relay, count FROM deposits WHERE epoch = %(epoch)s ORDER BY relay;

-- add_fetch_key --
-- The epoch's fetch key, unless it has one.
INSERT INTO fetch_keys (epoch, key_id, private) VALUES (%(epoch)s, %(key_id)s, %(private)b)
ON CONFLICT (epoch) DO NOTHING;

-- fetch_key --
-- The fetch key of one epoch.
SELECT epoch, key_id, private FROM fetch_keys WHERE epoch = %(epoch)s;

-- fetch_keys --
-- All fetch keys.
SELECT epoch, key_id, private FROM fetch_keys ORDER BY epoch;

-- forget_fetch_key --
-- It is gone.
DELETE FROM fetch_keys WHERE epoch = %(epoch)s;

-- begin_batch --
-- A batch that nobody has begun yet. Nothing is returned when it is there.
INSERT INTO batches (experiment, number) VALUES (%(experiment)s, %(number)s)
ON CONFLICT (experiment, number) DO NOTHING
RETURNING id;

-- hold_batch --
-- The batch, as it stays until the end of this transaction.
SELECT id, attempt, whole, forgotten FROM batches
WHERE experiment = %(experiment)s AND number = %(number)s FOR SHARE;

-- kept_batch --
-- The batch as it is now, if it is not forgotten.
SELECT id, attempt, whole FROM batches WHERE experiment = %(experiment)s AND number = %(number)s AND NOT forgotten;

-- next_attempt --
-- The pieces of this attempt are not the batch. Waits for whoever puts one.
UPDATE batches SET attempt = attempt + 1
WHERE experiment = %(experiment)s AND number = %(number)s AND attempt = %(attempt)s AND NOT whole AND NOT forgotten
RETURNING id;

-- finish_batch --
-- The pieces of this attempt are the batch.
UPDATE batches SET whole = true
WHERE experiment = %(experiment)s AND number = %(number)s AND attempt = %(attempt)s AND NOT forgotten
RETURNING true;

-- forget_batch --
-- From here on nothing of it is shown. One that nobody has begun needs no tables.
INSERT INTO batches (experiment, number, forgotten)
SELECT digest, %(number)s, true FROM experiments WHERE digest = %(experiment)s
ON CONFLICT (experiment, number) DO UPDATE SET forgotten = true
RETURNING id;

-- batches --
-- All that have begun and are not forgotten.
SELECT experiment, number FROM batches WHERE NOT forgotten ORDER BY experiment, number;
