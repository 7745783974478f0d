-- What came in epochs that are not scrubbed is lost too.
DO $$
DECLARE
    found regclass;
BEGIN
    FOR found IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'secvm'::regnamespace AND relkind = 'r' AND relname ~ '^epoch_[0-9]+_(sealed|opened|shards|keys)$'
    LOOP
        EXECUTE format('DROP TABLE %s', found);
    END LOOP;
END $$;
DROP TABLE shard_claims, shards, opened, sealed, keys;
DROP SEQUENCE group_numbers, block_numbers;
