import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.participant.sources.browsers import chromium_profiles, firefox_profiles
from secvm.participant.sources.pages import as_excluded
from secvm.participant.sources.port import Options
from secvm.participant.sources.registry import find_source
from tests.unit.participant.histories import DAY, NOW, Visited, make

BROWSERS = pytest.mark.parametrize("browser", ["firefox", "chromium"])

PAGES = [
    Visited("https://www.example.org/a", "Quokka photos", visits=5, last=NOW - 2 * DAY),
    Visited("https://example.org/b", "quokka news", last=NOW - 40 * DAY),
    Visited("https://example.net/", None, visits=2, last=NOW - 400 * DAY),
    Visited("https://frame.example/", "hidden frame", hidden=1),
    Visited("https://bookmark.example/", "never visited", visits=0, last=None),
    Visited("http://localhost:8000/", "draft of a letter"),
    Visited("file:///home/me/letter.html", "letter"),
    Visited(b"https://blob.example/", b"blob"),
    Visited("https://example.com/", b"blob title"),
]


def read(
    path: Path | None,
    source: str = "history-titles",
    *,
    home: Path = Path("/nowhere"),
    excluded: str = "",
    **given: str,
) -> dict[str, int]:
    wishes = {name.replace("_", "-"): value for name, value in given.items()}
    options = Options(home=home, now=NOW, path=path, given=wishes, excluded=frozenset(excluded.split()))
    return find_source(source).read(options)


def read_below(home: Path, **given: str) -> dict[str, int]:
    return read(None, home=home, **given)


WORDS = {"quokka": 2, "photos": 1, "news": 1}
HOSTS = {"host:example.org": 2, "host:example.net": 1, "host:example.com": 1}


@BROWSERS
def test_each_source_reads_what_its_name_says_and_no_more(browser: str, tmp_path: Path) -> None:
    file = make(browser, tmp_path, PAGES)
    assert read(file, "history-titles") == WORDS
    assert read(file, "history-hosts") == HOSTS
    assert read(file, "history") == WORDS | HOSTS
    assert read(tmp_path, "history") == WORDS | HOSTS, "a profile's folder will do"
    copy = file.rename(tmp_path / "copy.bin")
    assert read(copy, "history") == WORDS | HOSTS, "a file is known by its tables, and not by its name"


@BROWSERS
def test_options_narrow_what_is_read(browser: str, tmp_path: Path) -> None:
    file = make(browser, tmp_path, PAGES)
    assert read(file, days="30") == {"quokka": 1, "photos": 1}
    assert read(file, "history-hosts", days="40") == {"host:example.org": 2, "host:example.com": 1}
    assert read(file, "history-hosts", min_visits="2") == {"host:example.org": 1, "host:example.net": 1}
    assert read(file, local="yes", days="1") == {"draft": 1, "of": 1, "letter": 1}


@BROWSERS
def test_nothing_is_read_of_what_is_excluded(browser: str, tmp_path: Path) -> None:
    pages = [
        Visited("https://login.bank.example/a", "Quokka balance"),
        Visited("https://bank.example:8443/", "transfer"),
        Visited("https://notbank.example/", "Quokka news"),
    ]
    file = make(browser, tmp_path, pages)
    assert read(file, "history", excluded="bank.example") == {"host:notbank.example": 1, "quokka": 1, "news": 1}
    assert read(file, "history-titles", excluded="bank.example quokka") == {"news": 1}


@pytest.mark.parametrize("text", ["two words", "", "https://", "a"])
def test_what_cannot_be_excluded_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="one word, or the name of one host"):
        as_excluded(text)


@BROWSERS
def test_window_reaches_back_to_the_millisecond(browser: str, tmp_path: Path) -> None:
    pages = [
        Visited("https://example.org/in", "inside", last=NOW - 7 * DAY),
        Visited("https://example.org/out", "outside", last=NOW - 7 * DAY - 1),
    ]
    assert read(make(browser, tmp_path, pages), days="7") == {"inside": 1}


@BROWSERS
def test_title_that_is_no_utf8_is_read_around_what_is_broken(browser: str, tmp_path: Path) -> None:
    file = make(browser, tmp_path, [Visited("https://example.org/", "placeholder")])
    table = {"firefox": "moz_places", "chromium": "urls"}[browser]
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"UPDATE {table} SET title = CAST(x'71756f6b6b61ff6e6577' AS TEXT)")
        db.commit()
    assert read(file) == {"quokka": 1, "new": 1}


