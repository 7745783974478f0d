"""What both roles of a relay do with a round's capsules: keep, sort, hand on, forget (docs/protocol.md §30).

Nothing here knows which of the two roles it serves; ``relay.entry`` and ``relay.mix`` do.
"""
