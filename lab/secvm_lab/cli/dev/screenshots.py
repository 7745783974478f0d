"""``secvm dev screenshots``: every page in light and dark, on a phone and at a desk, side by side on one sheet.

Everything on the pictures is real: a small federation that this command starts, a made-up person's device, reports that
the program writes. The pictures of README.md and docs/ are made here too.
"""

from __future__ import annotations

import contextlib
import html
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm_lab.rigs.browser import Browser
    from secvm_lab.screenshots import Shot, Taken

#: What is kept in the repository: the file, the shot, and how it is taken.
PICTURES = {
    "demo-light.png": ("report-demo", "light"),
    "demo-dark.png": ("report-demo", "dark"),
    "dashboard-light.png": ("experiment", "light"),
    "dashboard-dark.png": ("experiment", "dark"),
    "planner.png": ("new", "light"),
    "person.png": ("person", "light"),
}
MOST_PICTURE_BYTES = 200_000
GROUPS = ("operator", "person", "demo", "simulate", "reproduce", "attack")
_STYLE = """
main { max-width: none } h2 { margin-top: 2rem }
.sheet { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start }
.sheet figure { margin: 0 } .sheet img { display: block; border: 1px solid #8888; height: auto; max-width: 100% }
.sheet .desktop { width: 32rem } .sheet .phone { width: 12rem }
"""


