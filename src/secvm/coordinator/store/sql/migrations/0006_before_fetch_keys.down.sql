DROP TABLE fetch_keys;
