-- Digests that are kept for receipts. {received} is the epoch's own table.

-- root --
-- What is kept of an epoch, held until the end of the transaction.
SELECT root FROM received_epochs WHERE epoch = %(epoch)s FOR UPDATE;

-- layout --
-- How an epoch's digests lie.
SELECT bits, count FROM received_epochs WHERE epoch = %(epoch)s;

-- make_table --
-- A table for an epoch, like the mould, empty.
DROP TABLE IF EXISTS {received};
CREATE TABLE {received} (LIKE received INCLUDING ALL);

-- put --
-- The next pieces.
INSERT INTO {received} (piece, data) SELECT * FROM unnest(%(pieces)s::bigint[], %(data)b::bytea[]);

-- keep --
-- The epoch is kept; what was kept of it before is replaced.
INSERT INTO received_epochs (epoch, bits, count, root) VALUES (%(epoch)s, %(bits)s, %(count)s, %(root)b)
ON CONFLICT (epoch) DO UPDATE SET bits = excluded.bits, count = excluded.count, root = excluded.root;

-- ranges --
-- Bytes out of pieces: for each range a piece, where it begins there, and its size.
SELECT substr(data, start + 1, size)
FROM unnest(%(pieces)s::bigint[], %(starts)s::integer[], %(sizes)s::integer[])
    WITH ORDINALITY AS wanted (piece, start, size, place)
JOIN {received} USING (piece)
ORDER BY place;

-- epochs --
-- All that are kept.
SELECT epoch FROM received_epochs ORDER BY epoch;

-- over_since --
-- Since when the epoch is kept for experiments that are over: now, or what was said first.
INSERT INTO received_over (epoch, since) VALUES (%(epoch)s, %(now)s)
ON CONFLICT (epoch) DO UPDATE SET since = received_over.since
RETURNING since;

-- forget --
-- The epoch is not kept any more.
DELETE FROM received_epochs WHERE epoch = %(epoch)s;

-- forget_over --
-- Nor since when.
DELETE FROM received_over WHERE epoch = %(epoch)s;

-- drop_table --
-- Its digests are gone.
DROP TABLE IF EXISTS {received};
