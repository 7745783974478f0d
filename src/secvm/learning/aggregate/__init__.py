"""Sees only counts: the coordinator's side, and everybody's who recomputes it."""
