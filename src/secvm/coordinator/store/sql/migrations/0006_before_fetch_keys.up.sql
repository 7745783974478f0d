-- Secret; a key that no manifest names is deleted when its epoch is over.
CREATE TABLE fetch_keys (
    epoch bigint PRIMARY KEY,
    key_id smallint NOT NULL CHECK (key_id BETWEEN 0 AND 255),
    private bytea NOT NULL
);
