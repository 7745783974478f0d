"""A device with a passphrase: nothing of the person lies plain, nothing is lost, and everything works as before."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from secvm.crypto.locking import Cost
from secvm.errors import BadInputError, WrongPassphraseError
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort
from secvm.participant.storage.device_lock import DeviceLock, is_locked, open_lock
from secvm.participant.storage.passphrase import protect_device, unprotect_device
from secvm.participant.storage.state import DeviceState, _write_vector
from secvm.participant.storage.vault import Vault
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.disk.secret_files import Passphrase, make_secret, read_secret
from tests.there import there

CHEAP = Cost(log2_n=10)
OLD, NEW = b"the old passphrase", b"another passphrase"
FEATURES = {"quokka-of-the-vault": 3, "wombat-of-the-vault": -1}
LABEL = "answer-of-the-vault"
PERSON = Individual(
    vector=BinnedVector(values={70_001: 1, 70_003: -2}, n_bins=99_999), label=1, target=-7_000_001, cohort=Cohort.TEST
)


def known(word: bytes) -> Passphrase:
    return Passphrase(lambda: word)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A device with something in its vault, in one experiment."""
    folder = tmp_path / "device"
    with Vault(folder) as vault:
        vault.put("words", FEATURES)
        vault.set_label("question", LABEL)
    state = DeviceState(folder)
    state.join("d" * 64, b"envelope", PERSON)
    state.close()
    return folder


def set_word(folder: Path, new: bytes = OLD, old: bytes | None = None, credential: Path | None = None) -> None:
    before = None if old is None else known(old)
    protect_device(folder, credential, old=before, new=known(new), dice=os.urandom, cost=CHEAP)


def lock_of(folder: Path, word: bytes = OLD) -> DeviceLock:
    return there(open_lock(folder, known(word), os.urandom))


def lies_plain(folder: Path) -> list[bytes]:
    """What of the person somebody reads who has the disk."""
    everything = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    secrets = [name.encode() for name in FEATURES] + [LABEL.encode(), _write_vector(PERSON.vector)]
    return [secret for secret in secrets if secret in everything]


def whole(folder: Path, lock: DeviceLock | None) -> bool:
    """Whether all that was kept comes out."""
    with Vault(folder, lock=lock) as vault:
        label = vault.label("question")
        kept = vault.features().value == FEATURES and label is not None and label.value == LABEL
    state = DeviceState(folder, lock=lock)
    record = state.record("d" * 64)
    state.close()
    return kept and record is not None and record.person == PERSON


def test_with_a_passphrase_nothing_of_the_person_lies_plain_and_all_comes_out(folder: Path) -> None:
    # The thief of this test reads what is there without one.
    assert len(lies_plain(folder)) == 4
    set_word(folder)
    assert lies_plain(folder) == []
    assert whole(folder, lock_of(folder))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    with closing(sqlite3.connect(folder / "state.sqlite")) as db:
        assert db.execute("SELECT label, target FROM experiment").fetchall() == [(None, None)]


def test_another_passphrase_and_none_again(folder: Path, tmp_path: Path) -> None:
    credential = tmp_path / "credential"
    make_secret(credential, b"credential-of-the-relay\n")
    set_word(folder, credential=credential)
    set_word(folder, NEW, OLD, credential)
    assert b"credential-of" not in credential.read_bytes()
    assert read_secret(credential, passphrase=known(NEW)) == b"credential-of-the-relay\n"
    with pytest.raises(WrongPassphraseError, match="does not open"):
        lock_of(folder, OLD)
    assert whole(folder, lock_of(folder, NEW))
    unprotect_device(folder, credential, old=known(NEW), dice=os.urandom)
    assert not is_locked(folder)
    assert whole(folder, None)
    assert credential.read_bytes() == b"credential-of-the-relay\n"
    assert not list(folder.glob("*.locked"))


