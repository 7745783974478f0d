"""A party's settings: a TOML file, read strictly.

A key that nobody knows is refused at every depth, because a misspelt limit would be no limit; a number in quotation
marks is no number. What is wrong is told in one sentence that names the key and what is expected there, never what
stands there: it may be a secret.

A path is relative to the folder of the settings file, and ``~`` is the home of whoever runs the party. So the folder
of a party can be carried to another place.

Secrets are files of their own (``runtime.disk.secret_files``), so that settings can be shown around.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import pydantic
from pydantic_core import ErrorDetails

from secvm.errors import BadInputError
from secvm.files import or_bad_input

#: What is named in a message; anything else was not meant as a key, and may be what should have stood behind it.
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE = re.compile(r"at line \d+, column \d+|at end of document")


class Settings(pydantic.BaseModel):
    """A table of settings; tables inside it are ``Settings`` too."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    def placed(self, folder: Path) -> Self:
        """The same for a file in this folder: every path is whole, at any depth."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return self.model_copy(update={name: _placed(value, folder) for name, value in values.items()})


def _placed(value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        return place_in(folder, value)
    if isinstance(value, tuple):
        return tuple(_placed(item, folder) for item in value)
    return value.placed(folder) if isinstance(value, Settings) else value


def place_in(folder: Path, path: Path) -> Path:
    """Where a path of a settings file in this folder leads."""
    try:
        return folder / path.expanduser()
    except RuntimeError:
        raise BadInputError(f"the path {path} begins with ~, and that home is not known here") from None


#: A number of things, at least one.
Count = Annotated[int, pydantic.Field(ge=1)]
#: A length of time.
Seconds = Annotated[float, pydantic.Field(gt=0)]


class Listen(Settings):
    """``[listen]``: where requests come."""

    #: A name or an address of this machine. TLS is the work of a proxy in front.
    host: str = "127.0.0.1"
    #: 0: any free one; the log's first line says which.
    port: int = pydantic.Field(ge=0, le=65_535)


class StorePart(Settings):
    """``[store]``: where a party keeps what must outlive its process."""

    #: A SQLite database of the party's own.
    path: Path


class SteeringPart(Settings):
    """``[testing]``: not for people's packages."""

    #: A file that steers the clock (``runtime.clock.SteeredClock``).
    clock: Path | None = None


def usual_port(port: int) -> pydantic.BeforeValidator:
    """For a field of kind ``Listen``: the port of a party whose settings name none."""
    return pydantic.BeforeValidator(lambda table: {"port": port, **table} if isinstance(table, dict) else table)


T = TypeVar("T", bound=Settings)


def read_settings(path: Path, kind: type[T]) -> T:
    """The settings in this file, their paths whole.

    Raises
    ------
    BadInputError
        When there are none, or not such.
    """
    # As JSON, because pydantic's strictness knows that a file cannot hold a path or a tuple, only their spelling.
    settings = parse_settings(json.dumps(read_toml(path), default=str), kind, f"the settings {path}")
    return settings.placed(path.resolve().parent)


def read_toml(path: Path, what: str = "the settings") -> dict[str, Any]:
    """The tables of a file, not looked into yet; raises as ``read_settings`` does. ``what`` the file is."""
    with or_bad_input(f"cannot read {what} {path}"):
        data = path.read_bytes()
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise BadInputError(f"{what} {path} cannot be read as TOML: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        # Only the place: the rest of the message may quote what stands there.
        place = _PLACE.search(str(error))
        at = f" ({place[0]})" if place else ""
        raise BadInputError(f"{what} {path} cannot be read as TOML{at}") from None


#: Settings by the names of their tables; a list is an array of tables.
Tables = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]


def merged(tables: Mapping[str, Any], more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The tables, with more settings in some of them, or others in their place."""
    return {**tables, **{name: {**tables.get(name, {}), **values} for name, values in more.items()}}


def settings_text(tables: Tables) -> str:
    """These tables as they stand in a file of settings; a path is written as text."""
    lines: list[str] = []
    for name, content in tables.items():
        head, rows = (f"[{name}]", [content]) if isinstance(content, Mapping) else (f"[[{name}]]", content)
        for row in rows:
            # Texts, numbers and lists of those are written in TOML as in JSON.
            written = (f"{key} = {json.dumps(value, ensure_ascii=False, default=str)}" for key, value in row.items())
            lines += [head, *written, ""]
    return "\n".join(lines)


def parse_settings(text: str | bytes, kind: type[T], where: str) -> T:
    """The settings that stand in this JSON, by the same rules; ``where`` begins the sentence of a refusal."""
    try:
        return kind.model_validate_json(text)
    except pydantic.ValidationError as error:
        first, *others = error.errors(include_url=False, include_input=False)
        if first["type"] == "json_invalid":
            raise BadInputError(f"{where}: this is not JSON") from None
        # Keys that are missing or unknown are told together: often one is the other, misspelt. Unknown ones are fewer.
        faults = [first, *(fault for fault in others if fault["type"] in _ABOUT_KEYS)]
        faults = sorted(faults, key=lambda fault: fault["type"] != "extra_forbidden")[:_MOST_TOLD]
        raise BadInputError(f"{where}: {'; '.join(map(_about, faults))}") from None


_ABOUT_KEYS, _MOST_TOLD = frozenset({"missing", "extra_forbidden"}), 5


def _about(fault: ErrorDetails) -> str:
    parts = [str(part) if isinstance(part, int) or _KEY.fullmatch(part) else "(not a key)" for part in fault["loc"]]
    return _sentence(".".join(parts), fault["type"], fault["msg"])


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
