-- What came in batches that are not forgotten is lost too.
DO $$
DECLARE
    found regclass;
BEGIN
    FOR found IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'secvm'::regnamespace AND relkind = 'r' AND relname ~ '^batch_[0-9]+_(seeds|pieces|runs)$'
    LOOP
        EXECUTE format('DROP TABLE %s', found);
    END LOOP;
END $$;
DROP TABLE run_claims, batch_runs, batch_pieces, batch_seeds, batches;
