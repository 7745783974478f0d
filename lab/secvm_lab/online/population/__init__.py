"""The simulated people: who they are, which words they use, and when their devices are online."""
