"""Reading a page as a program does: values beside what people read, and the API under them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from secvm_lab.rigs.browser import Window
from secvm_lab.screenshots import PLANNED, READY
from secvm_lab.showcase import Showcase

#: Shown as text, or the page's title is no longer its own.
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> & \"it's\" <b>bold</b>"
#: Path, by the name of the page.
PAGES: Mapping[str, Callable[[Showcase], str]] = {
    "overview": lambda _: "/",
    "experiment": lambda showcase: f"/experiment/{showcase.digest}",
    "figure": lambda showcase: f"/experiment/{showcase.digest}/recall",
    "new": lambda _: "/new",
    "server": lambda _: "/server",
}


def open_page(window: Window, showcase: Showcase, name: str, query: str = "") -> None:
    """Open a page and wait until it has its data and hears what is new."""
    window.page.goto(showcase.url + PAGES[name](showcase) + query)
    settle(window)
    if name == "new":
        # Whoever comes while a plan is being made is asked to wait: each test lets its own be made.
        window.page.wait_for_selector(PLANNED, timeout=90_000)


def settle(window: Window) -> None:
    """Wait until the view has its data and the connection is live."""
    window.page.wait_for_selector(READY)
    window.page.wait_for_selector("[data-fact=connection][data-value=live]")


def facts(window: Window, root: str = "main") -> dict[str, str]:
    """Every value below an element; one name has one value wherever it stands."""
    found = window.page.eval_on_selector_all(
        f"{root} [data-fact][data-value]", "all => all.map((one) => [one.dataset.fact, one.dataset.value])"
    )
    values: dict[str, str] = {}
    for name, value in found:
        assert values.setdefault(name, value) == value, f"{name} has two values"
    return values


def await_fact(window: Window, name: str, value: str | float, root: str = "main") -> None:
    """Wait until a page shows a value."""
    window.page.wait_for_function(
        """([selector, value]) => {
          const same = (one) => (typeof value === "number" ? Number(one) === value : one === value);
          return [...document.querySelectorAll(selector)].some((one) => same(one.dataset.value));
        }""",
        arg=[f"{root} [data-fact={name}]", value],
    )


def same(shown: str, told: object) -> bool:
    """Whether what a page shows is what the API told."""
    if told is None or isinstance(told, str | bool):
        return shown == ("" if told is None else str(told).lower() if isinstance(told, bool) else told)
    assert isinstance(told, int | float)
    return shown != "" and float(shown) == float(told)


def ask(url: str, path: str, *, method: str = "GET", body: object = None, **headers: str) -> tuple[int, Any]:
    """Ask as a program that is no browser: status and JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        told = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, path, told, {**kind, **named})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    return answer.status, json.loads(content) if "json" in answer.getheader("content-type", "") else content


def api(showcase: Showcase, path: str) -> Any:
    """What the API of the operator's page answers."""
    status, content = ask(showcase.url, path)
    assert status == 200, content
    return content
