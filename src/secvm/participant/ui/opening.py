"""Opening the browser without showing the secret to everybody on this machine.

A browser is started with what it is to open as an argument, and arguments are there for every account to see. So it is
given a file, which its person alone can read and which leads to the page. The file goes when the page was reached, or
ends.
"""

from __future__ import annotations

import contextlib
import html
import os
import webbrowser
from collections.abc import Callable
from pathlib import Path

from secvm.errors import BadInputError
from secvm.participant.ui.guard import ENTER

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
