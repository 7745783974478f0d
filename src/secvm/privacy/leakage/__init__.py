"""Leakage: what public tallies give away of a label where nothing is guaranteed."""
