"""Experiments with two relays' cover, as a coordinator drives them (docs/protocol.md §25 to §33).

Everything else of a coordinator, keys for fetches and rounds of plain experiments among it, is as without relays.
"""
