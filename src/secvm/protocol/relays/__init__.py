"""Two relays: what they, the coordinator and devices tell each other of a round (docs/protocol.md §25 to §34).

A round in the order in which it happens:

- ``terms``, ``statements``: what a relay takes on, and the form of all that it signs;
- ``cover.commitments``, ``manifest``: what both relays are bound to before a round, and the round as it is announced;
- ``sending``: what a device sends, the receipt that it gets, and the canary that it looks for afterwards;
- ``batches``: the capsules on their way from relay to relay, and the counts that are signed of them;
- ``cover.reveals``, ``counting``: the part of the cover that is opened, and the capsules in public, counted;
- ``opening``, ``judgement``, ``step``: how a round ended, whether that is true, and the model after it;
- ``news``, ``ending``: what a device fetches to believe the next round, and what remains of an experiment.
"""
