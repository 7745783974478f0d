"""Histories as Firefox and Chromium lay them out, made without a browser, and a look at files that must not change."""

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

#: 1 June 2025, in milliseconds.
NOW = 1_748_736_000_000
DAY = 86_400_000
FROM_1601_US = 11_644_473_600_000_000

FIREFOX_TABLES = """
CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
  visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
  frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT, foreign_count INTEGER DEFAULT 0 NOT NULL,
  url_hash INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER, visit_date INTEGER,
  visit_type INTEGER, session INTEGER);
CREATE INDEX moz_places_url_hashindex ON moz_places (url_hash);
"""
CHROMIUM_TABLES = """
CREATE TABLE meta (key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
CREATE TABLE urls (id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR,
  visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL, last_visit_time INTEGER NOT NULL,
  hidden INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE visits (id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL, visit_time INTEGER NOT NULL,
  from_visit INTEGER, transition INTEGER DEFAULT 0 NOT NULL);
CREATE INDEX urls_url_index ON urls (url);
"""


@dataclass(frozen=True)
class Visited:
    url: str | bytes
    title: str | bytes | None = None
    visits: int = 1
    hidden: int = 0
    #: Milliseconds since 1970; none for a page that was never visited.
    last: int | None = NOW


def insert(db: sqlite3.Connection, browser: str, pages: Sequence[Visited]) -> None:
    for page in pages:
        time = None if page.last is None else page.last * 1000
        if browser == "firefox":
            statement = "INSERT INTO moz_places (url, title, visit_count, hidden, last_visit_date) VALUES (?,?,?,?,?)"
        else:
            statement = "INSERT INTO urls (url, title, visit_count, hidden, last_visit_time) VALUES (?,?,?,?,?)"
            time = 0 if time is None else time + FROM_1601_US
        db.execute(statement, (page.url, page.title, page.visits, page.hidden, time))
    db.commit()


def make(browser: str, folder: Path, pages: Sequence[Visited] = ()) -> Path:
    """A history file in a profile's folder, closed."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / {"firefox": "places.sqlite", "chromium": "History"}[browser]
    with closing(sqlite3.connect(file)) as db:
        if browser == "firefox":
            db.execute("PRAGMA journal_mode = WAL")
        db.executescript({"firefox": FIREFOX_TABLES, "chromium": CHROMIUM_TABLES}[browser])
        insert(db, browser, pages)
    return file


def look(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """All files below a folder: mode, size, time of change, digest. What is equal before and after was not touched."""
    return {
        str(file.relative_to(folder)): (
            (told := file.lstat()).st_mode,
            told.st_size if file.is_file() else 0,
            told.st_mtime_ns,
            hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "",
        )
        for file in [folder, *sorted(folder.rglob("*"))]
        if file.is_file() or file.is_dir()  # Firefox's lock is a link to nowhere
    }
