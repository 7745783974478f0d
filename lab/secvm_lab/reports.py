"""Reports: text, tables, figures and the paper's statements beside ours, in one HTML file that fetches nothing.

A report carries in its head the sheet and the script that live pages load (``secvm.pages``): ``static/report.js`` and
the modules that it imports become one script.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from secvm.errors import BadInputError
from secvm.files import write_together
from secvm.pages.assets import asset
from secvm.pages.figure import Figure
from secvm.pages.pictures import check_drawable, picture

# ── what stands in the head ──────────────────────────────────────────────────────────────────────────────────────────


def _sections() -> dict[str, str]:
    """The parts of the sheet by the names that stand before them, without comments and needless spaces."""
    _, *parts = re.split(r"/\* == (\w+) == \*/", asset("look.css").content.decode())
    return {name: _small(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _small(sheet: str) -> str:
    """Without what only its writers need; nothing but layout is touched."""
    bare = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL))
    return re.sub(r" ?([{};]) ?", r"\1", bare).replace(";}", "}").strip() + "\n"


_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)


def _script(entry: str) -> str:
    """A module and all that it imports, as one: each becomes a function that is called once, those it needs first."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        text = asset(name).content.decode()
        for _, needed in _IMPORT.findall(text):
            if needed not in done:
                add(needed)
        given = ", ".join(match[1] for match in _EXPORT.finditer(text))
        body = _IMPORT.sub(lambda match: f"const {match[1]} = {_variable(match[2])};", _EXPORT.sub("", text))
        done[name] = f"const {_variable(name)} = (() => {{\n{_COMMENT.sub('', body)}return {{ {given} }};\n}})();\n"

    add(entry)
    return "".join(done.values())


def _variable(file: str) -> str:
    return f"module_{file.removesuffix('.js')}"


_SECTIONS = _sections()
#: Everything that goes into a report's head.
STYLE = _SECTIONS["tokens"] + _SECTIONS["base"] + _SECTIONS["drawing"] + _small(asset("report.css").content.decode())
#: The script that draws a report's figures, and the policy of a report: it runs no other, fetches and sends nothing.
SCRIPT = _script("report.js")
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_DIGEST}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Cells of so few letters stand in one line.
_LINE, _SHORT = 12, ' class="short"'


def percent(value: float, digits: int = 1) -> str:
    """A share as people write it; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}\u00a0%"


def number(value: int) -> str:
    """An integer in groups of three."""
    return f"{value:,}"


def shell(title: str, body: str, *, style: str = "") -> str:
    """A whole page: one file, nothing fetched from anywhere. ``body`` is HTML already."""
    script = f'<script type="module">{SCRIPT}</script>' if " data-spec=" in body else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{html.escape(title)} · SecVM</title>'
        f"<style>{STYLE}{style}</style></head><body><main>{body}</main>{script}</body></html>\n"
    )


def cards(shown: Iterable[tuple[str, str]]) -> str:
    """A few numbers in large type, each with what it counts."""
    inside = "".join(f'<div class="card"><b>{html.escape(b)}</b><span>{html.escape(s)}</span></div>' for b, s in shown)
    return f'<div class="cards">{inside}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """A table that scrolls by itself where the screen is narrow."""
    titled = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    heads = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        f'<th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td{_SHORT if len(cell) <= _LINE else ''}>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table>{titled}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def numbers_behind(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """The numbers of a figure, folded away."""
    return f"<details><summary>The numbers</summary>{table(head, rows, caption=caption)}</details>"


#: Longer tables behind a figure show a selection; the file beside the page has every row.
_SHOWN = 40


def plot(figure: Figure, *, caption: str = "", behind: str = "", half: bool = False) -> str:
    """A figure, which the page's script draws. ``behind`` is HTML already; ``half`` is for two side by side."""
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    spec = html.escape(json.dumps(figure.spec(), allow_nan=False, ensure_ascii=False))
    return (
        f'<figure class="plot" id="figure-{figure.name}"><p class="title">{html.escape(figure.title)}</p>'
        f'<div{" data-half" if half else ""} data-spec="{spec}">'
        f"<noscript>{html.escape(figure.description)} A script of this page draws it.</noscript></div>"
        f"{below}{behind}</figure>"
    )


def numbers_of(figure: Figure) -> str:
    """The numbers of a figure that is also written as a file, folded away."""
    header, rows = figure.rows()
    every = max(1, math.ceil(len(rows) / _SHOWN))
    note = f"All numbers are in {figure.name}.csv."
    if every > 1:
        note = f"One row in {every} of {len(rows):,}; {note[0].lower()}{note[1:]}"
    # Counted from the end, so that the last one is there.
    shown = [[_cell(value) for value in row] for row in rows[::-1][::every][::-1]]
    return numbers_behind(header, shown, caption=note)


def _cell(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if value.is_integer():
        return f"{value:,.0f}"
    # Shares with the same digits stand in a column.
    return f"{value:.4f}" if 0.001 <= abs(value) < 1 else f"{value:.4g}"


class ReportPage:
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


def write_report(folder: Path, page: ReportPage) -> str:
    """Write ``report.html`` and of each figure ``NAME.csv`` and ``NAME.png``, all of them or none.

    Without matplotlib the page and the numbers are written all the same; what is missing is said in a sentence.
    """
    note = ""
    try:
        check_drawable()
    except BadInputError as fault:
        note = f"{fault}: {fault.next_step}"
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
    return note


#: What a verdict's first word says; any other leaves it open.
_VERDICTS = {
    **dict.fromkeys(("yes", "holds"), "holds"),
    **dict.fromkeys(("no", "not", "fails"), "fails"),
    **dict.fromkeys(("partly", "nearly", "mostly"), "partly"),
}


def _verdict(holds: str) -> str:
    first = re.match(r"\w*", holds.lower())
    return _VERDICTS.get(first.group() if first else "", "open")
