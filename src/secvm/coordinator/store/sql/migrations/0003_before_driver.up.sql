-- Who drives. Both tables have one row.

-- The fence. Every change of a driver holds this row FOR SHARE until its commit; taking over changes it, and so waits
-- for changes under way, and all later ones see it.
CREATE TABLE driver (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    term bigint NOT NULL,
    resigned boolean NOT NULL
);
INSERT INTO driver (term, resigned) VALUES (0, true);

-- The lease, apart from the fence: renewing it never waits for a change.
CREATE TABLE lease (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    term bigint NOT NULL,
    holder text,
    until timestamptz NOT NULL
);
INSERT INTO lease (term, holder, until) VALUES (0, NULL, '-infinity');
