"""Longer cases of ``tests/contract/stores/test_round_close.py``."""

from secvm_lab.rigs.postgres import PostgresCluster
from tests.contract.stores.test_round_close import live_through_an_epoch


def test_the_same_when_the_server_is_killed_in_the_middle() -> None:
    with PostgresCluster() as mortal:
        url = mortal.create_database()

        def disturb() -> None:
            mortal.kill()
            mortal.start()

        for epoch in (7, 8):
            live_through_an_epoch(url, epoch, disturb)
