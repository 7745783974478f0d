"""Commands as they are typed, for every test of this folder."""

from tests.program import Program, secvm

__all__ = ["Program", "secvm"]
