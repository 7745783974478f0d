DROP TABLE beacons, notes, deposits, keys, blobs, rounds, epochs, experiments;
