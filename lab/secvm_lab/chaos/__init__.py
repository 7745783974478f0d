"""Chaos for real: faults for a federation of processes, and the accounts that tell whether anything came of them."""
