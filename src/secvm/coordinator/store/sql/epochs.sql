-- Epochs and what came in them. {sealed}, {opened}, {shards} and {keys} are the epoch's own tables;
-- {groups} is as many groups as are given.

-- node --
-- A name for a node that no other has.
SELECT gen_random_uuid();

-- make_epoch_tables --
-- The tables of an epoch that begins, like the moulds.
CREATE TABLE {sealed} (LIKE sealed INCLUDING ALL);
CREATE TABLE {opened} (LIKE opened INCLUDING ALL);
CREATE TABLE {shards} (LIKE shards INCLUDING ALL);
CREATE TABLE {keys} (LIKE keys INCLUDING ALL);

-- hold_open --
-- Whether the epoch is open; and nobody closes it before the end of this transaction.
SELECT true FROM epochs WHERE epoch = %(epoch)s AND NOT closed FOR SHARE;

-- add_key --
-- The epoch's key, unless it has one.
INSERT INTO {keys} (key_id, private) VALUES (%(key_id)s, %(private)b) ON CONFLICT (one) DO NOTHING;

-- key --
-- The epoch's key; those of several epochs are asked for at once.
SELECT {epoch} AS epoch, key_id, private FROM {keys};

-- append_sealed --
-- Groups of capsules, while the epoch is open: one statement, so one transaction and one journey. Whoever waited for
-- the row while it was closed finds it closed.
WITH held AS MATERIALIZED (
    SELECT 1 FROM epochs WHERE epoch = %(epoch)s AND NOT closed FOR SHARE
), put AS (
    INSERT INTO {sealed} (packed) SELECT packed FROM held, {groups} AS given (packed)
)
SELECT count(*) > 0 FROM held;

-- deposit --
-- A relay's count with its groups, while the epoch is open, unless it has deposited before.
WITH held AS MATERIALIZED (
    SELECT epoch FROM epochs WHERE epoch = %(epoch)s AND NOT closed FOR SHARE
), counted AS (
    INSERT INTO deposits (epoch, relay, count) SELECT epoch, %(relay)s, %(count)b FROM held
    ON CONFLICT (epoch, relay) DO NOTHING
    RETURNING 1
), put AS (
    INSERT INTO {sealed} (packed) SELECT packed FROM counted, {groups} AS given (packed)
)
SELECT count(*) > 0 FROM counted;

-- put_sealed --
-- Groups of whoever holds the epoch open.
INSERT INTO {sealed} (packed) SELECT packed FROM {groups} AS given (packed);

