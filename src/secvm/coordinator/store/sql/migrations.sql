-- Which migrations a database has had.

-- lock --
-- One migrator at a time, until the end of the transaction.
SELECT pg_advisory_xact_lock(%(lock)s);

-- table --
-- Whether a migrator was here before.
SELECT to_regclass('migrations') IS NOT NULL;

-- begin --
-- A place of our own, and the list.
CREATE SCHEMA IF NOT EXISTS secvm;
CREATE TABLE migrations (
    number integer PRIMARY KEY,
    phase text NOT NULL CHECK (phase IN ('before', 'after')),
    name text NOT NULL
);

-- applied --
-- All that it has had.
SELECT number, phase, name FROM migrations;

-- done --
-- One more.
INSERT INTO migrations (number, phase, name) VALUES (%(number)s, %(phase)s, %(name)s);

-- undone --
-- One less.
DELETE FROM migrations WHERE number = %(number)s;
