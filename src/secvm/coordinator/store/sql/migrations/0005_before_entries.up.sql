-- The log of all experiments, line by line; its order is known from nowhere else. Never changes.
CREATE TABLE entries (
    place bigint PRIMARY KEY CHECK (place >= 0),
    entry bytea NOT NULL
);
