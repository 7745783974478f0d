"""Privacy in numbers: what is guaranteed, what is measured. Pure: no I/O, no clock, no dice of its own.

Probabilities here are as small as 1e-173415, so they are kept as logarithms (``probability.ProbabilityBound``).
"""
