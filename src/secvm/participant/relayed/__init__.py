"""A device's part in experiments whose cover two relays add (docs/protocol.md §25 to §33).

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
agreement            whether it takes part: both relays' terms, its person's limits
canaries             looks for the one package of its own that it looks for, and recounts its shard
distrust             why it takes no part, until its person resumes
turns                its session: told, stored, then acted upon
preparation          a round's request with its token, computed and sealed
listener             asks for manifests, looks at the log and for canaries
membership           one experiment: all of this, put together for the host
==================== ==================================================================================
"""
