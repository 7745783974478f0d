-- Batches of rounds with two relays. {seeds}, {pieces} and {runs} are the batch's own tables.

-- make_batch_tables --
-- The tables of a batch that begins, like the moulds.
CREATE TABLE {seeds} (LIKE batch_seeds INCLUDING ALL);
CREATE TABLE {pieces} (LIKE batch_pieces INCLUDING ALL);
CREATE TABLE {runs} (LIKE batch_runs INCLUDING ALL);

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
-- A piece that is not here yet. Nothing is returned when it is.
INSERT INTO {pieces} (piece, data) VALUES (%(index)s, %(data)b) ON CONFLICT (piece) DO NOTHING RETURNING true;

-- drop_pieces --
-- They are gone.
DELETE FROM {pieces};

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
VALUES (%(batch)s, %(index)s, %(node)s, clock_timestamp() + %(claim_s)s * interval '1 second')
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

-- release_runs --
-- Let go of the runs that this node has claimed.
DELETE FROM run_claims WHERE node = %(node)s;

-- drop_run_claims --
-- Nobody counts it any more.
DELETE FROM run_claims WHERE batch = %(batch)s;

-- forgotten_with_tables --
-- Forgotten batches that still have tables: all of a batch go at once, so one stands for the others.
SELECT id FROM batches WHERE forgotten AND to_regclass(format('batch_%%s_seeds', id)) IS NOT NULL ORDER BY id;
