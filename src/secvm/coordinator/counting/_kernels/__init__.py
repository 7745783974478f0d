"""Counting: which capsules are new, and what their packages add up to. ``fast`` needs numba, ``reference`` does not."""
