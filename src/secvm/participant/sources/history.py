"""What the two browsers' sources share: the options, the choice of a profile, pages out of a private copy.

Read: address, title, number of visits, last visit, and whether the browser hides the page (as it does with frames and
redirects; those do not count). Not read: single visits and their times, searches, forms, downloads, cookies,
passwords. Private windows leave nothing in this database, so nothing of them is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from secvm.errors import BadInputError
from secvm.participant.sources.pages import Page, features_of
from secvm.participant.sources.port import Options
from secvm.participant.sources.private_copy import opened_copy

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Profile:
    """A history that was found on this device."""

    #: Browser and profile, such as ``chrome/Default``.
    name: str
    #: The database.
    file: Path


@dataclass(frozen=True, slots=True)
class Schema:
    """How a browser keeps its history."""

    #: The browser, as people call it.
    browser: str
    #: The database's name in a profile's folder.
    file: str
    #: Gives address and title of pages that are not hidden, visited ``:visits`` times or more, last at ``:since`` or
    #: later; ``:since`` is in the browser's own time.
    query: str
    #: What the browser's clock shows in 1970, in microseconds.
    epoch_us: int


def read_history(schema: Schema, found: Sequence[Profile], options: Options) -> dict[str, int]:
    """Features of a history, of the one profile that is there or the one that was asked for."""
    options.done("profile", "days", "min-visits", "titles", "hosts", "local")
    days = options.whole("days")
    visits = options.whole("min-visits", default=1)
    titles, hosts = options.yes("titles", default=True), options.yes("hosts", default=True)
    local = options.yes("local", default=False)
    if not (titles or hosts):
        raise BadInputError("without titles and without hosts nothing is left to read")
    # A page that was never visited, say a bookmark, has no time and compares as false.
    since = schema.epoch_us + (options.now - days * _DAY_MS) * 1000 if days is not None else 0
    with opened_copy(_database(schema, found, options)) as copy:
        rows = copy.execute(schema.query, {"visits": visits, "since": since})
        return features_of((page for row in rows if (page := _page(row))), titles=titles, hosts=hosts, local=local)


def _page(row: tuple[object, object]) -> Page | None:
    """A row, if SQLite, which holds any type in any column, has text in it."""
    url, title = row
    if not isinstance(url, str):
        return None
    return url, title if isinstance(title, str) else None


def _database(schema: Schema, found: Sequence[Profile], options: Options) -> Path:
    profile = options.text("profile")
    if options.path is not None:
        if profile is not None:
            raise BadInputError("a path and a profile exclude each other: both say what to read")
        return options.path / schema.file if options.path.is_dir() else options.path
    if not found:
        raise BadInputError(
            f"no history of {schema.browser} was found where it usually lies",
            next_step=f"Name its profile's folder, or the file {schema.file} in it.",
        )
    matching = [one for one in found if profile in (None, one.name, one.name.partition("/")[2])]
    if len(matching) == 1:
        return matching[0].file
    names = ", ".join(one.name for one in (matching or found))
    if matching:
        raise BadInputError(f"there are {len(matching)} profiles; say which one", next_step=f"One of: {names}.")
    raise BadInputError("there is no profile of this name", next_step=f"One of: {names}.")