@BROWSERS
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"days": "0"}, "days must be a whole number, 1 or more"),
        ({"days": "1" * 5000}, "days must be a whole number, 1 or more"),
        ({"min_visits": "²"}, "min-visits must be a whole number, 1 or more"),
        ({"local": "maybe"}, "local must be yes or no"),
        ({"dayz": "3"}, "this source has no option 'dayz'"),
        ({"profile": "Default"}, "a path and a profile exclude each other: both say what to read"),
    ],
)
def test_bad_options_are_one_sentence(browser: str, given: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        read(make(browser, tmp_path, PAGES), home=Path("/nowhere"), **given)
    assert str(caught.value) == sentence


def test_database_that_is_no_history_is_one_sentence(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "History")) as db:
        db.execute("CREATE TABLE cookies (name TEXT)")
    with pytest.raises(BadInputError, match="the database is no history of Firefox, Chromium"):
        read(tmp_path)


# ── profiles ─────────────────────────────────────────────────────────────────────────────────────────────────────────

INI = """\
[Install4F96D1932A9F858E]
Default=abc.default-release

[Profile1]
Name=default
IsRelative=1
Path=old.default
Default=1

[Profile0]
Name=default-release
IsRelative=1
Path=abc.default-release

[Profile2]
Name=100% mine
IsRelative=0
Path={elsewhere}

[General]
StartWithLastProfile=1
"""


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (".mozilla/firefox", "firefox"),
        (".config/mozilla/firefox", "firefox"),
        ("snap/firefox/common/.mozilla/firefox", "firefox-snap"),
        (".var/app/org.mozilla.firefox/.mozilla/firefox", "firefox-flatpak"),
        ("Library/Application Support/Firefox", "firefox"),
        ("AppData/Roaming/Mozilla/Firefox", "firefox"),
    ],
)
def test_firefox_is_found_by_its_profiles_ini(place: str, name: str, tmp_path: Path) -> None:
    make("firefox", tmp_path / place / "abc.default-release", [Visited("https://example.org/", "quokka")])
    (tmp_path / place / "old.default").mkdir()  # a profile that was never used: no history
    (tmp_path / place / "profiles.ini").write_text(INI.format(elsewhere=tmp_path / "elsewhere"), encoding="utf-8")
    assert [profile.name for profile in firefox_profiles(tmp_path)] == [f"{name}/default-release"]
    assert read_below(tmp_path) == {"quokka": 1}
    make("firefox", tmp_path / "elsewhere", [Visited("https://example.org/", "numbat")])
    with pytest.raises(BadInputError, match="there are 2 profiles") as caught:
        read_below(tmp_path)
    assert caught.value.next_step == f"Say which with --profile: {name}/default-release, {name}/100% mine."
    assert read_below(tmp_path, profile="100% mine") == {"numbat": 1}
    assert read_below(tmp_path, profile=f"{name}/default-release") == {"quokka": 1}


@pytest.mark.parametrize("content", [b"no ini file", b"\xff\xfe[Profile0]", b"[Profile0]\n", b""])
def test_broken_profiles_ini_lists_nothing(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / ".mozilla/firefox"
    folder.mkdir(parents=True)
    (folder / "profiles.ini").write_bytes(content)
    assert firefox_profiles(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (".config/chromium", "chromium"),
        ("snap/chromium/common/chromium", "chromium"),
        (".config/google-chrome", "chrome"),
        ("Library/Application Support/Google/Chrome", "chrome"),
        ("AppData/Local/Google/Chrome/User Data", "chrome"),
        ("AppData/Local/Microsoft/Edge/User Data", "edge"),
        ("Library/Application Support/Microsoft Edge", "edge"),
        (".config/BraveSoftware/Brave-Browser", "brave"),
    ],
)
def test_chromium_and_its_kin_are_found(place: str, name: str, tmp_path: Path) -> None:
    make("chromium", tmp_path / place / "Default", [Visited("https://example.org/", "quokka")])
    make("chromium", tmp_path / place / "Guest Profile", [Visited("https://example.org/", "guest")])
    (tmp_path / place / "Crashpad").mkdir()
    assert [profile.name for profile in chromium_profiles(tmp_path)] == [f"{name}/Default"]
    assert read_below(tmp_path) == {"quokka": 1}
    make("chromium", tmp_path / place / "Profile 1", [Visited("https://example.org/", "numbat")])
    assert read_below(tmp_path, profile="Profile 1") == {"numbat": 1}
    with pytest.raises(BadInputError, match="there is no profile of this name"):
        read_below(tmp_path, profile="Profile 2")


def test_same_profile_of_two_browsers_must_be_named_in_full(tmp_path: Path) -> None:
    make("chromium", tmp_path / ".config/chromium/Default", [Visited("https://example.org/", "quokka")])
    make("chromium", tmp_path / ".config/google-chrome/Default", [Visited("https://example.org/", "numbat")])
    with pytest.raises(BadInputError, match="there are 2 profiles") as caught:
        read_below(tmp_path, profile="Default")
    assert caught.value.next_step == "Say which with --profile: chromium/Default, chrome/Default."
    assert read_below(tmp_path, profile="chrome/Default") == {"numbat": 1}


def test_home_without_a_browser_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no history of a browser was found where it usually lies"):
        read_below(tmp_path)
