"""The reader's compiled half: from a block of bytes to bins without a Python object per feature (needs numba)."""
