"""Lies in experiments with two relays, as devices hear them: Python's device and the browser's."""