def screenshots(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and index.html.")] = Path("out/screenshots"),
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"One of {', '.join(GROUPS)}; may be given again.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Also write the pictures of README.md and docs/ here.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, max=29, help="Rounds that the federation plays first.")] = 6,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Take pictures of every page in light and dark.

    Needs chromium. The reports of attacks take a minute or two; --only leaves them out. Example:

    \b
        ./secvm dev screenshots --out out/screenshots
        ./secvm dev screenshots --only demo --only operator --only person --pictures docs/pictures
    """
    from secvm.testing.processes import in_memory
    from secvm_lab.rigs.browser import Browser

    wanted = list(dict.fromkeys(only or GROUPS))
    unknown = sorted(set(wanted) - set(GROUPS))
    if unknown:
        raise BadInputError(f"there are no pages of {unknown[0]!r}", next_step=f"One of: {', '.join(GROUPS)}.")
    out.mkdir(parents=True, exist_ok=True)
    if pictures is not None and not pictures.is_dir():
        raise BadInputError(f"{pictures} is no folder")
    taken: list[Taken] = []
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=in_memory())))
        reports = {name: _report(name, made) for name in wanted if name not in ("operator", "person")}
        browser = stack.enter_context(Browser())
        for name in wanted:
            if name == "operator":
                taken += _operator(browser, out, made, rounds, pictures)
            elif name == "person":
                taken += _person(browser, out, made, pictures)
            else:
                taken += _of_report(browser, out, name, reports[name], pictures)
    (out / "index.html").write_text(_sheet(taken), encoding="utf-8")
    faults = [f"{one.file.name}: {fault}" for one in taken for fault in one.faults]
    listed = [{"page": one.shot, "scheme": one.scheme, "size": one.size, "file": one.file.name} for one in taken]
    text = f"{len(taken)} pictures in {out}; look at {out / 'index.html'}" + "".join(f"\n{fault}" for fault in faults)
    emit({"folder": str(out), "pictures": listed, "faults": faults}, output_format, text=text)
    if faults:
        raise typer.Exit(1)


def _noted(pictures: Iterator[Taken]) -> Iterator[Taken]:
    for one in pictures:
        note(f"secvm dev screenshots: {one.file.name}")
        yield one


def _operator(browser: Browser, out: Path, made: Path, rounds: int, pictures: Path | None) -> list[Taken]:
    """In the middle of a round, so that there is something going on."""
    from secvm_lab.screenshots import OPERATOR, take
    from secvm_lab.showcase import Showcase

    taken: list[Taken] = []
    folder = made / "federation"
    folder.mkdir()
    note("secvm dev screenshots: starting a federation")
    with Showcase(folder, participants=1_000, rounds=rounds + 2, bins=40, epsilon=1) as showcase:

        def look() -> None:
            taken.extend(_noted(take(browser, OPERATOR, showcase.url, out, digest=showcase.digest)))
            if pictures is not None:
                _keep(browser, OPERATOR, showcase.url, pictures, digest=showcase.digest)

        showcase.play(rounds - 1)
        note(f"secvm dev screenshots: {rounds - 1} rounds are played")
        showcase.play(midway=look)
    return taken


def _person(browser: Browser, out: Path, made: Path, pictures: Path | None) -> list[Taken]:
    from secvm_lab.rigs.person_page import shown_page
    from secvm_lab.screenshots import PERSON, take

    with shown_page(made / "device") as shown:
        if pictures is not None:
            _keep(browser, PERSON, shown.address, pictures)
        return list(_noted(take(browser, PERSON, shown.address, out)))


def _report(name: str, made: Path) -> Path:
    """Let the program write a small report."""
    from secvm_lab.screenshots import REPORTS

    command, file = REPORTS[name]
    note(f"secvm dev screenshots: secvm {command.format(folder='FOLDER')}")
    told = subprocess.run(  # noqa: S603  (this program)
        [sys.executable, "-P", "-m", "secvm.cli.main", *command.format(folder=made).split(), "--format", "json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode or not (made / file).is_file():
        last = told.stderr.strip().splitlines()[-1:] or ["nothing was said"]
        raise BadInputError(f"the report of {name} was not written: {last[0]}")
    return made / file


def _of_report(browser: Browser, out: Path, name: str, file: Path, pictures: Path | None) -> list[Taken]:
    from secvm_lab.screenshots import Shot, take

    shot = Shot(f"report-{name}", f"Report of {name}", ready="main")
    if pictures is not None:
        _keep(browser, [shot], file.as_uri(), pictures)
    return list(_noted(take(browser, [shot], file.as_uri(), out)))


def _keep(browser: Browser, shots: Sequence[Shot], base: str, folder: Path, *, digest: str = "") -> None:
    """The pictures of the documentation: what a desk's screen shows, and not too large a file."""
    from dataclasses import replace

    from secvm_lab.screenshots import take

    by_name = {shot.name: shot for shot in shots}
    for file, (name, scheme) in PICTURES.items():
        if name not in by_name:
            continue
        with tempfile.TemporaryDirectory() as trial:
            screen = replace(by_name[name], screen=True)
            ways = [(scheme, "picture")]
            (found,) = take(browser, [screen], base, Path(trial), digest=digest, ways=ways)
            data = found.file.read_bytes()
        if len(data) > MOST_PICTURE_BYTES:
            raise BadInputError(f"{file} would have {len(data):,} bytes, and may have {MOST_PICTURE_BYTES:,}")
        (folder / file).write_bytes(data)
        note(f"secvm dev screenshots: {folder / file}")


def _sheet(taken: Sequence[Taken]) -> str:
    """All pictures on one page."""
    from secvm_lab.reports import STYLE

    parts = [
        "<h1>Every page</h1><p class=lead>In light and dark, at a desk and on a phone. A click shows one alone.</p>"
    ]
    for name in dict.fromkeys(one.shot for one in taken):
        same = [one for one in taken if one.shot == name]
        parts.append(f"<h2>{html.escape(same[0].title)}</h2><div class=sheet>")
        for one in same:
            words = html.escape(f"{one.title}, {one.scheme}, {one.size}")
            file = html.escape(one.file.name)
            parts.append(
                f'<figure class="{one.size}"><a href="{file}"><img src="{file}" alt="{words}" loading="lazy"></a>'
                f"<figcaption>{one.scheme}, {one.size}</figcaption></figure>"
            )
        parts.append("</div>")
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Every page · SecVM</title>'
    return f"{head}<style>{STYLE}{_STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
