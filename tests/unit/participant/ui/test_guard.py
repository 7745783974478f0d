"""Who may speak with the person's page, as a table; and opening the browser shows the secret to nobody else."""

import stat
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from secvm.errors import BadInputError
from secvm.pages.guarding import RefusedRequestError
from secvm.participant.ui.guard import FILE, OpeningFile, PageGuard, new_secret

SECRET = new_secret(lambda count: bytes(range(count)))
GUARD = PageGuard(SECRET, ("127.0.0.1:8431", "localhost:8431"))
HOST = ("host", "127.0.0.1:8431")
JSON = ("content-type", "application/json")
OWN = ("secvm-page", "person")


def refused(method: str, path: str, *headers: tuple[str, str]) -> int:
    with pytest.raises(RefusedRequestError) as refusal:
        GUARD.check(method, path, headers)
    assert SECRET not in str(refusal.value)
    return refusal.value.status


def test_secret_is_fresh_and_has_256_bits() -> None:
    drawn = iter([bytes(32), bytes([1] * 32)])
    first, second = (new_secret(lambda _: next(drawn)) for _ in range(2))
    assert first != second
    assert len(first) == len(second) == 43
    assert set(SECRET) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    ("method", "path", "headers", "rest"),
    [
        ("GET", f"/{SECRET}/", [], ""),
        ("HEAD", f"/{SECRET}/static/person.js", [("sec-fetch-site", "same-origin")], "static/person.js"),
        ("GET", f"/{SECRET}/api/state", [("sec-fetch-site", "none")], "api/state"),
        ("POST", f"/{SECRET}/api/pause", [JSON, OWN, ("origin", "http://127.0.0.1:8431")], "api/pause"),
        ("POST", f"/{SECRET}/api/pause", [("content-type", "application/json; charset=utf-8"), OWN], "api/pause"),
        ("GET", f"/{SECRET}/enter", [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], "enter"),
    ],
)
def test_page_itself_is_let_in(method: str, path: str, headers: list[tuple[str, str]], rest: str) -> None:
    assert GUARD.check(method, path, [HOST, *headers]) == rest


def test_localhost_is_this_machine_with_an_origin_of_its_own() -> None:
    host, origin = ("host", "LOCALHOST:8431"), ("origin", "http://localhost:8431")
    assert GUARD.check("GET", f"/{SECRET}/", [host, origin]) == ""
    assert refused("GET", f"/{SECRET}/", host, ("origin", "http://127.0.0.1:8431")) == 403


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["127.0.0.1"],
        ["127.0.0.1:8432"],
        ["localhost"],
        ["rebound.example:8431"],
        ["127.0.0.1:8431.rebound.example"],
        ["[::1]:8431"],
        ["127.0.0.1:8431", "127.0.0.1:8431"],
        ["127.0.0.1:8431, rebound.example"],
        [""],
    ],
)
def test_another_host_is_misdirected_also_with_the_secret(hosts: list[str]) -> None:
    assert refused("GET", f"/{SECRET}/", *(("host", host) for host in hosts)) == 421


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/api/state",
        f"/{SECRET}",
        f"{SECRET}/",
        f"//{SECRET}/",
        f"/x/{SECRET}/",
        f"/{SECRET[:-1]}/",
        f"/{SECRET}x/",
        f"/{SECRET.lower()}/",
        f"/{SECRET}%2f",
        f"http://127.0.0.1:8431/{SECRET}/",
        "/é/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "BREW"])
def test_without_the_secret_there_is_nothing_here(method: str, path: str) -> None:
    assert refused(method, path, HOST, ("origin", "http://other.example"), ("sec-fetch-site", "cross-site")) == 404


@pytest.mark.parametrize(
    "header",
    [
        ("origin", "http://other.example"),
        ("origin", "null"),
        ("origin", "https://127.0.0.1:8431"),
        ("origin", "http://127.0.0.1:8432"),
        ("origin", "http://127.0.0.1:8431.example"),
        ("origin", ""),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", ""),
    ],
)
@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("GET", "api/state"), ("POST", "api/forget")])
def test_another_origin_is_refused_also_with_the_secret(method: str, rest: str, header: tuple[str, str]) -> None:
    assert refused(method, f"/{SECRET}/{rest}", HOST, JSON, OWN, header) == 403


@pytest.mark.parametrize(
    "headers",
    [
        [("sec-fetch-mode", "no-cors")],
        [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
        [("sec-fetch-dest", "image")],
        [("origin", "http://127.0.0.1:8431")],
    ],
)
def test_door_for_links_opens_to_whole_windows_only(headers: list[tuple[str, str]]) -> None:
    assert refused("GET", f"/{SECRET}/enter", HOST, *headers) == 403
    assert refused("POST", f"/{SECRET}/enter", HOST, ("sec-fetch-site", "cross-site"), JSON, OWN) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([OWN], 415),
        ([OWN, ("content-type", "text/plain")], 415),
        ([OWN, ("content-type", "application/x-www-form-urlencoded")], 415),
        ([OWN, ("content-type", "multipart/form-data; boundary=application/json")], 415),
        ([OWN, JSON, JSON], 415),
        ([JSON], 403),
        ([JSON, ("secvm-page", "else")], 403),
        ([JSON, OWN, OWN], 403),
    ],
)
def test_what_changes_something_is_no_form(headers: list[tuple[str, str]], status: int) -> None:
    assert refused("POST", f"/{SECRET}/api/forget", HOST, *headers) == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "get"])
def test_other_methods_are_not_known(method: str) -> None:
    assert refused(method, f"/{SECRET}/api/forget", HOST, JSON, OWN) == 405


# ── opening the browser ──────────────────────────────────────────────────────────────────────────────────────────────

ADDRESS = "http://127.0.0.1:8431/secret-secret/"


def test_browser_is_given_a_file_that_its_person_alone_can_read(tmp_path: Path) -> None:
    asked: list[str] = []

    def browser(address: str) -> bool:
        asked.append(address)
        return True

    opening = OpeningFile(tmp_path)
    assert opening.lead(ADDRESS, browser)
    (argument,) = asked
    # What every account can see in the list of processes.
    assert "secret-secret" not in argument
    path = Path(unquote(urlparse(argument).path))
    assert path == tmp_path / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"{ADDRESS}enter" in path.read_text()
    opening.remove()
    assert not path.exists()
    opening.remove()


def test_what_lies_there_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / FILE).symlink_to(other)
    OpeningFile(tmp_path).lead(ADDRESS, lambda _: True)
    assert other.read_text() == "theirs"


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be opened") as refusal:
        OpeningFile(tmp_path / "nowhere").lead(ADDRESS, lambda _: True)
    assert "secret-secret" not in str(refusal.value)
