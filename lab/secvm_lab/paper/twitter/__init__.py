"""People made after the census of words that the paper took from Twitter."""