-- claim_sealed --
-- The oldest groups that nobody else is opening, for this node. Groups that another is claiming just now are not
-- waited for. The bytes are fetched apart: whoever is stopped while it reads them holds no row.
WITH free AS (
    SELECT number FROM {sealed}
    WHERE node IS NULL OR node = %(node)s OR claimed_until <= clock_timestamp()
    ORDER BY number LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE {sealed} AS claimed
SET node = %(node)s, claimed_until = clock_timestamp() + %(claim_s)s * interval '1 second'
FROM free, epochs
WHERE claimed.number = free.number AND epochs.epoch = %(epoch)s AND NOT epochs.scrubbed
RETURNING claimed.number;

-- sealed --
-- The groups with these numbers.
SELECT number, packed FROM {sealed} WHERE number = ANY(%(numbers)s) ORDER BY number;

-- left_sealed --
-- Whether anything is still sealed, whoever has claimed it.
SELECT EXISTS (SELECT FROM {sealed}) AND EXISTS (SELECT FROM epochs WHERE epoch = %(epoch)s AND NOT scrubbed);

-- take_sealed --
-- Groups that were opened go, unless another node has claimed them since.
DELETE FROM {sealed} WHERE number = ANY(%(numbers)s) AND (node IS NULL OR node = %(node)s) RETURNING true;

-- put_opened --
-- A block in the place of groups, also in a closed epoch.
INSERT INTO {opened} (packed, ends) VALUES (%(block)b, %(ends)s);

-- opened --
-- The next blocks, as many as make a piece, and at least one.
SELECT number, packed FROM (
    SELECT number, packed, sum(length(packed)) OVER (ORDER BY number) - length(packed) AS before
    FROM (SELECT number, packed FROM {opened} WHERE number > %(after)s ORDER BY number LIMIT %(rows)s) AS following
) AS sized
WHERE before < %(bytes)s AND EXISTS (SELECT FROM epochs WHERE epoch = %(epoch)s AND NOT scrubbed)
ORDER BY number;

-- opened_of_shard --
-- The same of one shard. Only its own bytes are read: they lie side by side.
SELECT number, substr(packed, start + 1, size) FROM (
    SELECT number, packed, start, size, sum(size) OVER (ORDER BY number) - size AS before
    FROM (
        SELECT number, packed, start, ends[%(shard)s::integer + 1] - start AS size
        FROM (
            SELECT number, packed, ends, CASE %(shard)s::integer WHEN 0 THEN 0 ELSE ends[%(shard)s::integer] END AS start
            FROM {opened} WHERE number > %(after)s ORDER BY number LIMIT %(rows)s
        ) AS following
    ) AS bounded
) AS sized
WHERE before < %(bytes)s AND EXISTS (SELECT FROM epochs WHERE epoch = %(epoch)s AND NOT scrubbed)
ORDER BY number;

-- free_shard --
-- A shard without a result that nobody else is counting; first the one that this node has.
SELECT every.shard FROM generate_series(0, %(last)s) AS every (shard)
LEFT JOIN shard_claims AS claim ON claim.epoch = %(epoch)s AND claim.shard = every.shard
WHERE (claim.node IS NULL OR claim.node = %(node)s OR claim.claimed_until <= clock_timestamp())
    AND NOT EXISTS (SELECT FROM {shards} AS kept WHERE kept.shard = every.shard)
ORDER BY claim.node IS DISTINCT FROM %(node)s, every.shard LIMIT 1;

-- claim_shard --
-- The shard is this node's, unless another one was quicker.
INSERT INTO shard_claims (epoch, shard, node, claimed_until)
VALUES (%(epoch)s, %(index)s, %(node)s, clock_timestamp() + %(claim_s)s * interval '1 second')
ON CONFLICT (epoch, shard) DO UPDATE SET node = excluded.node, claimed_until = excluded.claimed_until
WHERE shard_claims.node = excluded.node OR shard_claims.claimed_until <= clock_timestamp()
RETURNING shard;

-- keep_shard --
-- One piece of a shard's result. Nothing is returned when it is there.
INSERT INTO {shards} (shard, piece, result) VALUES (%(shard)s, %(piece)s, %(result)b)
ON CONFLICT (shard, piece) DO NOTHING
RETURNING true;

-- counted_shards --
-- Which shards have a result.
SELECT shard FROM {shards} WHERE piece = 0 AND EXISTS (SELECT FROM epochs WHERE epoch = %(epoch)s AND NOT scrubbed);

-- shard --
-- One result, in its pieces.
SELECT result FROM {shards}
WHERE shard = %(shard)s AND EXISTS (SELECT FROM epochs WHERE epoch = %(epoch)s AND NOT scrubbed)
ORDER BY piece;

-- begun --
-- Open epochs, and closed ones that are not scrubbed.
SELECT epoch FROM epochs WHERE NOT scrubbed ORDER BY epoch;

-- release_sealed --
-- Let go of what this node has claimed.
UPDATE {sealed} SET node = NULL, claimed_until = NULL WHERE node = %(node)s;

-- release_shards --
-- Let go of the shards that this node has claimed.
DELETE FROM shard_claims WHERE node = %(node)s;

-- drop_shard_claims --
-- Nobody counts it any more.
DELETE FROM shard_claims WHERE epoch = %(epoch)s;

-- scrubbed_with_tables --
-- Scrubbed epochs that still have tables: all of an epoch go at once, so one stands for the others.
SELECT epoch FROM epochs WHERE scrubbed AND to_regclass(format('epoch_%%s_keys', epoch)) IS NOT NULL ORDER BY epoch;
