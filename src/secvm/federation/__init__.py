"""A whole federation's parties, set up to match: the settings and keys of each in a folder of its own.

- ``folders.write_folders``: every party's folder, ready to be carried to its machine.
- ``tables``: what the parties' settings say of one another; ``secvm.testing.Federation`` writes the same.
- ``example``: an experiment that fits them, and people who do not exist.
"""
