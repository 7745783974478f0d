"""How the capsules of a round become a tally that anybody can count again: cells, shards and the recount."""
