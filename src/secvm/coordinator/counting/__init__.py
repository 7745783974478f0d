"""The count of an epoch: forms of opened packages and the tallies that they add up to."""
