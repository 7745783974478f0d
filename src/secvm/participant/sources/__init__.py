"""Where a person's features come from. ``port.py`` says what a source is; ``registry.py`` finds them."""
