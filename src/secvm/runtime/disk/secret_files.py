"""Secrets on the disk: a file of its own for each, for its owner alone, under a passphrase if the owner likes.

Rules they keep:

 1. A secret is made with mode 0600, whole and durable or not at all, and is never put in the place of another file.
 2. One is read only if nobody but its owner can, and its owner is this account or root. That is asked of what was
    opened, not of the name. A link is followed if this account or root made it.
 3. A folder in which anybody may put files keeps no secret: not even one that is well protected itself.
 4. ``protect`` puts a secret under a passphrase, or another, or none. It writes beside, looks whether what was written
    opens, and only then renames: whenever it is killed, the file is the old one or the new one.
 5. No message holds anything of a secret.

A ``Passphrase`` comes from a file, an open descriptor, systemd's credentials, or whoever sits at the terminal. Never
from the command line or the environment, which other programs of the machine can read. It is asked for when the first
secret needs it and not before, so a party whose keys are under none never asks.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from secvm.crypto.locking import DEFAULT_COST, MOST_PASSPHRASE_BYTES, Cost, is_locked, lock, unlock
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SEED_BYTES, SigningKey, VerifyKey
from secvm.errors import BadInputError, WrongPassphraseError
from secvm.files import or_bad_input, sync_folder

#: The name of the credential: ``LoadCredential=secvm-passphrase:/etc/secvm/coordinator.passphrase`` in a unit.
CREDENTIAL = "secvm-passphrase"
_FOLDER = "CREDENTIALS_DIRECTORY"


class Passphrase:
    """Knows how to get a passphrase, and gets it once. It does not print itself."""

    def __init__(self, ask: Callable[[], bytes]) -> None:
        self._ask = ask
        self._known: bytes | None = None

    def __repr__(self) -> str:
        return "Passphrase(...)"

    def get(self) -> bytes:
        """The passphrase itself.

        Raises
        ------
        BadInputError
            When there is none, or its file is no such file.
        """
        if self._known is None:
            self._known = _checked(self._ask())
        return self._known

    @classmethod
    def in_file(cls, path: Path) -> Passphrase:
        """The first line of a file that only its owner can read."""
        return cls(lambda: _read_file(path, credential=False))

    @classmethod
    def in_descriptor(cls, descriptor: int) -> Passphrase:
        """What comes out of a descriptor that this process was started with, up to the first line's end."""
        return cls(lambda: _read_descriptor(descriptor))

    @classmethod
    def around(
        cls, environment: Mapping[str, str] = os.environ, *, otherwise: Callable[[], bytes] | None = None
    ) -> Passphrase:
        """The service's credential, where systemd hands one over; ``otherwise`` asks a person, where one is there."""
        return cls(lambda: _read_around(environment, otherwise))


def _read_around(environment: Mapping[str, str], otherwise: Callable[[], bytes] | None) -> bytes:
    folder = environment.get(_FOLDER, "")
    path = Path(folder) / CREDENTIAL
    if folder and path.exists():
        return _read_file(path, credential=True)
    if otherwise is not None:
        return otherwise()
    raise BadInputError(
        "a secret is under a passphrase, and none was given",
        next_step=f"Give --passphrase-file, --passphrase-fd, or a credential named {CREDENTIAL} in the unit.",
    )


def _read_file(path: Path, *, credential: bool) -> bytes:
    """``credential``: systemd lets a service's account read by an access list, which shows as the group's right."""
    forbidden = stat.S_IRWXO if credential else stat.S_IRWXG | stat.S_IRWXO
    size = MOST_PASSPHRASE_BYTES + 2
    return _read_private(path, "the passphrase", size, forbidden=forbidden if os.name == "posix" else 0)


def _read_descriptor(descriptor: int) -> bytes:
    data = b""
    try:
        while len(data) <= MOST_PASSPHRASE_BYTES + 1:
            more = os.read(descriptor, MOST_PASSPHRASE_BYTES + 2 - len(data))
            data += more
            if not more or b"\n" in more:
                break
    except OSError:
        raise BadInputError("the descriptor with the passphrase cannot be read") from None
    return data


def _checked(data: bytes) -> bytes:
    line = data.partition(b"\n")[0].removesuffix(b"\r")
    if not line:
        raise BadInputError("the passphrase is empty")
    if len(line) > MOST_PASSPHRASE_BYTES:
        raise BadInputError(f"a passphrase has at most {MOST_PASSPHRASE_BYTES} bytes")
    return line


