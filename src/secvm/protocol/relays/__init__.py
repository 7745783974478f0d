"""Two relays: what they, the coordinator and devices tell each other of a round (docs/protocol.md §25 to §34).

A round in the order in which it happens:

- ``statements``: what a relay takes on, and the form of all that it signs;
- ``commitments``, ``manifest``: what both relays are bound to before a round, and the round as it is announced;
- ``submission``, ``session``: what a device sends, the receipt that it gets, and the canary;
- ``batches``, ``counts``: the capsules on their way from relay to relay, and what is signed of them;
- ``cover_parts``, ``counting``, ``shards``, ``recount``: the opened part of the cover, and the capsules counted;
- ``opening``, ``news``: how a round ended, whether that is true, and what a device fetches to believe the next one.
"""
