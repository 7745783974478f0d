"""The coordinator's log: its entries, the witnesses that cosign it, its public files, and records of beacons."""
