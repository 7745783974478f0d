"""The lab: made-up populations to try things on; later attacks, baselines and the paper's evaluations."""
