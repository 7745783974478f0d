-- Batches of rounds with two relays. Each has tables of its own, made like the moulds below and named after its id
-- (batch_7_pieces), which are dropped when it is forgotten.
CREATE TABLE batches (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    experiment text COLLATE "C" NOT NULL REFERENCES experiments (digest),
    number bigint NOT NULL CHECK (number >= 1),
    -- Whoever puts a piece holds this row FOR SHARE until its commit; dropping, finishing and forgetting change it.
    attempt integer NOT NULL DEFAULT 0,
    whole boolean NOT NULL DEFAULT false,
    -- Nothing of it is shown any more, though tables may be left to drop.
    forgotten boolean NOT NULL DEFAULT false,
    UNIQUE (experiment, number)
);

-- The seed of the round's count key, one row. Secret until the round is opened; a dropped table does not stay in a file.
CREATE TABLE batch_seeds (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seed bytea NOT NULL
);

-- Inner capsules side by side, as they came.
CREATE TABLE batch_pieces (
    piece integer PRIMARY KEY CHECK (piece >= 0),
    data bytea NOT NULL
);
ALTER TABLE batch_pieces ALTER COLUMN data SET STORAGE EXTERNAL;

-- What a piece's capsules came to.
CREATE TABLE batch_runs (
    run integer PRIMARY KEY CHECK (run >= 0),
    result bytea NOT NULL
);

-- Which node is counting a run, and until when nobody else does. Deleted when the batch is forgotten.
CREATE TABLE run_claims (
    batch bigint NOT NULL REFERENCES batches (id),
    run integer NOT NULL,
    node uuid NOT NULL,
    claimed_until timestamptz NOT NULL,
    PRIMARY KEY (batch, run)
);
