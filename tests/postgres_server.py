"""One PostgreSQL for all tests of this process, each in a database of its own. It is made when the first one asks."""

import atexit
import time
from collections.abc import Callable
from functools import cache

from secvm_lab.rigs.postgres import PostgresCluster


@cache
def cluster() -> PostgresCluster:
    """Where PostgreSQL is missing, whoever asks fails with a sentence that says so."""
    made = PostgresCluster()
    atexit.register(made.close)
    made.start()
    return made


def wait_until(happens: Callable[[], object]) -> None:
    """Look until it has happened."""
    # Patience, not a measurement: what never happens shall fail, not hang.
    until = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < until, "this never happened"
