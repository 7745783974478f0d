"""A report: text, tables, figures and the paper's statements beside ours, in one file that fetches nothing."""

from __future__ import annotations

import contextlib
import html
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from secvm.errors import BadInputError
from secvm.files import write_together
from secvm.pages.figure import Figure
from secvm.pages.parts import cards, shell, table
from secvm.pages.plots import numbers_of, plot
from secvm.pages.png import missing, picture


class Page:
    """A page that is filled from top to bottom. Everything given to it is plain text."""

    def __init__(self, title: str, lead: str) -> None:
        self.title = title
        self.figures: list[Figure] = []
        self._parts = [f'<h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>']
        self._footer = "This page is one file and fetches nothing."

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def prose(self, text: str) -> None:
        """A paragraph, or several with empty lines between them."""
        self._parts += [f"<p>{html.escape(piece.strip())}</p>" for piece in re.split(r"\n\s*\n", text) if piece.strip()]

    def cards(self, shown: Iterable[tuple[str, str]]) -> None:
        """A few numbers in large type, each with what it counts."""
        self._parts.append(cards(shown))

    def statement(self, paper: str, ours: str, holds: str) -> None:
        """What the paper says, what was found here, and whether it holds: a word or a sentence, ``yes …``, ``no …``."""
        self._parts.append(
            f'<div class="said"><p><span class="who">The paper</span>{html.escape(paper)}</p>'
            f'<p><span class="who">Here</span>{html.escape(ours)}</p>'
            f'<p class="verdict {_verdict(holds)}"><span class="who">Holds?</span>{html.escape(holds)}</p></div>'
        )

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """A table whose first column names its rows."""
        self._parts.append(table(header, rows, caption=caption))

    def figure(self, figure: Figure, caption: str) -> None:
        """A figure with its numbers folded away below it."""
        if figure.name in {other.name for other in self.figures}:
            raise BadInputError(f"the page has two figures of the name {figure.name!r}")
        self.figures.append(figure)
        self._parts.append(plot(figure, caption=caption, behind=numbers_of(figure)))

    def made_by(self, command: str, seconds: float | None = None) -> None:
        """Say at the end which command makes this page, and how long it took."""
        took = "" if seconds is None else f" in {seconds:,.0f} seconds"
        self._footer = f"Made by <code>{html.escape(command)}</code>{took}. This page is one file and fetches nothing."

    def html(self) -> str:
        """The whole page."""
        return shell(self.title, "".join(self._parts) + f"<footer>{self._footer}</footer>")


@dataclass(frozen=True, slots=True)
class Written:
    """What ``write_report`` left behind."""

    paths: tuple[Path, ...]
    #: One sentence where the pictures are missing, else empty.
    note: str


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, before the work is done whose report is to go there.

    It is tried, not looked up: made with what is missing above it, written into, and taken away again.
    """
    made = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadInputError(f"cannot write into the folder {folder}: {error.strerror}") from None
    finally:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()


def write_report(folder: Path, page: Page) -> Written:
    """Write ``report.html`` and of each figure ``NAME.csv`` and ``NAME.png``, all of them or none.

    Without matplotlib the page and the numbers are written all the same, and the note says what is missing.
    """
    note = missing()
    contents = {folder / "report.html": page.html().encode()}
    for figure in page.figures:
        contents[folder / f"{figure.name}.csv"] = figure.csv().encode()
        if not note:
            contents[folder / f"{figure.name}.png"] = picture(figure)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"cannot make the folder {folder}: {error.strerror}") from None
    write_together(contents)
    return Written(tuple(contents), note)


#: What a verdict's first word says; any other leaves it open.
_VERDICTS = {
    **dict.fromkeys(("yes", "holds"), "holds"),
    **dict.fromkeys(("no", "not", "fails"), "fails"),
    **dict.fromkeys(("partly", "nearly", "mostly"), "partly"),
}


def _verdict(holds: str) -> str:
    first = re.match(r"\w*", holds.lower())
    return _VERDICTS.get(first.group() if first else "", "open")
