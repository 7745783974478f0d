"""A device's part in experiments whose cover two relays add (docs/protocol.md §25 to §33).

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
preparation          what comes before a request is sealed: relays and person agree, and there is a token
canaries             looks for the one package of its own that it looks for, and recounts its shard
membership           its session, its requests and its askings, for the host; why it takes no part any more
==================== ==================================================================================
"""
