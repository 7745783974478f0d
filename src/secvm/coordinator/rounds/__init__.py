"""The driver of plain rounds: it opens, closes, counts and publishes them by the clock."""
