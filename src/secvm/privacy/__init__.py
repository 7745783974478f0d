"""Privacy in numbers. Pure: no I/O, no clock, no dice of its own.

- ``target`` is the (ε, δ) that somebody asks for;
- ``accounting`` says what cover is worth;
- ``leakage`` says what tallies without cover give away;
- ``statements`` tell a person both, before anybody joins;
- ``planning`` finds the cover and settings that keep a target.
"""
