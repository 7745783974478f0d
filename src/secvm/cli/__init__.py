"""The ``secvm`` program: one file per command. It prints; it decides nothing."""
