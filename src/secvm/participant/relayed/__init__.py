"""A device's part in experiments whose cover two relays add (docs/protocol.md §25 to §33).

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
preparation          a round's request with its token, computed and sealed once relays and person agree
canaries             looks for the one package of its own that it looks for, and recounts its shard
membership           its session and its askings, put together for the host; why it takes no part any more
==================== ==================================================================================
"""
