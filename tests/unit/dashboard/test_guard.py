"""Who may ask, from where, with what; and what every answer says."""

import json
from typing import Any

import pytest

from secvm.dashboard.app import MOST_BODY_BYTES, names_of
from secvm.pages.guarding import HEADERS, split_host
from tests.unit.dashboard.office import KEY, Office, office

_JSON = {"content-type": "application/json"}


async def every_answer(here: Office) -> list[tuple[str, str, int, Any]]:
    digest = here.document.digest
    found = []
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in (
            "/",
            "/new",
            f"/experiment/{digest}",
            "/static/main.js",
            "/static/none.js",
            "/favicon.ico",
            "/nothing",
            "/api/now",
            f"/api/experiments/{digest}",
            f"/api/experiments/{digest}/rounds",
            "/api/plan",
            "/api/nothing",
            "/api/admin/experiments",
            f"/api/admin/experiments/{digest}",
            f"/api/admin/experiments/{digest}/stop",
        ):
            code, headers, _ = await here.ask(path, method, headers=_JSON)
            found.append((method, path, code, headers))
    return found


async def test_every_answer_says_what_a_browser_may_do_with_it_and_other_methods_have_no_meaning() -> None:
    async with office() as here:
        await here.read()
        for method, path, code, headers in await every_answer(here):
            for name, value in HEADERS.items():
                assert headers.getall(name) == [value], (method, path, code)
            assert "set-cookie" not in headers
            assert "server" not in headers
            assert "access-control-allow-origin" not in headers
            if path.startswith("/api/"):
                assert headers["cache-control"] == "no-store"
            # Nothing but GET, and POST below /api, has a meaning.
            if method not in ("GET", "HEAD", "POST") or (method == "POST" and not path.startswith("/api/")):
                assert code == 405, (method, path)
        csp = HEADERS["content-security-policy"]
        assert csp.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in csp


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8760",
        "localhost@evil.example",
        "evil.example#localhost",
        "evil.example/localhost",
        "[::2]",
        "127.0.0.2",
        "0.0.0.0",
        "",
        "local host",
        "[::1",
        "localhost:port",
        "localhost\r\nhost: evil.example",
        None,
    ],
)
async def test_other_hosts_are_refused_whatever_they_ask(host: str | None) -> None:
    async with office() as here:
        for path in ("/", "/api/now", "/static/main.js", "/api/events", "/api/admin/experiments"):
            answer = await here.raw(f"GET {path} HTTP/1.1", *([] if host is None else [f"host: {host}"]))
            assert answer.split(b" ", 2)[1] in (b"421", b"400"), answer[:100]
            assert b"experiments" not in answer


async def test_names_that_the_operator_gave_and_loopback_are_answered() -> None:
    async with office(page={"public_hosts": ["Look.Example"]}) as here:
        for host in ("localhost", "127.0.0.1:1", "[::1]:8760", "look.example", "LOOK.example:443", "look.example."):
            code, _, _ = await here.ask("/api/now", headers={"host": host})
            assert code == 200, host


def test_the_address_that_is_listened_on_is_a_name_and_any_address_is_not() -> None:
    assert "192.0.2.1" in names_of("192.0.2.1", [])
    assert "0.0.0.0" not in names_of("0.0.0.0", [])
    assert "machine" in names_of("Machine", [])
    assert split_host("[::1]:80") == ("::1", 80)


@pytest.mark.parametrize(
    "told",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "file://"},
        {"origin": "moz-extension://abc"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "strange"},
    ],
)
async def test_other_origins_change_nothing_even_with_the_key(told: dict[str, str]) -> None:
    async with office() as here:
        path = f"/api/admin/experiments/{here.document.digest}/stop"
        code, _, body = await here.post(path, authorization=f"Bearer {KEY}", **told)
        assert code == 403, body
        assert not [one for one in here.coordinator.asked if one.path.startswith("/admin")]


async def test_other_sites_do_not_read_the_api_but_may_link_to_the_page() -> None:
    async with office() as here:
        other = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await here.ask("/", headers=other))[0] == 200
        for path in ("/api/now", "/api/events", f"/api/experiments/{here.document.digest}"):
            assert (await here.ask(path, headers=other))[0] == 403
        assert (await here.ask("/api/now", headers={"origin": "https://evil.example"}))[0] == 403


async def test_the_page_itself_may_ask_by_name_and_behind_a_proxy_that_takes_tls_off() -> None:
    async with office(page={"public_hosts": ["look.example"]}) as here:
        for headers in (
            {"origin": here.url, "sec-fetch-site": "same-origin"},
            {"host": "look.example", "origin": "https://look.example", "sec-fetch-site": "same-origin"},
            {"host": "look.example:8443", "origin": "https://look.example:8443"},
            {"host": "look.example:443", "origin": "https://look.example"},
        ):
            code, _, body = await here.post("/api/plan", **headers)
            assert code in (200, 404, 422), body
        assert (await here.post("/api/plan", host="look.example", origin=here.url))[0] == 403


@pytest.mark.parametrize(
    "media_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "text/json", "json"],
)
async def test_what_a_form_can_send_is_not_taken(media_type: str) -> None:
    async with office() as here:
        headers = {"authorization": f"Bearer {KEY}", "content-type": media_type}
        for path in ("/api/admin/experiments", "/api/plan", f"/api/admin/experiments/{here.document.digest}/stop"):
            assert (await here.post(path, **headers))[0] == 415
        assert not [one for one in here.coordinator.asked if one.path.startswith("/admin")]


async def test_bodies_have_a_limit_told_or_not() -> None:
    async with office() as here:
        headers = {**_JSON, "authorization": f"Bearer {KEY}"}
        for path in ("/api/admin/experiments", "/api/plan"):
            long = json.dumps({"title": "a" * MOST_BODY_BYTES}).encode()
            assert (await here.ask(path, "POST", headers=headers, data=long))[0] == 413

        async def pieces() -> Any:
            for _ in range(2 * MOST_BODY_BYTES // 2**14):
                yield b"a" * 2**14

        assert (await here.ask("/api/admin/experiments", "POST", headers=headers, data=pieces()))[0] == 413
        assert not [one for one in here.coordinator.asked if one.path.startswith("/admin")]
        assert (await here.ask("/api/now"))[0] == 200