#: No secret of ours is longer: whoever names a larger file here has mistaken it.
_MOST_SECRET_BYTES = 2**16
_HEX_KEY = re.compile(rb"[0-9a-f]{64}\n?")
#: A passphrase that is to be kept from those who have the disk. Length is all that helps; docs/how-to/rotate-keys.md.
LEAST_PASSPHRASE_BYTES = 12


def read_secret(path: Path, *, shortest: int = 16, passphrase: Passphrase | None = None) -> bytes:
    """The bytes of a secret's file, as they are; a text's last newline too.

    ``passphrase`` is asked for where the file is under one; by default it is the one that systemd hands over.

    Raises
    ------
    BadInputError
        When there is none, others than its owner may read it, or it is too short to be one.
    WrongPassphraseError
        When the passphrase does not open it.
    """
    data = _opened(path, _read(path), passphrase or Passphrase.around())
    if len(data) < shortest:
        raise BadInputError(f"the secret {path} is shorter than {shortest} bytes")
    return data


def read_signing_key(path: Path, passphrase: Passphrase | None = None) -> SigningKey:
    """The signing key of a relay or a witness: a seed in hexadecimal. Raises as ``read_secret`` does."""
    data = read_secret(path, passphrase=passphrase)
    if not _HEX_KEY.fullmatch(data):
        raise BadInputError(
            f"{path} is no signing key",
            next_step="'secvm relay key' makes one for a relay, 'secvm witness key' one for a witness.",
        )
    return SigningKey(bytes.fromhex(data.decode()))


def make_signing_key(path: Path, dice: RandomBytes) -> VerifyKey:
    """A new signing key in a new file, which only its owner can read. Raises as ``make_secret`` does."""
    key = SigningKey(dice(SEED_BYTES))
    make_secret(path, key.seed.hex().encode() + b"\n")
    return key.public


def make_secret(path: Path, data: bytes) -> None:
    """Write a new secret that only its owner can read: whole and durable, or not at all.

    Raises
    ------
    BadInputError
        When something of that name exists, or the place cannot be written, or by everybody.
    """
    _check_folder(path)
    beside = _beside(path)
    with or_bad_input(f"cannot write the secret {path}"):
        try:
            _write(beside, data)
            # A link, unlike a rename, never replaces what is there: a key that is lost cannot be had again.
            os.link(beside, path)
        except FileExistsError:
            raise BadInputError(f"the secret {path} exists already") from None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        sync_folder(path.parent)


def replace_secret(path: Path, data: bytes) -> None:
    """Put another content in a secret's place, whole and durable; what was there is overwritten afterwards.

    Raises
    ------
    BadInputError
        When there is none, or the place cannot be written; the old content is there then.
    """
    # A link stays a link: what it leads to is replaced.
    place = path.resolve()
    if not place.exists():
        raise BadInputError(f"there is no secret {path}")
    write_secret(place, data)


def write_secret(place: Path, data: bytes) -> None:
    """Make a secret, or put another content in its place: whole and durable, or as it was."""
    _check_folder(place)
    for left in place.parent.glob(f".{glob.escape(place.name)}.*.tmp"):
        # Of one that was killed: it may hold the secret without a passphrase.
        left.unlink(missing_ok=True)
    beside = _beside(place)
    try:
        with or_bad_input(f"cannot write the secret {place}"):
            _write(beside, data)
            with place.open("r+b") if place.exists() else contextlib.nullcontext() as old:
                beside.replace(place)
                sync_folder(place.parent)
                if old is not None:
                    _overwrite(old.fileno())
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def remove_secret(path: Path) -> None:
    """Forget a secret: the file goes, durably, and what was in it is overwritten."""
    with or_bad_input(f"cannot remove {path}"), contextlib.suppress(FileNotFoundError), path.open("r+b") as old:
        path.unlink()
        sync_folder(path.parent)
        _overwrite(old.fileno())


