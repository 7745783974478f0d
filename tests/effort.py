"""How much a test does: a little in the default tier, all of it in the deep tier.

A test that plays many cases names both numbers where it plays them:

    LISTS = scaled(250, 5_000)

``./secvm test --deep`` sets ``SECVM_TEST_TIER``; what a test claims is the same in both tiers.
"""

import os

#: Read once: tests run without any SECVM_ variable (``conftest``), and every process of a parallel run inherits it.
DEEP = os.environ.get("SECVM_TEST_TIER") == "deep"


def scaled(default: int, deep: int) -> int:
    """The first number in the default tier, the second in the deep one."""
    return deep if DEEP else default
