"""Public histories of experiments in memory: documents, rounds, logs and files, as honest parties make them."""
