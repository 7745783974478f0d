"""What an init makes is there whole or not at all."""

from pathlib import Path

import pytest

from secvm.coordinator import main as coordinator
from secvm.errors import BadInputError
from secvm.runtime.disk.new_folder import making_in


def make(folder: Path, *names: str, private: bool = False, then: type[BaseException] | None = None) -> None:
    with making_in(folder, private=private) as made:
        for name in names:
            (made / name).write_text("new")
        if then is not None:
            raise then


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_is_made_is_in_its_place_when_the_block_ends(tmp_path: Path) -> None:
    with making_in(tmp_path / "a/b", private=True) as made:
        (made / "state").mkdir()
        (made / "state/key").write_text("k")
        (made / "party.toml").touch()
        assert not (tmp_path / "a/b/party.toml").exists()
    assert everything_in(tmp_path / "a") == {"b", "b/state", "b/state/key", "b/party.toml"}
    assert (tmp_path / "a/b").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("there", [False, True])
def test_nothing_stays_of_what_failed(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/own.txt").touch()
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "a", "key", then=KeyboardInterrupt)
    assert everything_in(tmp_path) == ({"a", "a/own.txt"} if there else set())


def test_nothing_is_replaced_and_nothing_secret_is_put_where_others_look(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("old")
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(BadInputError, match="key is there already"):
        make(tmp_path, "a", "key")
    with pytest.raises(BadInputError, match="others may look into"):
        make(tmp_path / "open", private=True)
    assert everything_in(tmp_path) == {"key", "open"}
    assert (tmp_path / "key").read_text() == "old"


def test_repro_a_disk_that_fills_up_leaves_no_coordinator_that_the_next_init_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _data: bytes) -> None:
        raise BadInputError(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as at_first:
        at_first.setattr(coordinator, "write_atomically", full)
        with pytest.raises(BadInputError, match="No space left"):
            coordinator.initialise(tmp_path / "c")
    assert not (tmp_path / "c").exists()
    coordinator.initialise(tmp_path / "c")
    assert (tmp_path / "c/state").stat().st_mode & 0o077 == 0
