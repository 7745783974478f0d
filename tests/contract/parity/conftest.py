"""One node process for all questions of a run."""

from collections.abc import Iterator

import pytest

from tests.contract.parity.channel import Channel


@pytest.fixture(scope="package")
def channel() -> Iterator[Channel]:
    with Channel() as opened:
        yield opened
