"""The coordinator's append-only log: its entries, checkpoints, proofs, tiles, and whose word about it counts."""
