"""Counting: which capsules are new, and what their packages add up to; ``reference``, and ``fast``, which needs numba."""
