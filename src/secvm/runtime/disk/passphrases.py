"""Where a passphrase comes from: a file, an open descriptor, systemd's credentials, or whoever sits at the terminal.

Never from the command line or the environment, which other programs of the machine can read. It is asked for when the
first secret needs it and not before, so a party whose keys are under none never asks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from secvm.crypto.locking import MOST_PASSPHRASE_BYTES
from secvm.errors import BadInputError

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
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadInputError(f"{path} is no file with a passphrase")
            if os.name == "posix" and (found.st_mode & forbidden or found.st_uid not in (os.geteuid(), 0)):
                raise BadInputError(
                    f"the passphrase in {path} is open to others, or belongs to somebody else",
                    next_step=f"chmod 600 {path}",
                )
            return file.read(MOST_PASSPHRASE_BYTES + 2)
    except OSError as error:
        raise BadInputError(f"cannot read the passphrase {path}: {error.strerror or 'input/output error'}") from None


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
