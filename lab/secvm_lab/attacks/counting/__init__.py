"""Attacks by what is counted and published: one person among many, whose numbers change a tally."""
