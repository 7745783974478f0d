"""One private Tor network for all tests here; its authorities' keys are kept from run to run."""

from collections.abc import Iterator

import pytest

from secvm_lab.rigs.tor_network import TorClient, TorNetwork


@pytest.fixture(scope="session")
def tor_network(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[TorNetwork]:
    keys = pytestconfig.cache.mkdir("tor-authorities")
    with TorNetwork(tmp_path_factory.mktemp("tor") / "network", keys=keys) as network:
        yield network


@pytest.fixture(scope="session")
def tor(tor_network: TorNetwork) -> TorClient:
    """A client that has a circuit."""
    return tor_network.client()
