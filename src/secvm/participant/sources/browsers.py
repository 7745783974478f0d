"""Histories of browsers, each read from a private copy: Firefox's, and that of Chromium and its kin.

There are three sources, each of which reads what its name says and no more: an experiment that looks at the words of
titles gets no host.

Read: address, title, number of visits, last visit, and whether the browser hides the page (as it does with frames and
redirects; those do not count). Not read: single visits and their times, searches, forms, downloads, cookies,
passwords. Private windows leave nothing in this database, so nothing of them is read.

Firefox keeps its history in ``places.sqlite``, a database in WAL mode that the running browser holds open; Chromium,
Chrome, Edge and Brave keep theirs in ``History``, which the running browser may hold locked.
"""

from __future__ import annotations

import configparser
import sqlite3
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

    #: The database's name in a profile's folder.
    file: str
    #: The table of pages: by it a file is known, whatever it is called.
    table: str
    #: Gives address and title of pages that are not hidden, visited ``:visits`` times or more, last at ``:since`` or
    #: later; ``:since`` is in the browser's own time.
    query: str
    #: What the browser's clock shows in 1970, in microseconds.
    epoch_us: int


class HistorySource:
    """What one of the sources reads of a history."""

    def __init__(self, name: str, about: str, *, titles: bool = False, hosts: bool = False) -> None:
        self.name, self.about, self._titles, self._hosts = name, about, titles, hosts

    def read(self, options: Options) -> dict[str, int]:
        """Features of the one profile that is there, or of the one that was asked for."""
        options.done("profile", "days", "min-visits", "local")
        days = options.whole("days")
        visits = options.whole("min-visits", default=1)
        local = options.yes("local", default=False)
        file = _database(options)
        with opened_copy(file) as copy:
            schema = _schema_of(copy, file)
            # A page that was never visited, say a bookmark, has no time and compares as false.
            since = schema.epoch_us + (options.now - days * _DAY_MS) * 1000 if days is not None else 0
            rows = copy.execute(schema.query, {"visits": visits, "since": since})
            pages = (page for row in rows if (page := _page(row)))
            return features_of(pages, titles=self._titles, hosts=self._hosts, local=local, excluded=options.excluded)


#: An experiment names one of these as its source.
TITLES = HistorySource(
    "history-titles", "Words of the titles of pages in a browser's history, and no hosts.", titles=True
)
HOSTS = HistorySource("history-hosts", "Hosts of the pages in a browser's history, and no titles.", hosts=True)
BOTH = HistorySource(
    "history", "Words of titles, and hosts, of the pages in a browser's history.", titles=True, hosts=True
)

HISTORIES = {source.name: source for source in (TITLES, HOSTS, BOTH)}


