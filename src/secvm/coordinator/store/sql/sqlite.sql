-- What is asked of a coordinator's SQLite file alone. One process has it, so nobody waits and nothing is claimed; epochs
-- and batches share their tables. {table} is ``sealed`` or ``opened``.

-- in_turn --
-- One transaction runs at a time: whoever asks has its turn.
SELECT 1;

-- make_epoch_tables --
-- Epochs share theirs.
SELECT 1;

-- make_batch_tables --
-- So do batches.
SELECT 1;

-- next_term --
-- The next term begins. Who has it, the process knows.
UPDATE driver SET term = term + 1 RETURNING term;

-- add_key --
-- The epoch's key, unless it has one.
INSERT INTO keys (epoch, key_id, private) VALUES (:epoch, :key_id, :private) ON CONFLICT (epoch) DO NOTHING;

-- key --
-- The epoch's key.
SELECT epoch, key_id, private FROM keys WHERE epoch = :epoch;

-- keys --
-- All keys.
SELECT epoch, key_id, private FROM keys ORDER BY epoch;

-- put_sealed --
-- A group of capsules.
INSERT INTO sealed (epoch, packed) VALUES (:epoch, :packed);

-- sealed --
-- The oldest groups.
SELECT number, packed FROM sealed JOIN epochs USING (epoch)
WHERE epoch = :epoch AND NOT scrubbed ORDER BY number LIMIT :limit;

-- left_sealed --
-- Whether anything is still sealed.
SELECT EXISTS (SELECT 1 FROM sealed JOIN epochs USING (epoch) WHERE epoch = :epoch AND NOT scrubbed);

-- take_sealed --
-- A group that was opened goes.
DELETE FROM sealed WHERE number = :number AND epoch = :epoch RETURNING true;

-- put_opened --
-- A block in the place of groups, also in a closed epoch.
INSERT INTO opened (epoch, packed) VALUES (:epoch, :block);

-- sizes --
-- How large the rows are that follow one.
SELECT number, length(packed) FROM {table} WHERE epoch = :epoch AND number > :after ORDER BY number LIMIT :rows;

-- opened --
-- The blocks after one, up to another.
SELECT packed FROM opened WHERE epoch = :epoch AND number > :after AND number <= :last ORDER BY number;

-- remove_rows --
-- Rows of a scrubbed epoch are gone.
DELETE FROM {table} WHERE epoch = :epoch AND number <= :last;

-- keep_shard --
-- What the epoch's one shard came to, unless it is known.
INSERT INTO shards (epoch, result) VALUES (:epoch, :result) ON CONFLICT (epoch) DO NOTHING;

-- counted_shards --
-- Whether the one shard has a result.
SELECT 0 FROM shards WHERE epoch = :epoch;

-- shard --
-- Its result.
SELECT result FROM shards WHERE epoch = :epoch;

-- forget_key --
-- The key of a scrubbed epoch is gone.
DELETE FROM keys WHERE epoch = :epoch;

-- forget_shards --
-- So is what its shard came to.
DELETE FROM shards WHERE epoch = :epoch;

-- scrubbed_with_rows --
-- Scrubbed epochs of which something is left.
SELECT epoch FROM epochs
WHERE scrubbed AND (
    EXISTS (SELECT 1 FROM sealed WHERE sealed.epoch = epochs.epoch)
    OR EXISTS (SELECT 1 FROM opened WHERE opened.epoch = epochs.epoch)
);

-- put_seed --
-- The batch's seed, unless it has one.
INSERT INTO count_seeds (batch, seed) VALUES (:batch, :seed) ON CONFLICT (batch) DO NOTHING;

-- seed --
-- The batch's seed.
SELECT seed FROM count_seeds WHERE batch = :batch;

-- have --
-- The pieces that are here.
SELECT piece FROM pieces WHERE batch = :batch ORDER BY piece;

-- piece --
-- One piece.
SELECT data FROM pieces WHERE batch = :batch AND piece = :index;

-- put_piece --
-- A piece that is not here yet. Nothing is returned when it is.
INSERT INTO pieces (batch, piece, data) VALUES (:batch, :index, :data)
ON CONFLICT (batch, piece) DO NOTHING RETURNING true;

-- drop_pieces --
-- They are gone.
DELETE FROM pieces WHERE batch = :batch;

-- keep_run --
-- What a run came to, unless somebody has told it before.
INSERT INTO runs (batch, run, result) VALUES (:batch, :run, :result) ON CONFLICT (batch, run) DO NOTHING;

-- counted_runs --
-- Which runs have a result.
SELECT run FROM runs WHERE batch = :batch;

-- run_result --
-- One result.
SELECT result FROM runs WHERE batch = :batch AND run = :run;

-- forget_seed --
-- The seed of a forgotten batch is gone.
DELETE FROM count_seeds WHERE batch = :batch;

-- forget_runs --
-- So is what its runs came to.
DELETE FROM runs WHERE batch = :batch;

-- forgotten_with_pieces --
-- Forgotten batches of which pieces are left.
SELECT id FROM batches WHERE forgotten AND id IN (SELECT batch FROM pieces);

-- remove_piece --
-- The first piece of a forgotten batch is gone.
DELETE FROM pieces WHERE batch = :batch AND piece = (SELECT min(piece) FROM pieces WHERE batch = :batch)
RETURNING true;
