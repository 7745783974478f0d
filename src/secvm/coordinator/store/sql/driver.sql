-- Who drives, and the fence before everything that a driver changes; and how nodes keep out of one another's way. Time is
-- the database's, read when a row is held.

-- fence --
-- Whether this term drives; and nobody takes over before the end of this transaction.
SELECT true FROM driver WHERE term = %(term)s AND NOT resigned FOR SHARE;

-- renew --
-- The lease of whoever leads begins anew. It waits for nobody but another who asks for the lead.
UPDATE lease SET until = clock_timestamp() + %(lease_s)s * interval '1 second'
WHERE holder = %(holder)s
RETURNING term;

-- hold_lease --
-- The lease, held until the end of the transaction: who has it, and whether it runs.
SELECT holder, until > clock_timestamp() FROM lease FOR UPDATE;

-- next_term --
-- The next term begins. Waits for every change of the term before.
UPDATE driver SET term = term + 1, resigned = false RETURNING term;

-- take_lease --
-- The lease is another's from now on.
UPDATE lease
SET holder = %(holder)s, term = %(term)s, until = clock_timestamp() + %(lease_s)s * interval '1 second';

-- resign --
-- The term drives nothing any more.
UPDATE driver SET resigned = true WHERE term = %(term)s;

-- drop_lease --
-- Nobody has the lease.
UPDATE lease SET holder = NULL, until = '-infinity' WHERE term = %(term)s;

-- tell --
-- Wake up whoever listens, once this is committed.
SELECT pg_notify('secvm_changes', '');

-- in_turn --
-- One at a time adds experiments (1), or appends to the log (2), until the end of the transaction.
SELECT pg_advisory_xact_lock(1399153494, %(turn)s);

-- drop_soon --
-- Drop the tables of an epoch or a batch, and wait for others a moment only.
SET LOCAL lock_timeout = '1s';
DROP TABLE IF EXISTS {tables};

-- drop --
-- The same, and wait as long as anybody does.
DROP TABLE IF EXISTS {tables};

-- end_readers --
-- End sessions that still use these tables: a node that is stopped while it reads holds them for ever.
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE relation IN (SELECT to_regclass(name) FROM unnest(%(names)s::text[]) AS dropped (name))
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND granted AND pid <> pg_backend_pid();
