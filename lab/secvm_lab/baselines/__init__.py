"""Other ways to learn from the same people, to measure ours against: each a value with ``fit``."""
