"""Secrets on the disk: for their owner alone, under a passphrase if it likes, and never lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from secvm.crypto.locking import Cost, is_locked
from secvm.errors import BadInputError, WrongPassphraseError
from secvm.runtime.disk.secret_files import (
    CREDENTIAL,
    Passphrase,
    make_secret,
    protect,
    read_secret,
    remove_secret,
    replace_secret,
)

#: Enough to see that it works.
CHEAP = Cost(log2_n=10)
OLD, NEW = b"the old passphrase", b"another passphrase"


def known(word: bytes) -> Passphrase:
    return Passphrase(lambda: word)


def test_a_made_secret_comes_out_and_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_secret(tmp_path / "key", b"k" * 32)
    finally:
        os.umask(before)
    assert read_secret(tmp_path / "key") == b"k" * 32
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_secret_is_never_replaced(tmp_path: Path) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    with pytest.raises(BadInputError, match="exists already"):
        make_secret(tmp_path / "key", b"l" * 32)
    assert read_secret(tmp_path / "key") == b"k" * 32
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_secret_without_a_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot write the secret"):
        make_secret(tmp_path / "none" / "key", b"k" * 32)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(BadInputError, match="open to others"):
        read_secret(tmp_path / "key")


def test_what_is_no_secret_is_refused(tmp_path: Path) -> None:
    make_secret(tmp_path / "short", b"k" * 15)
    make_secret(tmp_path / "long", b"k" * 70_000)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("short", "long", "pipe", "none"):
        with pytest.raises(BadInputError) as caught:
            read_secret(tmp_path / name)
        assert "kkk" not in str(caught.value)
    assert read_secret(tmp_path / "short", shortest=15) == b"k" * 15


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────────


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this is another account's: really, where the tests may, else because we say to be another."""
    if os.geteuid() == 0:
        os.chown(path, 4711, -1, follow_symlinks=False)
    else:
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)


def test_a_secret_of_another_account_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    give_away(tmp_path / "key", monkeypatch)
    with pytest.raises(BadInputError, match="belongs to another account"):
        read_secret(tmp_path / "key")


def test_a_link_is_followed_and_one_of_another_account_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    (tmp_path / "link").symlink_to("key")
    assert read_secret(tmp_path / "link") == b"k" * 32
    give_away(tmp_path / "link", monkeypatch)
    with pytest.raises(BadInputError, match="a link that another account made"):
        read_secret(tmp_path / "link")


def test_a_folder_into_which_everybody_writes_keeps_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    make_secret(folder / "key", b"k" * 32)
    folder.chmod(0o777)
    for act in (lambda: make_secret(folder / "other", b"k" * 32), lambda: read_secret(folder / "key")):
        with pytest.raises(BadInputError, match="everybody may put files"):
            act()
    assert [file.name for file in folder.iterdir()] == ["key"]
    # As /tmp is: nobody but the owner can put another file in the place of one.
    folder.chmod(0o1777)
    assert read_secret(folder / "key") == b"k" * 32


# ── passphrases ──────────────────────────────────────────────────────────────────────────────────────────────────────


def locked_pair(folder: Path) -> list[Path]:
    paths = [folder / "signing.key", folder / "log.key"]
    for number, path in enumerate(paths):
        make_secret(path, bytes([number + 1]) * 32)
    assert protect(paths, old=None, new=known(OLD), dice=os.urandom, cost=CHEAP) == paths
    return paths


def test_a_passphrase_is_set_changed_and_taken_away(tmp_path: Path) -> None:
    paths = locked_pair(tmp_path)
    for path in paths:
        assert is_locked(path.read_bytes())
        assert path.stat().st_mode & 0o777 == 0o600
    assert protect(paths, old=known(OLD), new=known(NEW), dice=os.urandom, cost=CHEAP) == paths
    assert [read_secret(path, passphrase=known(NEW))[0] for path in paths] == [1, 2]
    with pytest.raises(WrongPassphraseError, match="does not open"):
        read_secret(paths[0], passphrase=known(OLD))
    assert protect(paths, old=known(NEW), new=None, dice=os.urandom) == paths
    assert [path.read_bytes() for path in paths] == [b"\1" * 32, b"\2" * 32]
    assert protect(paths, old=None, new=None, dice=os.urandom) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.key", "signing.key"]


def test_a_wrong_passphrase_changes_nothing(tmp_path: Path) -> None:
    paths = locked_pair(tmp_path)
    protect(paths[1:], old=known(OLD), new=known(b"a third passphrase"), dice=os.urandom, cost=CHEAP)
    before = [path.read_bytes() for path in paths]
    # The first would open; the second does not, and so neither is touched.
    with pytest.raises(WrongPassphraseError):
        protect(paths, old=known(OLD), new=known(NEW), dice=os.urandom, cost=CHEAP)
    assert [path.read_bytes() for path in paths] == before


def test_a_change_that_stopped_between_two_files_is_finished_by_another_run(tmp_path: Path) -> None:
    paths = locked_pair(tmp_path)
    protect(paths[:1], old=known(OLD), new=known(NEW), dice=os.urandom, cost=CHEAP)
    assert protect(paths, old=known(OLD), new=known(NEW), dice=os.urandom, cost=CHEAP) == paths[1:]
    assert [read_secret(path, passphrase=known(NEW))[0] for path in paths] == [1, 2]


def test_a_short_passphrase_is_refused_and_no_passphrase_is_told(tmp_path: Path) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    with pytest.raises(BadInputError, match="at least 12"):
        protect([tmp_path / "key"], old=None, new=known(b"too-short"), dice=os.urandom)
    assert (tmp_path / "key").read_bytes() == b"k" * 32
    assert "too-short" not in repr(known(b"too-short"))