def _schema_of(copy: sqlite3.Connection, file: Path) -> Schema:
    tables = {str(name) for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for schema in (_FIREFOX, _CHROMIUM):
        if schema.table in tables:
            return schema
    raise BadInputError(f"{file}: the database is no history of Firefox, Chromium, Chrome, Edge or Brave")


def _page(row: tuple[object, object]) -> Page | None:
    """A row, if SQLite, which holds any type in any column, has text in it."""
    url, title = row
    if not isinstance(url, str):
        return None
    return url, title if isinstance(title, str) else None


def _database(options: Options) -> Path:
    wanted = options.text("profile")
    if options.path is not None:
        if wanted is not None:
            raise BadInputError("a path and a profile exclude each other: both say what to read")
        return _file_in(options.path) if options.path.is_dir() else options.path
    there = profiles(options.home)
    if not there:
        raise BadInputError(
            "no history of a browser was found where it usually lies",
            next_step=f"Write the profile's folder, or the file {_FIREFOX.file} or {_CHROMIUM.file} in it, after the"
            " source's name.",
        )
    matching = [profile for profile in there if wanted in (None, profile.name, profile.name.partition("/")[2])]
    if len(matching) == 1:
        return matching[0].file
    next_step = f"Say which with --profile: {', '.join(profile.name for profile in (matching or there))}."
    if matching:
        raise BadInputError(f"there are {len(matching)} profiles", next_step=next_step)
    raise BadInputError("there is no profile of this name", next_step=next_step)


def profiles(home: Path) -> list[Profile]:
    """Every history below a home."""
    return [*firefox_profiles(home), *chromium_profiles(home)]


def _file_in(folder: Path) -> Path:
    files = [folder / schema.file for schema in (_FIREFOX, _CHROMIUM)]
    return next((file for file in files if _is_file(file)), files[0])


#: Where Firefox keeps ``profiles.ini``, below a person's home, and what to call a profile from there.
_FIREFOX_PLACES = {
    ".mozilla/firefox": "firefox",
    ".config/mozilla/firefox": "firefox",  # newer versions, on a fresh home
    "snap/firefox/common/.mozilla/firefox": "firefox-snap",
    ".var/app/org.mozilla.firefox/.mozilla/firefox": "firefox-flatpak",
    "Library/Application Support/Firefox": "firefox",
    "AppData/Roaming/Mozilla/Firefox": "firefox",
}

_FIREFOX = Schema(
    file="places.sqlite",
    table="moz_places",
    query=(
        "SELECT url, title FROM moz_places"
        " WHERE hidden = 0 AND visit_count >= :visits AND last_visit_date >= :since ORDER BY id"
    ),
    epoch_us=0,
)


def firefox_profiles(home: Path) -> list[Profile]:
    """The profiles below a home that have a history, in a fixed order."""
    profiles: dict[Path, Profile] = {}
    for place, browser in _FIREFOX_PLACES.items():
        for name, folder in _listed(home / place):
            file = folder / _FIREFOX.file
            if _is_file(file):
                profiles.setdefault(file, Profile(f"{browser}/{name}", file))
    return list(profiles.values())


def _listed(folder: Path) -> list[tuple[str, Path]]:
    """Names and folders of the profiles that a ``profiles.ini`` lists."""
    # Values may hold a percent sign, and of a key that comes twice the last one counts: as Firefox reads it.
    ini = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        ini.read_string((folder / "profiles.ini").read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return []
    profiles = []
    for title in ini.sections():
        section = ini[title]
        if title.startswith("Profile") and (path := section.get("Path")):
            # An absolute path stays what it is when it is joined.
            place = Path(path) if section.get("IsRelative", "1") == "0" else folder / path
            profiles.append((section.get("Name", path), place))
    return profiles


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


#: Where each keeps its profiles below a person's home: on Linux (also in a snap or a flatpak), macOS, Windows.
_CHROMIUM_PLACES = {
    "chromium": (
        ".config/chromium",
        "snap/chromium/common/chromium",
        ".var/app/org.chromium.Chromium/config/chromium",
        "Library/Application Support/Chromium",
        "AppData/Local/Chromium/User Data",
    ),
    "chrome": (
        ".config/google-chrome",
        ".var/app/com.google.Chrome/config/google-chrome",
        "Library/Application Support/Google/Chrome",
        "AppData/Local/Google/Chrome/User Data",
    ),
    "edge": (
        ".config/microsoft-edge",
        ".var/app/com.microsoft.Edge/config/microsoft-edge",
        "Library/Application Support/Microsoft Edge",
        "AppData/Local/Microsoft/Edge/User Data",
    ),
    "brave": (
        ".config/BraveSoftware/Brave-Browser",
        "snap/brave/current/.config/BraveSoftware/Brave-Browser",
        ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser",
        "Library/Application Support/BraveSoftware/Brave-Browser",
        "AppData/Local/BraveSoftware/Brave-Browser/User Data",
    ),
}

#: Chromium counts microseconds from 1601, Windows' epoch.
_WINDOWS_EPOCH_US = 11_644_473_600_000_000

_CHROMIUM = Schema(
    file="History",
    table="urls",
    query=(
        "SELECT url, title FROM urls"
        " WHERE hidden = 0 AND visit_count >= :visits AND last_visit_time >= :since ORDER BY id"
    ),
    epoch_us=_WINDOWS_EPOCH_US,
)


def chromium_profiles(home: Path) -> list[Profile]:
    """The profiles below a home that have a history, in a fixed order."""
    return [
        Profile(f"{browser}/{file.parent.name}", file)
        for browser, places in _CHROMIUM_PLACES.items()
        for place in places
        for file in _histories(home / place)
    ]


def _histories(folder: Path) -> list[Path]:
    # Two folders are the browser's own: windows of guests, and the list of profiles. Neither is a person's.
    try:
        return sorted(
            file
            for file in folder.glob(f"*/{_CHROMIUM.file}")
            if file.parent.name not in {"Guest Profile", "System Profile"}
        )
    except OSError:
        return []
