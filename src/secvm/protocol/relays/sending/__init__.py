"""A device's part in a round with two relays: its session, its one submission, receipt and canary."""
