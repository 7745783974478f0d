"""Commands that work on files alone: train, evaluate and predict, without a network."""
