"""Secrets of rounds and their marks: made once, whole, for one account, and gone when they are forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from secvm.errors import BadInputError, LocalProtocolError
from secvm.relay.batches.round_custody import RoundSecrets

EXPERIMENT = "ab" * 32
LABEL = b"\7" * 32


def test_a_secret_is_drawn_once_for_a_round(tmp_path: Path) -> None:
    secrets = RoundSecrets(tmp_path / "secrets")
    assert secrets.find(EXPERIMENT, 1) is None
    first = secrets.make(EXPERIMENT, 1, os.urandom)
    assert secrets.make(EXPERIMENT, 1, os.urandom) == first
    assert RoundSecrets(tmp_path / "secrets").find(EXPERIMENT, 1) == first
    assert secrets.make(EXPERIMENT, 2, os.urandom) != first


def test_a_mark_stands_as_it_was_made_first(tmp_path: Path) -> None:
    secrets = RoundSecrets(tmp_path / "secrets")
    assert secrets.mark(LABEL, "batch", b"a" * 32)
    assert secrets.mark(LABEL, "batch", b"a" * 32)
    assert not secrets.mark(LABEL, "batch", b"b" * 32)
    assert secrets.marked(LABEL, "batch") == b"a" * 32
    assert secrets.marked(LABEL, "count") is None


def test_what_is_narrowed_or_forgotten_is_nowhere_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    secrets = RoundSecrets(folder)
    secret = secrets.make(EXPERIMENT, 1, os.urandom)
    (descriptor,) = [os.open(file, os.O_RDONLY) for file in folder.iterdir()]
    seeds = os.urandom(32 * 9)
    secrets.narrow(EXPERIMENT, 1, seeds)
    assert secrets.find(EXPERIMENT, 1) == seeds
    assert os.read(descriptor, 99) == bytes(32), "overwritten, also for whoever has it open"
    os.close(descriptor)
    assert not any(secret in file.read_bytes() for file in folder.iterdir())
    secrets.forget(EXPERIMENT, 1)
    secrets.forget(EXPERIMENT, 1)
    assert secrets.find(EXPERIMENT, 1) is None
    assert list(folder.iterdir()) == []
    with pytest.raises(LocalProtocolError):
        secrets.narrow(EXPERIMENT, 1, seeds)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    RoundSecrets(folder)
    (folder / f".{EXPERIMENT}-1.secret.77.tmp").write_bytes(os.urandom(32))
    assert RoundSecrets(folder).find(EXPERIMENT, 1) is None
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_may_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    folder.chmod(0o750)
    with pytest.raises(BadInputError) as refused:
        RoundSecrets(folder)
    assert refused.value.next_step == f"chmod 700 {folder}"


def test_it_knows_whether_it_lies_in_memory(tmp_path: Path) -> None:
    shm = Path("/dev/shm")
    if shm.is_dir():
        folder = shm / f"secvm-test-{os.getpid()}"
        try:
            assert RoundSecrets(folder).is_memory
        finally:
            folder.rmdir()
    assert repr(RoundSecrets(tmp_path / "s")) == "RoundSecrets(...)"
