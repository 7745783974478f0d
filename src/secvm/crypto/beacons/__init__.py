"""Public randomness that nobody chose: the beacons of drand and NIST, read strictly and verified."""
