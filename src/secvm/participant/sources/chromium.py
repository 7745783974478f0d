"""Chromium and its kin (Chrome, Edge, Brave): the history in ``History``, which the running browser may hold locked."""

from __future__ import annotations

from pathlib import Path

from secvm.participant.sources.history import Profile, Schema, read_history
from secvm.participant.sources.port import Options

#: Where each keeps its profiles below a person's home: on Linux (also in a snap or a flatpak), macOS, Windows.
_PLACES = {
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
_EPOCH_US = 11_644_473_600_000_000

_SCHEMA = Schema(
    browser="Chromium, Chrome, Edge or Brave",
    file="History",
    query=(
        "SELECT url, title FROM urls"
        " WHERE hidden = 0 AND visit_count >= :visits AND last_visit_time >= :since ORDER BY id"
    ),
    epoch_us=_EPOCH_US,
)


class Chromium:
    """Title words and hosts of the pages in the history of Chromium, Chrome, Edge or Brave."""

    name = "chromium"
    about = "Title words and hosts of the history of Chromium, Chrome, Edge or Brave, read from a copy."

    def read(self, options: Options) -> dict[str, int]:
        return read_history(_SCHEMA, chromium_profiles(options.home), options)


def chromium_profiles(home: Path) -> list[Profile]:
    """The profiles below a home that have a history, in a fixed order."""
    return [
        Profile(f"{browser}/{file.parent.name}", file)
        for browser, places in _PLACES.items()
        for place in places
        for file in _histories(home / place)
    ]


def _histories(folder: Path) -> list[Path]:
    # Two folders are the browser's own: windows of guests, and the list of profiles. Neither is a person's.
    try:
        return sorted(
            file
            for file in folder.glob(f"*/{_SCHEMA.file}")
            if file.parent.name not in {"Guest Profile", "System Profile"}
        )
    except OSError:
        return []