def test_without_a_passphrase_a_locked_secret_says_where_one_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    path = locked_pair(tmp_path)[0]
    with pytest.raises(BadInputError, match="under a passphrase, and none was given") as caught:
        read_secret(path)
    assert "--passphrase-file" in str(caught.value.next_step)


def test_a_service_is_given_its_passphrase_by_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = locked_pair(tmp_path)[0]
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o700)
    (credentials / CREDENTIAL).write_bytes(OLD + b"\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    # An access list for the service's account shows as a right of the group.
    for mode in (0o400, 0o440):
        (credentials / CREDENTIAL).chmod(mode)
        assert read_secret(path) == b"\1" * 32
    (credentials / CREDENTIAL).chmod(0o444)
    with pytest.raises(BadInputError, match="open to others"):
        read_secret(path)


def test_a_passphrase_comes_from_a_file_of_ours_or_a_descriptor(tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    make_secret(file, OLD + b"\r\nand a second line\n")
    assert Passphrase.in_file(file).get() == OLD
    file.chmod(0o640)
    with pytest.raises(BadInputError, match="open to others"):
        Passphrase.in_file(file).get()
    with pytest.raises(BadInputError, match="cannot read the passphrase"):
        Passphrase.in_file(tmp_path / "none").get()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(BadInputError, match="no file"):
        Passphrase.in_file(tmp_path / "pipe").get()
    reading, writing = os.pipe()
    os.write(writing, OLD + b"\n")
    asked = Passphrase.in_descriptor(reading)
    # The writer is still there; the line's end is enough. It is read once.
    assert (asked.get(), asked.get()) == (OLD, OLD)
    os.close(writing)
    assert os.read(reading, 1) == b""
    for content in (b"", b"\n", b"x" * 2000):
        make_secret(tmp_path / "bad", content)
        with pytest.raises(BadInputError, match="passphrase"):
            Passphrase.in_file(tmp_path / "bad").get()
        remove_secret(tmp_path / "bad")
    os.close(reading)
    with pytest.raises(BadInputError, match="descriptor"):
        Passphrase.in_descriptor(reading).get()


def test_what_is_replaced_or_removed_is_overwritten_unless_somebody_keeps_a_copy(tmp_path: Path) -> None:
    for change in (lambda path: replace_secret(path, b"n" * 32), remove_secret):
        for copied in (False, True):
            path, copy = tmp_path / "key", tmp_path / "copy"
            make_secret(path, b"k" * 32)
            if copied:
                copy.hardlink_to(path)
            with path.open("rb") as still_open:
                change(path)
                assert still_open.read() == (b"k" * 32 if copied else bytes(32))
            remove_secret(path)
            remove_secret(copy)


def test_a_link_leads_to_what_is_replaced(tmp_path: Path) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    (tmp_path / "link").symlink_to("key")
    replace_secret(tmp_path / "link", b"n" * 32)
    assert (tmp_path / "link").is_symlink()
    assert read_secret(tmp_path / "key") == b"n" * 32


def test_what_a_killed_change_left_is_removed_by_the_next(tmp_path: Path) -> None:
    make_secret(tmp_path / "key", b"k" * 32)
    (tmp_path / ".key.4711.tmp").write_bytes(b"k" * 32)
    (tmp_path / ".key2.4711.tmp").write_bytes(b"somebody else's")
    replace_secret(tmp_path / "key", b"n" * 32)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".key2.4711.tmp", "key"]


#: A process that is killed at every line in turn; after each death the secret must come out.
KILLED = """
import os, sys
from pathlib import Path
from secvm.crypto.locking import Cost
from secvm.errors import WrongPassphraseError
from secvm.runtime.disk.secret_files import Passphrase
from secvm.runtime.disk.secret_files import make_secret, protect, read_secret

folder, broken = Path(sys.argv[1]), sys.argv[2] == "broken"
path, words = folder / "key", [b"the old passphrase", b"another passphrase"]
make_secret(path, b"k" * 32)
if broken:
    import secvm.runtime.disk.secret_files as module

    def in_place(path, data):
        with path.open("wb") as file:
            file.write(data)

    module.replace_secret = in_place

def change(steps):
    seen = 0
    def trace(frame, event, _):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(("secret_files.py", "<string>")):
            return None
        if event == "line":
            seen += 1
            if seen == steps:
                os.kill(os.getpid(), 9)
        return trace
    sys.settrace(trace)
    old, new = words
    protect([path], old=Passphrase(lambda: old), new=Passphrase(lambda: new), dice=os.urandom, cost=Cost(10))
    sys.settrace(None)

def comes_out():
    for word in words:
        try:
            return read_secret(path, passphrase=Passphrase(lambda: word)) == b"k" * 32
        except WrongPassphraseError:
            pass
    return False

protect([path], old=None, new=Passphrase(lambda: words[0]), dice=os.urandom, cost=Cost(10))
for steps in range(1, 1000):
    child = os.fork()
    if not child:
        change(steps)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    assert comes_out(), f"lost at line {steps}"
    # Back to the old one, whatever it is now.
    back = words[::-1]
    protect([path], old=Passphrase(lambda: back[0]), new=Passphrase(lambda: back[1]), dice=os.urandom, cost=Cost(10))
    if ended == 0:
        print(steps)
        break
"""


def kill_at_every_line(folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", KILLED, str(folder), kind],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_the_test_above_sees_a_change_in_place(tmp_path: Path) -> None:
    told = kill_at_every_line(tmp_path, "broken")
    assert "lost at line" in told.stderr or "shorter than 16 bytes" in told.stderr, told.stderr
