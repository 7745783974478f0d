"""One PostgreSQL for all tests of this process, each in a database of its own. It is made when the first one asks."""

import atexit
from functools import cache

from secvm.testing.postgres import PostgresCluster


@cache
def cluster() -> PostgresCluster:
    """Where PostgreSQL is missing, whoever asks fails with a sentence that says so."""
    made = PostgresCluster()
    atexit.register(made.close)
    made.start()
    return made