def test_a_wrong_passphrase_opens_and_changes_nothing(folder: Path) -> None:
    set_word(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(WrongPassphraseError):
        set_word(folder, NEW, b"none of the passphrases")
    with pytest.raises(WrongPassphraseError):
        unprotect_device(folder, None, old=known(b"none of the passphrases"), dice=os.urandom)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert whole(folder, lock_of(folder))


def test_without_the_passphrase_no_second_vault_is_begun_and_nobody_joins(folder: Path) -> None:
    set_word(folder)
    with pytest.raises(BadInputError, match="under a passphrase"):
        Vault(folder)
    assert not (folder / "vault.db").exists()
    state = DeviceState(folder)
    # Counts can be looked at; the person is not there, and cannot be pinned in the open.
    record = there(state.record("d" * 64))
    assert (record.person, record.cohort) == (None, Cohort.TEST)
    with pytest.raises(BadInputError, match="under a passphrase"):
        state.join("e" * 64, b"envelope", PERSON)
    state.close()


def test_what_is_changed_later_is_locked_too(folder: Path) -> None:
    set_word(folder)
    lock = lock_of(folder)
    with Vault(folder, lock=lock) as vault:
        vault.put("words", {"numbat-of-the-vault": 1})
        vault.forget_label("question")
    state = DeviceState(folder, lock=lock)
    state.join("e" * 64, b"envelope", PERSON)
    state.close()
    assert lies_plain(folder) == []
    assert b"numbat" not in (folder / "vault.locked").read_bytes()
    with Vault(folder, lock=lock) as vault:
        assert (vault.features().value, len(vault.answered())) == ({"numbat-of-the-vault": 1}, 0)
    state = DeviceState(folder, lock=lock)
    assert [one.person for one in state.records()] == [PERSON, PERSON]
    state.forget("e" * 64)
    assert [one.person for one in state.records()] == [PERSON, None]
    state.close()


def test_a_refused_change_leaves_the_locked_vault_as_it_was(folder: Path) -> None:
    set_word(folder)
    before = (folder / "vault.locked").read_bytes()
    with Vault(folder, lock=lock_of(folder)) as vault, pytest.raises(BadInputError):
        vault.put("words", {"fine": 1, "not": 2**62})
    assert (folder / "vault.locked").read_bytes() == before


def test_a_pinned_person_of_one_experiment_does_not_open_in_another(folder: Path) -> None:
    set_word(folder)
    lock = lock_of(folder)
    with closing(sqlite3.connect(folder / "state.sqlite")) as db:
        db.execute("UPDATE experiment SET digest = ?", ("e" * 64,))
        db.commit()
    state = DeviceState(folder, lock=lock)
    with pytest.raises(BadInputError, match="does not belong"):
        state.records()
    state.close()


def test_a_device_that_runs_gets_no_other_passphrase(folder: Path) -> None:
    with only_one(folder / "running.lock", "device"), pytest.raises(BadInputError, match="another process runs"):
        set_word(folder)
    assert whole(folder, None)


def test_locks_do_not_print_themselves(folder: Path) -> None:
    set_word(folder)
    lock = lock_of(folder)
    assert f"{lock!r} {lock.key!r}" == "DeviceLock(...) KeptKey(...)"


def test_a_folder_that_is_no_device_is_told(tmp_path: Path) -> None:
    for act in (
        lambda: set_word(tmp_path / "none"),
        lambda: unprotect_device(tmp_path / "none", None, old=known(OLD), dice=os.urandom),
    ):
        check: Callable[[], None] = act
        with pytest.raises(BadInputError, match="no device here"):
            check()


#: Killed at every so-manieth line of what sets or takes away; afterwards all must come out, and the same call finishes.
KILLED = """
import os, shutil, sys
from pathlib import Path
from secvm.participant.storage.passphrase import protect_device, unprotect_device
from tests.there import there
from tests.system.participant import test_device_lock as t

folder, kind = Path(sys.argv[1]), sys.argv[2]
FILES = ("locking.py", "device_lock.py", "locked_vault.py", "pinned.py", "secret_files.py", "vault.py")
if kind == "remove":
    t.set_word(folder)
before = folder.with_name("before")
shutil.copytree(folder, before)

def act(steps=None):
    seen = 0
    def trace(frame, event, _):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            seen += 1
            if seen == steps:
                os.kill(os.getpid(), 9)
        return trace
    sys.settrace(trace if steps else None)
    if kind == "set":
        t.set_word(folder, t.OLD, t.OLD)
    else:
        unprotect_device(folder, None, old=t.known(t.OLD), dice=os.urandom)
    sys.settrace(None)

for steps in range(1, 5000, 3):
    shutil.rmtree(folder)
    shutil.copytree(before, folder)
    child = os.fork()
    if not child:
        act(steps)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    act()
    assert t.is_locked(folder) == (kind == "set"), steps
    assert t.whole(folder, t.lock_of(folder) if kind == "set" else None), steps
    if kind == "set":
        assert t.lies_plain(folder) == [], steps
    if ended == 0:
        print(steps)
        break
"""


@pytest.mark.parametrize("kind", ["set", "remove"])
def test_a_kill_at_any_line_loses_nothing_and_the_same_command_finishes(kind: str, folder: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, str(folder), kind],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).resolve().parents[3])])},
    )
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 50
