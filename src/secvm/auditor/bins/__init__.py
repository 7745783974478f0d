"""How well an experiment's bins hide words: a public vocabulary, and who shares a bin with whom."""
