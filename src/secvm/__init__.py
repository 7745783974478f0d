"""Secret Vector Machines: training on data that never leaves people's devices.

This module imports nothing. The doors are

- ``secvm.estimator``: scikit-learn estimators, offline;
- ``secvm.learning``: the mathematics, pure: one person's side and the side that sees only counts;
- ``secvm.crypto``: sealing, pure: Oblivious HTTP, binary HTTP, HPKE;
- ``secvm.people``: files of people, read in a stream;
- ``secvm.cli``: the ``secvm`` program.
"""
