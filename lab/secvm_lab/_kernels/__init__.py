"""The lab's compiled half: people by the hundred thousand, without a Python object per word (needs numba)."""
