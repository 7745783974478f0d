"""A store of every kind, and a database of PostgreSQL's, for the suites here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.coordinator.store.port import CoordinatorStore
from tests.contract.stores.kinds import KINDS, Kind, Pair, driven, pair_in_a_database, pair_in_memory
from tests.postgres_server import cluster


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    made: Kind = request.param
    return made


@pytest.fixture
def store(kind: Kind, tmp_path: Path) -> Iterator[CoordinatorStore]:
    """As its driver has it."""
    made = driven(kind.make(tmp_path))
    yield made
    made.close()


@pytest.fixture(params=[pair_in_memory, pair_in_a_database], ids=["memory", "postgres"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made: Pair = request.param()
    yield made
    made.one.close()
    made.other.close()


@pytest.fixture
def url() -> str:
    """The address of a new database, with all tables."""
    return cluster().create_database()