def protect(
    paths: Iterable[Path],
    *,
    old: Passphrase | None,
    new: Passphrase | None,
    dice: RandomBytes,
    cost: Cost = DEFAULT_COST,
) -> list[Path]:
    """Put these secrets under the passphrase ``new``, or with None under none; those that were changed.

    A file that ``new`` opens already is left alone: so a run that was killed is finished by another one.

    Raises
    ------
    WrongPassphraseError
        When neither passphrase opens one of them. No file was changed then.
    BadInputError
        When one cannot be read or written, or the new passphrase is too short.
    """
    word = None if new is None else check_new_passphrase(new.get())
    # All of them are read before the first is written: a wrong passphrase changes nothing.
    files = {path: _read(path) for path in paths}
    contents = {path: _either(path, data, old, word) for path, data in files.items()}
    changed = []
    for path, content in contents.items():
        if content is None:
            continue
        data = content if word is None else lock(content, word, dice, cost)
        # Looked at before the old one goes: a key that does not come out again would be lost.
        if (data if word is None else unlock(data, word)) != content:
            raise BadInputError(f"the secret {path} does not come out as it went in; it was left as it was")
        replace_secret(path, data)
        changed.append(path)
    return changed


def check_new_passphrase(word: bytes) -> bytes:
    """A passphrase that is worth setting."""
    if len(word) < LEAST_PASSPHRASE_BYTES:
        raise BadInputError(
            f"a passphrase has at least {LEAST_PASSPHRASE_BYTES} characters", next_step="Six random words do well."
        )
    return word


def _either(path: Path, data: bytes, old: Passphrase | None, word: bytes | None) -> bytes | None:
    """What is in the file; None where nothing is to be done."""
    if not is_locked(data):
        return None if word is None else data
    if word is not None:
        with contextlib.suppress(WrongPassphraseError):
            unlock(data, word)
            return None
    return _opened(path, data, old or Passphrase.around())


def _opened(path: Path, data: bytes, passphrase: Passphrase) -> bytes:
    if not is_locked(data):
        return data
    try:
        return unlock(data, passphrase.get())
    except WrongPassphraseError:
        raise WrongPassphraseError(f"the passphrase does not open {path}, or the file was changed") from None


def _read(path: Path) -> bytes:
    _check_link(path)
    data = _read_private(path, "the secret", _MOST_SECRET_BYTES + 1, forbidden=stat.S_IRWXG | stat.S_IRWXO)
    _check_folder(path)
    if len(data) > _MOST_SECRET_BYTES:
        raise BadInputError(f"the secret {path} is longer than {_MOST_SECRET_BYTES} bytes")
    return data


def _read_private(path: Path, what: str, size: int, *, forbidden: int) -> bytes:
    """The beginning of a file of ours or root's, to which nobody has one of the ``forbidden`` rights."""
    with or_bad_input(f"cannot read {what} {path}"):
        # Not blocking: a pipe of that name would keep us waiting for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            # Asked of what was opened, not of the name: in between it could have become another file.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadInputError(f"{what} {path} is no file")
            if status.st_mode & forbidden:
                raise BadInputError(f"{what} {path} is open to others than its owner", next_step=f"chmod 600 {path}")
            if not _is_ours(status):
                raise BadInputError(
                    f"{what} {path} belongs to another account, which could change it",
                    next_step="Run this as the account that owns it (sudo -u NAME), or give the file to this one.",
                )
            return file.read(size)


def _check_link(path: Path) -> None:
    """Whoever may make a link may choose which of our files we take for this secret."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) and not _is_ours(status):
            raise BadInputError(f"the secret {path} is a link that another account made")


def _check_folder(path: Path) -> None:
    with contextlib.suppress(OSError):
        mode = path.resolve().parent.stat().st_mode
        # In a sticky folder such as /tmp only the owner of a file can replace it, and the owner is looked at.
        if os.name == "posix" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise BadInputError(
                f"everybody may put files into {path.parent}, where the secret {path.name} is",
                next_step=f"chmod 700 {path.parent}",
            )


def _is_ours(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid in (os.geteuid(), 0)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, data: bytes) -> None:
    # Left by an earlier process of the same number, as happens in containers.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _overwrite(descriptor: int) -> None:
    """Zeros over what nobody can name any more; a second name of the same file is somebody's copy, and stays."""
    status = os.fstat(descriptor)
    if status.st_nlink == 0:
        os.pwrite(descriptor, bytes(status.st_size), 0)
        os.fsync(descriptor)
