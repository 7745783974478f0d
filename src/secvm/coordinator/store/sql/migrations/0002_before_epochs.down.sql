DROP TABLE shard_claims, shards, spent, opened, sealed;
DROP SEQUENCE group_numbers, block_numbers;
