"""The paper's lemmas and further bounds, which no party of a federation needs.

Probabilities here are as small as 1e-173415, so they are kept as logarithms (``probability.ProbabilityBound``).
"""
