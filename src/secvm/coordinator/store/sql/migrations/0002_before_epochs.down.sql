DROP TABLE shard_claims, shards, spent, opened, sealed;
DROP SEQUENCE numbers;
