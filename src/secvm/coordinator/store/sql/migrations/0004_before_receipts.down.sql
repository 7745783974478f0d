-- Receipts that are kept are lost too.
DO $$
DECLARE
    found regclass;
BEGIN
    FOR found IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'secvm'::regnamespace AND relkind = 'r' AND relname ~ '^received_[0-9]+$'
    LOOP
        EXECUTE format('DROP TABLE %s', found);
    END LOOP;
END $$;
DROP TABLE received, received_over, received_epochs;
