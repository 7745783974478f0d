"""The replay of experiments with one relay, whose tallies the coordinator publishes."""
