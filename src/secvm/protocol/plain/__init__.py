"""Experiments without two relays: single packages, each sealed for the coordinator, spread over the window."""
