"""Who may speak with the person's page: whoever knows its secret, from a page of its own.

Everything on this machine can reach a port of it, and so can every web page that somebody looks at
(``pages.guarding``). In this order:

 1. **The host that is named must be ours**, by address or as ``localhost``, with our port.
 2. **The secret is the first part of the path.** Compared in constant time; whatever comes without it gets one and the
    same answer, as if there were nothing here.
 3. **No other origin.** Browsers say from where a request comes (``Sec-Fetch-Site``, ``Origin``). Only the page itself
    and an address that was typed or opened are let in. One door stands open to a link from elsewhere (``enter``, for a
    file that opens the browser): it shows nothing and leads to the page.
 4. **What changes something is no form.** It is JSON, and has a header that a browser lets nobody set without asking us
    first, to which the answer is no.

A refusal says one sentence that does not depend on what was asked.

**Opening the browser** must not show the secret to everybody on this machine. A browser is started with what it is to
open as an argument, and arguments are there for every account to see. So it is given a file, which its person alone can
read and which leads to the page. The file goes when the page was reached, or ends.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import html
import os
import webbrowser
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadInputError
from secvm.pages.guarding import (
    READING,
    Fields,
    RefusedRequestError,
    check_host,
    check_json,
    check_origin,
    fields_of,
    split_host,
)

SECRET_BYTES = 32
#: A header of our own, with this value. A foreign page needs leave to send it, which nobody gives.
HEADER, HEADER_VALUE = "secvm-page", "person"
#: The door for a link from elsewhere.
ENTER = "enter"
_OTHERS = "This page answers no other page."


def new_secret(dice: RandomBytes) -> str:
    """Fresh for every start: 256 bits, as a path can carry them."""
    return base64.urlsafe_b64encode(throw(dice, SECRET_BYTES)).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, repr=False)
class PageGuard:
    """The rules above, for one start of the page. It does not print itself."""

    secret: str
    #: As a browser names us: ``127.0.0.1:8431``, ``localhost:8431``.
    hosts: tuple[str, ...]

    def __repr__(self) -> str:
        return "PageGuard(...)"

    def check(self, method: str, path: str, headers: Iterable[tuple[str, str]]) -> str:
        """The rest of the path, below the secret. ``headers``: all that came, names in lower case.

        Raises
        ------
        RefusedRequestError
            With 421, 404, 403, 405 or 415.
        """
        fields = fields_of(headers)
        own = {split_host(host) for host in self.hosts}
        host = check_host(fields, own.__contains__, sentence="This page answers under its own address only.")
        rest = self._below_secret(path)
        if rest == ENTER and method in READING:
            _check_navigation(fields)
            return rest
        check_origin(method, fields, host, schemes=("http",), sentence=_OTHERS)
        if method == "POST":
            check_json(fields, sentence="What changes something comes as JSON.")
            if fields.get(HEADER) != [HEADER_VALUE]:
                raise RefusedRequestError(403, _OTHERS)
        elif method not in READING:
            raise RefusedRequestError(405, "This page is looked at with GET and changed with POST.")
        return rest

    def _below_secret(self, path: str) -> str:
        begin, first, *rest = [*path.split("/", 2), ""]
        known = hmac.compare_digest(first.encode(), self.secret.encode())
        # Without a slash behind it the page's own links would lead out of it.
        if begin or not known or path.count("/") < 2:
            raise RefusedRequestError(404, "There is nothing here.")
        return rest[0]


def _check_navigation(fields: Fields) -> None:
    """A whole window that somebody opens, and nothing inside of another page."""
    modes, places = fields.get("sec-fetch-mode", ["navigate"]), fields.get("sec-fetch-dest", ["document"])
    if modes != ["navigate"] or places != ["document"] or "origin" in fields:
        raise RefusedRequestError(403, _OTHERS)


FILE = "open-page.html"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}"><title>Your device</title></head>
<body><p><a rel="noreferrer" href="{address}">To your page</a></p></body></html>
"""


class OpeningFile:
    """The file, in the device's folder. ``remove`` it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def lead(self, address: str, browser: Callable[[str], bool] | None = None) -> bool:
        """Write it, and let a browser open it; whether there was one."""
        self.remove()
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as written:
                written.write(_PAGE.format(address=html.escape(f"{address}{ENTER}", quote=True)))
        except OSError as error:
            raise BadInputError(
                f"the browser cannot be opened: {error.strerror or 'input/output error'}",
                next_step="Open the address yourself.",
            ) from None
        return (browser or webbrowser.open)(self._path.as_uri())

    def remove(self) -> None:
        """What it led to is open, or over."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
