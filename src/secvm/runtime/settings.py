"""A party's settings: a TOML file, read strictly, and secrets that only their owner can read.

A key that nobody knows is refused at every depth, because a misspelt limit would be no limit; a number in quotation
marks is no number. What is wrong is told in one sentence that names the key and what is expected there, never what
stands there: it may be a secret.

Secrets are files of their own, so that settings can be shown around. ``read_secret`` refuses one that others may read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pydantic

from secvm.errors import BadInputError

#: What is named in a message; anything else was not meant as a key, and may be what should have stood behind it.
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE = re.compile(r"at line \d+, column \d+")
#: No secret of ours is longer: whoever names a larger file here has mistaken it.
_MOST_SECRET_BYTES = 2**16


class Settings(pydantic.BaseModel):
    """A table of settings; tables inside it are ``Settings`` too, and paths stay as they are written."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


T = TypeVar("T", bound=Settings)


def read_settings(path: Path, kind: type[T]) -> T:
    """The settings in this file.

    Raises
    ------
    BadInputError
        When there are none, or not such.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read the settings {path}: {error.strerror or 'input/output error'}") from None
    try:
        # As JSON, because pydantic's strictness knows that a file cannot hold a path or a tuple, only their spelling.
        text = json.dumps(tomllib.loads(data.decode()), default=str)
    except (ValueError, RecursionError) as error:
        # Only the place: the rest of the message may quote what stands there.
        place = _PLACE.search(str(error))
        raise BadInputError(f"the settings {path} are no TOML" + (f" ({place[0]})" if place else "")) from None
    return parse_settings(text, kind, f"the settings {path}")


def parse_settings(text: str | bytes, kind: type[T], where: str) -> T:
    """The settings that stand in this JSON, by the same rules; ``where`` begins the sentence of a refusal."""
    try:
        return kind.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise BadInputError(f"{where}: no JSON") from None
        sentence = _sentence(_dotted(first["loc"]), first["type"], first["msg"])
        raise BadInputError(f"{where}: {sentence}") from None


def _dotted(place: Sequence[int | str]) -> str:
    parts = [str(part) if isinstance(part, int) or _KEY.fullmatch(part) else "(not a key)" for part in place]
    return ".".join(parts)


def _sentence(key: str, kind: str, message: str) -> str:
    """``message`` is pydantic's, or that of a validator of ours; neither quotes the value."""
    if not key and kind != "value_error":
        key = "the file"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "extra_forbidden":
        return f"{key} is not a setting"
    if kind == "string_pattern_mismatch":
        # A pattern is for programs.
        return f"{key} is not written as it should be"
    if kind.endswith("_parsing"):
        # "Input should be a valid UUID, invalid character …" would go on about what it found.
        message = message.partition(",")[0]
    return f"{key} {message.removeprefix('Value error, ').removeprefix('Input ')}".lstrip()


def read_secret(path: Path, *, shortest: int = 16) -> bytes:
    """The bytes of a secret's file, as they are; a text's last newline too.

    Raises
    ------
    BadInputError
        When there is none, others than its owner may read it, or it is too short to be one.
    """
    try:
        # Not blocking: a pipe of that name would keep us waiting for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            # Asked of what was opened, not of the name: in between it could have become another file.
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise BadInputError(f"the secret {path} is no file")
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise BadInputError(
                    f"the secret {path} is open to others than its owner", next_step=f"chmod 600 {path}"
                )
            data = file.read(_MOST_SECRET_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"cannot read the secret {path}: {error.strerror or 'input/output error'}") from None
    if len(data) < shortest:
        raise BadInputError(f"the secret {path} is shorter than {shortest} bytes")
    if len(data) > _MOST_SECRET_BYTES:
        raise BadInputError(f"the secret {path} is longer than {_MOST_SECRET_BYTES} bytes")
    return data


def read_token_seed(path: Path) -> bytes:
    """The seed of token keys that ``secvm relay token-seed`` wrote: 64 hexadecimal digits."""
    data = read_secret(path).strip()
    if not re.fullmatch(rb"[0-9a-f]{64}", data):
        raise BadInputError(f"{path} is no seed of token keys", next_step="'secvm relay token-seed' makes one.")
    return bytes.fromhex(data.decode())


def make_secret(path: Path, data: bytes) -> None:
    """Write a new secret that only its owner can read: whole and durable, or not at all.

    Raises
    ------
    BadInputError
        When something of that name exists, or the place cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Left by an earlier process of the same number, as happens in containers.
        beside.unlink(missing_ok=True)
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces what is there: a key that is lost cannot be had again.
            os.link(beside, path)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise BadInputError(f"the secret {path} exists already") from None
    except OSError as error:
        raise BadInputError(f"cannot write the secret {path}: {error.strerror or 'input/output error'}") from None
