"""The evaluations of the paper and ours beside them: each says which models it needs and what came of them."""
