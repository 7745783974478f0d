"""A PostgreSQL of our own: found, started, killed, stopped for a while, and never left behind."""

import os
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest

from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_pool import Patience
from secvm.errors import BadInputError, StoreError
from secvm_lab.rigs import postgres
from secvm_lab.rigs.postgres import PostgresCluster, find_postgres


def test_where_it_is_not_installed_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    with pytest.raises(BadInputError, match="PostgreSQL is not installed") as caught:
        PostgresCluster()
    assert "\n" not in str(caught.value)
    assert "apt-get install postgresql" in (caught.value.next_step or "")


def test_newest_one_is_taken_by_number_not_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("9.6", "15", "9"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin/initdb").touch()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    assert find_postgres() == tmp_path / "15/bin"


def test_cluster_lives_dies_and_leaves_nothing() -> None:
    impatient = Patience(connect_s=1, silence_s=1)
    with PostgresCluster() as cluster:
        folder, pid = cluster.folder, cluster.pid
        assert Path(f"/proc/{pid}").stat().st_uid != 0
        with closing(PostgresStore(cluster.create_database(), patience=impatient)) as store:
            store.append_sealed(7, [b"a"])
            cluster.pause()
            cluster.resume()
            store.append_sealed(7, [b"b"])
            cluster.stop()
            with pytest.raises(StoreError):
                store.append_sealed(7, [b"c"])
            cluster.start()
            assert [data for _, data in store.sealed(7, 9)] == [b"a", b"b"]
        assert oct(folder.stat().st_mode & 0o777) == "0o700"
        last = cluster.pid
    for ended in (pid, last):
        assert ended is not None
        with pytest.raises(ProcessLookupError):
            os.kill(ended, 0)
    assert not folder.exists()


def test_repro_a_server_that_ended_by_itself_is_waited_for_when_it_is_started_again() -> None:
    with PostgresCluster() as cluster:
        first = cluster.pid
        assert first is not None
        os.kill(first, signal.SIGINT)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        cluster.start()
        assert cluster.pid != first
        # It was waited for: the kernel has forgotten it, and no object of ours is dropped before.
        with pytest.raises(ChildProcessError):
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOHANG)


def test_cluster_that_does_not_start_says_why_and_leaves_nothing() -> None:
    cluster = PostgresCluster(settings={"shared_buffers": "nonsense"})
    with pytest.raises(StoreError, match="did not start"):
        cluster.__enter__()
    assert not cluster.folder.exists()
