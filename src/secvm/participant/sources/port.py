"""What a source is: something on this device that a person's features can be read from.

A source reads and returns; it keeps nothing, sends nothing, and changes nothing of what it reads. It is given the
person's home folder and the time, so that a test can give others. What the person asked for comes as text, by name
(``days=90``); a source takes the options it knows, and ``Options.done`` refuses the rest by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from secvm.errors import BadInputError

_YES_NO = {"yes": True, "no": False}


@runtime_checkable
class Source(Protocol):
    """Reads features of one person. A plug-in is an object of this shape under the entry point ``secvm.sources``."""

    #: What people call it on the command line; also the name under which the vault keeps its features.
    name: str
    #: One sentence for the list of sources.
    about: str

    def read(self, options: Options) -> dict[str, int]:
        """Features with their values. An error is one sentence (``BadInputError``) without anything of the content."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What a source is given."""

    #: The person's home folder, for sources that know where to look.
    home: Path
    #: Milliseconds since 1970.
    now: int
    #: The file or folder to read, where the person named one.
    path: Path | None = None
    #: The person's further wishes by name, as text.
    given: Mapping[str, str] = field(default_factory=dict)
    #: Words and names of hosts that the person wants nothing to be read of.
    excluded: frozenset[str] = frozenset()

    def text(self, name: str) -> str | None:
        """A wish as it was said, or none."""
        return self.given.get(name)

    def whole(self, name: str, *, default: int | None = None, least: int = 1) -> int | None:
        """A wish that is a whole number."""
        said = self.given.get(name)
        if said is None:
            return default
        # At most 9 digits: nobody means more, and int() of thousands of digits is refused by Python in its own words.
        if not (said.isascii() and said.isdigit() and len(said) <= 9) or int(said) < least:
            raise BadInputError(f"{name} must be a whole number, {least} or more")
        return int(said)

    def yes(self, name: str, *, default: bool) -> bool:
        """A wish that is yes or no."""
        said = self.given.get(name)
        if said is None:
            return default
        if said not in _YES_NO:
            raise BadInputError(f"{name} must be yes or no")
        return _YES_NO[said]

    def file(self) -> Path:
        """The path, where a source cannot do without one."""
        if self.path is None:
            raise BadInputError(
                "this source needs the path of a file", next_step="Write the path after the source's name."
            )
        return self.path

    def done(self, *known: str) -> None:
        """Refuse wishes that the source does not know: a misspelt limit must not pass as no limit."""
        unknown = sorted(set(self.given) - set(known))
        if unknown:
            raise BadInputError(
                f"this source has no option {unknown[0]!r}",
                next_step=f"It has: {', '.join(known)}." if known else "It has none.",
            )
