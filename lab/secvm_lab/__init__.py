"""The laboratory: attacks, baselines, the paper's evaluations, simulators, and what disturbs or fuzzes a federation.

It depends on ``secvm``, never the other way; its commands are hung into ``secvm`` by entry points (``secvm_lab.cli``).
"""
