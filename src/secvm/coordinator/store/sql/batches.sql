-- Batches of rounds with two relays. {seeds}, {pieces} and {runs} are the batch's own tables.

-- begin --
-- A batch that nobody has begun yet. Nothing is returned when it is there.
INSERT INTO batches (experiment, number) VALUES (%(experiment)s, %(number)s)
ON CONFLICT (experiment, number) DO NOTHING
RETURNING id;

-- make_tables --
-- The tables of a batch that begins, like the moulds.
CREATE TABLE {seeds} (LIKE batch_seeds INCLUDING ALL);
CREATE TABLE {pieces} (LIKE batch_pieces INCLUDING ALL);
CREATE TABLE {runs} (LIKE batch_runs INCLUDING ALL);

-- held --
-- The batch, as it stays until the end of this transaction.
SELECT id, attempt, whole, forgotten FROM batches
WHERE experiment = %(experiment)s AND number = %(number)s FOR SHARE;

-- kept --
-- The batch as it is now, if it is not forgotten.
SELECT id, attempt, whole FROM batches WHERE experiment = %(experiment)s AND number = %(number)s AND NOT forgotten;

-- put_seed --
-- The batch's seed, unless it has one.
INSERT INTO {seeds} (seed) VALUES (%(seed)b) ON CONFLICT (one) DO NOTHING;

-- seed --
-- The batch's seed.
SELECT seed FROM {seeds};

-- have --
-- The pieces that are here.
SELECT piece FROM {pieces} ORDER BY piece;

-- piece --
-- One piece.
SELECT data FROM {pieces} WHERE piece = %(index)s;

-- put_piece --
-- A piece that is not here yet.
INSERT INTO {pieces} (piece, data) VALUES (%(index)s, %(data)b) ON CONFLICT (piece) DO NOTHING;

-- next_attempt --
-- The pieces of this attempt are not the batch. Waits for whoever puts one.
UPDATE batches SET attempt = attempt + 1
WHERE experiment = %(experiment)s AND number = %(number)s AND attempt = %(attempt)s AND NOT whole AND NOT forgotten
RETURNING id;

-- drop_pieces --
-- They are gone.
DELETE FROM {pieces};

-- finish --
-- The pieces of this attempt are the batch.
UPDATE batches SET whole = true
WHERE experiment = %(experiment)s AND number = %(number)s AND attempt = %(attempt)s AND NOT forgotten
RETURNING true;

-- free_run --
-- A run without a result that nobody else is counting; first the one that this node has.
SELECT every.run FROM generate_series(0, %(last)s) AS every (run)
LEFT JOIN run_claims AS claim ON claim.batch = %(batch)s AND claim.run = every.run
WHERE (claim.node IS NULL OR claim.node = %(node)s OR claim.claimed_until <= clock_timestamp())
    AND NOT EXISTS (SELECT FROM {runs} AS kept WHERE kept.run = every.run)
ORDER BY claim.node IS DISTINCT FROM %(node)s, every.run LIMIT 1;

-- claim_run --
-- The run is this node's, unless another one was quicker.
INSERT INTO run_claims (batch, run, node, claimed_until)
VALUES (%(batch)s, %(run)s, %(node)s, clock_timestamp() + %(claim_s)s * interval '1 second')
ON CONFLICT (batch, run) DO UPDATE SET node = excluded.node, claimed_until = excluded.claimed_until
WHERE run_claims.node = excluded.node OR run_claims.claimed_until <= clock_timestamp()
RETURNING run;

-- keep_run --
-- What a run came to, unless somebody has told it before.
INSERT INTO {runs} (run, result) VALUES (%(run)s, %(result)b) ON CONFLICT (run) DO NOTHING;

-- counted_runs --
-- Which runs have a result.
SELECT run FROM {runs};

-- run_result --
-- One result.
SELECT result FROM {runs} WHERE run = %(run)s;

-- forget --
-- From here on nothing of it is shown. One that nobody has begun needs no tables.
INSERT INTO batches (experiment, number, forgotten)
SELECT digest, %(number)s, true FROM experiments WHERE digest = %(experiment)s
ON CONFLICT (experiment, number) DO UPDATE SET forgotten = true
RETURNING id;

-- drop_claims --
-- Nobody counts it any more.
DELETE FROM run_claims WHERE batch = %(batch)s;

-- left_to_drop --
-- Forgotten batches that still have tables: all of a batch go at once, so one stands for the others.
SELECT id FROM batches WHERE forgotten AND to_regclass(format('batch_%%s_seeds', id)) IS NOT NULL ORDER BY id;

-- drop_soon --
-- Wait for others a moment only.
SET LOCAL lock_timeout = '1s';

-- drop_tables --
-- All that came in the batch is gone.
DROP TABLE IF EXISTS {seeds}, {pieces}, {runs};

-- end_readers --
-- End sessions that still use tables of a forgotten batch: a node that is stopped while it reads holds them for ever.
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE relation IN (to_regclass('{seeds}'), to_regclass('{pieces}'), to_regclass('{runs}'))
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND granted AND pid <> pg_backend_pid();

-- batches --
-- All that have begun and are not forgotten.
SELECT experiment, number FROM batches WHERE NOT forgotten ORDER BY experiment, number;

-- release_runs --
-- Let go of the runs that this node has claimed.
DELETE FROM run_claims WHERE node = %(node)s;
