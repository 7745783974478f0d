"""Firefox: the history in ``places.sqlite``, a database in WAL mode that the running browser holds open."""

from __future__ import annotations

import configparser
from pathlib import Path

from secvm.participant.sources.history import Profile, Schema, read_history
from secvm.participant.sources.port import Options

#: Where Firefox keeps ``profiles.ini``, below a person's home, and what to call a profile from there.
_PLACES = {
    ".mozilla/firefox": "firefox",
    ".config/mozilla/firefox": "firefox",  # newer versions, on a fresh home
    "snap/firefox/common/.mozilla/firefox": "firefox-snap",
    ".var/app/org.mozilla.firefox/.mozilla/firefox": "firefox-flatpak",
    "Library/Application Support/Firefox": "firefox",
    "AppData/Roaming/Mozilla/Firefox": "firefox",
}

_SCHEMA = Schema(
    browser="Firefox",
    file="places.sqlite",
    query=(
        "SELECT url, title FROM moz_places"
        " WHERE hidden = 0 AND visit_count >= :visits AND last_visit_date >= :since ORDER BY id"
    ),
    epoch_us=0,
)


class Firefox:
    """Title words and hosts of the pages in Firefox's history."""

    name = "firefox"
    about = "Title words and hosts of Firefox's history, read from a copy."

    def read(self, options: Options) -> dict[str, int]:
        return read_history(_SCHEMA, firefox_profiles(options.home), options)


def firefox_profiles(home: Path) -> list[Profile]:
    """The profiles below a home that have a history, in a fixed order."""
    found: dict[Path, Profile] = {}
    for place, browser in _PLACES.items():
        for name, folder in _listed(home / place):
            file = folder / _SCHEMA.file
            if _is_file(file):
                found.setdefault(file, Profile(f"{browser}/{name}", file))
    return list(found.values())


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
