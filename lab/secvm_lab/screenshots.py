"""Which pictures are taken of the pages: each page of the operator, of the person and of the reports, with its dialogs.

A page that a server has and nobody takes a picture of is found by a test (tests/unit/lab/test_shots.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from secvm_lab.rigs.browser import DESKTOP, PHONE, Browser, Window

#: What a picture is called by how it was taken.
SIZES = {"desktop": DESKTOP, "phone": PHONE, "picture": (1280, 1140)}
#: How every page is looked at; a picture of the documentation shows a little more than a desk's screen.
WAYS = tuple(product(("light", "dark"), ("desktop", "phone")))
SCHEMES = {"light": False, "dark": True}
READY = "main[data-view]:not([aria-busy=true])"
#: The planner has its exact answer. Until then others may have to wait, and be told so.
#: A plan takes most of a minute of a processor, and more where others want it too.
_PLANNED_MS = 240_000
PLANNED = "[data-fact=plan_state][data-value=exact]"
#: Curves, meters and fonts are at rest after so long.
_REST_MS = 350


@dataclass(frozen=True, slots=True)
class Shot:
    """One thing to look at."""

    name: str
    title: str
    #: The route that it is a picture of, as its server writes it; empty for what has none.
    route: str = ""
    #: After the address of the server. ``{digest}`` stands for the experiment.
    path: str = ""
    #: What a person does before the picture.
    act: Callable[[Window], None] | None = None
    #: Only what is on the screen, such as a dialog; otherwise the whole page.
    screen: bool = False
    #: What shows that everything is there.
    ready: str = READY


def _press(*names: str) -> Callable[[Window], None]:
    """Press buttons of these names, one after the other, each as soon as it is there."""

    def act(window: Window) -> None:
        for name in names:
            window.page.get_by_role("button", name=name).first.click()

    return act


def _question(window: Window) -> None:
    window.page.locator("[data-action=pause]").click()
    window.page.wait_for_selector("dialog[open]")


def _nonsense(window: Window) -> None:
    """One bin for everything: the planner says why not."""
    window.page.wait_for_selector(PLANNED, timeout=_PLANNED_MS)
    field = window.page.locator("[data-field='binning.bins']")
    field.fill("1")
    field.press("Tab")
    window.page.wait_for_selector("[data-fact=plan_state][data-value=refused]")


def _offer(place: int) -> Callable[[Window], None]:
    def act(window: Window) -> None:
        _press("Ask which there are")(window)
        window.page.locator("[data-offer]").nth(place).get_by_role("button", name="Read what it means").click()
        window.page.wait_for_selector("dialog[open]")

    return act


#: The operator's pages; see ``dashboard.app.Page.routes``.
OPERATOR = (
    Shot("overview", "All experiments", "/", "/"),
    Shot("experiment", "One experiment", "/experiment/{digest}", "/experiment/{digest}"),
    Shot("question", "Pausing asks for the key", "", "/experiment/{digest}", _question, screen=True),
    Shot("figure", "One plot alone", "/experiment/{digest}/{figure}", "/experiment/{digest}/recall"),
    Shot("new", "A new experiment with the planner", "/new", "/new", ready=PLANNED),
    Shot("new-refused", "The planner refuses nonsense", "", "/new", _nonsense),
    Shot("server", "Ingest, log, witnesses, audit", "/server", "/server"),
)
_PERSON = "[data-experiment]"
PERSON = (
    Shot("person", "The person's page", "/", ready=_PERSON),
    Shot("person-offers", "What is offered", act=_press("Ask which there are"), ready=_PERSON),
    Shot("person-statement", "What an experiment means", act=_offer(0), screen=True, ready=_PERSON),
    Shot("person-words", "One's own words, behind a click", act=_press("Show some"), screen=True, ready=_PERSON),
    Shot("person-forget", "Leaving and forgetting", act=_press("Leave and forget"), screen=True, ready=_PERSON),
    Shot("person-proof", "Evidence of a server that cheated", act=_press("Save the proof"), screen=True, ready=_PERSON),
)
#: Reports, each as the command that makes it, small but for the demo, and the file that comes of it, in a folder of our
#: own.
REPORTS: dict[str, tuple[str, str]] = {
    "demo": ("demo --report {folder}/demo.html", "demo.html"),
    "simulate": (
        "simulate --people 2000 --days 2 --rounds 60 --words 40 --bins 500 --floor 10 --folder {folder}/simulated",
        "simulated/report.html",
    ),
    "reproduce": (
        "reproduce offline --people 400 --splits 3 --bins 100,1000 --rounds 20 --folder {folder}/offline",
        "offline/report.html",
    ),
    "attack": ("attack report --quick --out {folder}/attacks.html", "attacks.html"),
}


@dataclass(frozen=True, slots=True)
class Taken:
    """A picture that was taken."""

    shot: str
    title: str
    scheme: str
    size: str
    file: Path
    #: What the page did that it should not, such as errors and requests to other machines.
    faults: tuple[str, ...]


def take(
    browser: Browser,
    shots: Sequence[Shot],
    base: str,
    folder: Path,
    *,
    digest: str = "",
    ways: Sequence[tuple[str, str]] = WAYS,
) -> Iterator[Taken]:
    """Each shot in each way, as PNG into the folder."""
    for shot, (scheme, size) in product(shots, ways):
        with browser.window(dark=SCHEMES[scheme], size=SIZES[size]) as window:
            window.page.goto(base + shot.path.format(digest=digest))
            window.page.wait_for_selector(shot.ready, timeout=_PLANNED_MS)
            if shot.act is not None:
                shot.act(window)
            window.page.wait_for_timeout(_REST_MS)
            file = folder / f"{shot.name}-{scheme}-{size}.png"
            window.page.screenshot(path=file, full_page=not shot.screen)
            yield Taken(shot.name, shot.title, scheme, size, file, tuple(window.faults()))
