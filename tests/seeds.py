"""Seeds of tests that throw dice: the same on every run of the default tier, new on every run of the deep tier.

A test asks for a seed by its purpose and never writes one down itself:

    dice = np.random.default_rng(seed_for("cover of one round"))

``./secvm test --deep`` draws a seed for the whole run, prints it, and hands it down in ``SECVM_TEST_SEED``;
``./secvm test --deep --seed SEED`` plays the same run again. Because a run's seed is new, a statistical test states how
often it fails although nothing is wrong, and that is at most ``FALSE_ALARM``.
"""

import hashlib
import os

#: The run's seed: any text. Every process of a parallel run inherits it; one that a test starts does not, because tests
#: run without any SECVM_ variable (``conftest``), and is handed its seed.
RUN_SEED = os.environ.get("SECVM_TEST_SEED", "0")

#: The most that a statistical test may fail by chance alone.
FALSE_ALARM = 1e-6


def seed_for(purpose: str, number: int = 0) -> int:
    """Seed of 63 bits for one purpose of one test; another number gives an independent one."""
    text = f"{RUN_SEED}\0{purpose}\0{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def seed_bytes(purpose: str, number: int = 0) -> bytes:
    """The same for dice that take bytes."""
    return seed_for(purpose, number).to_bytes(8, "big")
