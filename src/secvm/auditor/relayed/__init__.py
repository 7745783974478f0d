"""The replay of experiments with two relays, whose capsules anybody can count again."""
