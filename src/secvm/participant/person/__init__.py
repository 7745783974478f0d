"""What a person decides about experiments, and what their device tells them about each."""
