"""The targets, by the kind of bytes that they read."""
