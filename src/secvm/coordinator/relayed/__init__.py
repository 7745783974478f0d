"""Experiments with two relays' cover, as a coordinator drives them (docs/protocol.md §25 to §33).

================ ======================================================================================
books            what the store holds of each such experiment, put together
asking           the relays are asked for commitments, counts and reveals
papers           which statements of relays are kept, and which are not
arrivals, routes the mixing relay's batch comes in, piece by piece
run_results      what the capsules of a piece came to
run_counting     pieces are opened and counted, by all nodes together
concluding       counts, reveals and capsules put together: opened, or why not
driver           rounds, from one instant to the next
showing, status  what of it is public
shard_files      the shards of a round, for whoever looks for a capsule or counts again
shard_folder     the same as files of the public folder
forgetting       until when they are kept
================ ======================================================================================

Everything else of a coordinator, keys for fetches and rounds of plain experiments among it, is as without relays.
"""
