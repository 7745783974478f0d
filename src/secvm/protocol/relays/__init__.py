"""Two relays: what they, the coordinator and devices tell each other of a round (docs/protocol.md §25 to §34).

==================== ==================================================================================
label                the name of a round, capsules and their digests
capsule_tree         root over capsules; that one of them is there, and that one is not
statements           small documents that one relay signs; all below are some
commitments          what both relays are bound to before a round
manifest             a round, as it is announced
submission, receipts what a device sends, and what it gets for it
canary               the one package of its own that a device looks for
counts               how many capsules each relay handed on
pieces               one piece of a batch on its way
terms                what a relay takes on at all
reveals              which part of each relay's cover is opened
opening, judging     how a round ended, and whether that is true
opened_parts         the two parts that it opened, capsule by capsule
stepping             the model after it
ending               what remains when an experiment is over
shards, junk, cells  the capsules in public, and what each of them counts; ``bulk_junk`` for many at once
recount              a published shard checked, and counted again
shard_runs           their digests, as a device fetches them to look for its canary
missing_canary       the file that shows that a relay left a canary out
==================== ==================================================================================
"""
