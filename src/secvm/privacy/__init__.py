"""Privacy in numbers."""
