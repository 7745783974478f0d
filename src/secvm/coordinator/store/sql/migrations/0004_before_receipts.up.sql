-- Epochs whose digests are kept for receipts. The digests and the nodes over them are in a table of each epoch
-- (received_7), made like the mould below, which is dropped when the epoch's receipts are.
CREATE TABLE received_epochs (
    epoch bigint PRIMARY KEY,
    -- How many bits name a bucket.
    bits integer NOT NULL CHECK (bits BETWEEN 0 AND 32),
    count bigint NOT NULL CHECK (count >= 0),
    root bytea NOT NULL
);

-- Since when an epoch is only kept for experiments that are over: milliseconds since 1970, of the round's clock.
CREATE TABLE received_over (
    epoch bigint PRIMARY KEY,
    since bigint NOT NULL
);

-- Digests, then where each bucket starts, then the levels of the tree: all in pieces of one size.
CREATE TABLE received (
    piece bigint PRIMARY KEY,
    data bytea NOT NULL
);
ALTER TABLE received ALTER COLUMN data SET STORAGE EXTERNAL;
