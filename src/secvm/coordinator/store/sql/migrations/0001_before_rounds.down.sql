DROP TABLE beacons, notes, deposits, blobs, rounds, epochs, experiments;
