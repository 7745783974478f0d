"""Attacks on rounds of two relays, A20 and on: several a module, as they share a stage."""
