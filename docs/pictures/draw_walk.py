"""Draw docs/pictures/walk.svg: one round of SecVM, and who sees what.

    python docs/pictures/draw_walk.py

tests/contract/test_docs.py holds the committed picture equal to what this draws.
"""  # noqa: INP001  (a program of its own)

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 858, 576
INK, SOFT, LINE, PAPER = "#1d2733", "#55616e", "#8793a0", "#ffffff"
BOX_WIDTH, BOX_HEIGHT = 222, 58


class Party(NamedTuple):
    """A panel of the picture."""

    name: str
    sees: str
    colour: str
    left: int
    top: int
    height: int


class Step(NamedTuple):
    """A box: what happens, and in which folder."""

    left: int
    top: int
    title: str
    where: str
    width: int = BOX_WIDTH


PARTIES = [
    Party("a person's device", "sees one person", "#e8f1fb", 16, 91, 379),
    Party("witnesses", "see only the log", "#fbeeee", 318, 12, 142),
    Party("public log", "the same for all", "#f1edf7", 318, 170, 142),
    Party("two relays", "one sees who, neither sees what", "#f6f0e2", 318, 328, 142),
    Party("auditor: anybody", "sees what is public", "#eef3f4", 620, 12, 142),
    Party("coordinator", "sees what, never who", "#e9f5ec", 620, 170, 300),
]

STEPS = [
    Step(16, 163, "features → bins", "learning/individual"),
    Step(56, 242, "log and steps checked", "protocol", 182),
    Step(16, 321, "margin test → update", "learning/individual"),
    Step(16, 400, "split, thin → packages", "learning/individual"),
    Step(318, 400, "mix, add cover, forget", "relay"),
    Step(620, 400, "count", "learning/aggregate"),
    Step(620, 242, "step → next weights", "learning/aggregate"),
    Step(318, 242, "signed, logged, published", "protocol, coordinator"),
    Step(318, 84, "cosign what only grows", "witness"),
    Step(620, 84, "steps and counts again", "auditor"),
]

#: Arrows as the points they pass, and words with their places.
ARROWS = [
    ([(36, 221), (36, 321)], []),
    ([(147, 300), (147, 321)], []),
    ([(127, 379), (127, 400)], []),
    ([(238, 429), (318, 429)], [("packages", 278, 420)]),
    ([(540, 429), (620, 429)], [("packages", 580, 420)]),
    ([(731, 400), (731, 300)], [("tally", 752, 354)]),
    ([(620, 271), (540, 271)], [("weights,", 580, 288), ("tally", 580, 302)]),
    ([(318, 271), (238, 271)], [("rounds,", 278, 251), ("tallies", 278, 264)]),
    ([(345, 242), (345, 142)], [("checkpoint", 382, 166)]),
    ([(513, 142), (513, 242)], [("cosignature", 473, 166)]),
    ([(540, 257), (580, 257), (580, 113), (620, 113)], [("all files", 580, 104)]),
]


def text(x: float, y: float, words: str, *, size: int = 14, colour: str = INK, bold: bool = False) -> str:
    """Words, centred at a point."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}"{weight}>{escape(words)}</text>'


def party(panel: Party) -> list[str]:
    """The background of a party, its name and what it sees."""
    middle = panel.left + BOX_WIDTH / 2
    size = f'width="{BOX_WIDTH + 16}" height="{panel.height}"'
    return [
        f'<rect x="{panel.left - 8}" y="{panel.top}" {size} rx="10" fill="{panel.colour}"/>',
        text(middle, panel.top + 26, panel.name, size=17, bold=True),
        text(middle, panel.top + 49, panel.sees, colour=SOFT),
    ]


def box(step: Step) -> list[str]:
    """One step."""
    middle = step.left + step.width / 2
    size = f'width="{step.width}" height="{BOX_HEIGHT}"'
    return [
        f'<rect x="{step.left}" y="{step.top}" {size} rx="7" fill="{PAPER}" stroke="{LINE}"/>',
        text(middle, step.top + 25, step.title, size=15),
        text(middle, step.top + 45, step.where, size=12, colour=SOFT),
    ]


def arrow(points: list[tuple[int, int]], words: list[tuple[str, int, int]]) -> list[str]:
    """An arrow through points, and its words."""
    way = " ".join(f"{x},{y}" for x, y in points)
    drawn = [f'<polyline points="{way}" fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#head)"/>']
    return drawn + [text(x, y, word, size=12) for word, x, y in words]


def draw() -> str:
    """The whole picture."""
    letters = 'font-family="system-ui, Helvetica, Arial, DejaVu Sans, sans-serif" text-anchor="middle"'
    head = 'id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {letters}>',
        "<title>One round of SecVM, and who sees what</title>",
        f'<defs><marker {head}><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
    ]
    for panel in PARTIES:
        parts += party(panel)
    for step in STEPS:
        parts += box(step)
    for one in ARROWS:
        parts += arrow(*one)
    middle = WIDTH / 2
    parts += [
        text(middle, 502, "A train package is one bin and one sign, sealed for the coordinator, and names nobody."),
        text(middle, 530, "A device checks log, witnesses and steps before it sends anything."),
        text(middle, 558, "The code that counts cannot import the code that sees a person: the linter refuses it."),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("walk.svg").write_text(draw(), encoding="utf-8")
