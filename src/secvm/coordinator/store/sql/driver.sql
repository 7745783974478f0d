-- Who drives, and the fence before everything that a driver changes. Time is the database's, read when a row is held.

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
