"""A device's part in experiments whose cover two relays add (docs/protocol.md §25 to §33).

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
agreeing             whether it takes part: both relays' terms, its person's limits
token                its one anonymous token of a round, where there are tokens
canaries             looks for the one package of its own that it looks for
recounting           counts the shard that one stands in again
stopping             why it takes no part, until its person resumes
turns                its session: told, stored, then acted upon
preparing            a round's request, computed and sealed
hearing              asks for manifests, looks at the log and for canaries
membership           one experiment: all of this, put together for the host
telling              what its person is told
==================== ==================================================================================
"""
