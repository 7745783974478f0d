-- The moulds of an epoch's own tables. These four stay empty: each epoch that begins gets tables like them, which are
-- named after it (epoch_7_sealed), and which its scrub drops. A migration that changes a mould changes them too.
-- Capsules are random bytes and digests too: nothing is gained by compressing, so nothing tries to.

-- No number of a group or block is ever used twice, in whatever epoch.
CREATE SEQUENCE group_numbers;
CREATE SEQUENCE block_numbers;

-- The epoch's gateway key, one row. Secret; a deleted row would stay in its file, a dropped table does not.
CREATE TABLE keys (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    key_id smallint NOT NULL CHECK (key_id BETWEEN 0 AND 255),
    private bytea NOT NULL
);

-- Groups of capsules; a row is deleted when it is opened.
CREATE TABLE sealed (
    number bigint PRIMARY KEY DEFAULT nextval('group_numbers'),
    packed bytea NOT NULL,
    -- Which node is opening it, and until when nobody else does. Says nothing of when it came.
    node uuid,
    claimed_until timestamptz
);
ALTER TABLE sealed ALTER COLUMN packed SET STORAGE EXTERNAL;

-- Blocks of records, in the order of their shards; ends: at which byte each shard ends.
CREATE TABLE opened (
    number bigint PRIMARY KEY DEFAULT nextval('block_numbers'),
    packed bytea NOT NULL,
    ends integer[] NOT NULL
);
ALTER TABLE opened ALTER COLUMN packed SET STORAGE EXTERNAL;

-- What a shard came to, in pieces: a value has less than a gigabyte.
CREATE TABLE shards (
    shard integer NOT NULL,
    piece integer NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (shard, piece)
);
ALTER TABLE shards ALTER COLUMN result SET STORAGE EXTERNAL;

-- Which node is counting a shard, and until when nobody else does. Deleted by scrub.
CREATE TABLE shard_claims (
    epoch bigint NOT NULL REFERENCES epochs (epoch),
    shard integer NOT NULL,
    node uuid NOT NULL,
    claimed_until timestamptz NOT NULL,
    PRIMARY KEY (epoch, shard)
);
