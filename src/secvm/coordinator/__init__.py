"""The coordinator: knows what, not who. Opens capsules, counts once, steps, publishes; nobody has to trust it."""
