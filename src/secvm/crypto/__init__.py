"""Ready-made cryptography behind a few verbs; bytes to bytes, pure, random bytes handed in. ``signing`` is the door."""
