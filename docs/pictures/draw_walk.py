"""Draw docs/pictures/walk.svg: one round of SecVM, who sees what, and what of it exists.

    python docs/pictures/draw_walk.py

tests/test_docs.py holds the committed picture equal to what this draws.
"""  # noqa: INP001  (a program of its own)

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 858, 438
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
    """A box: what happens, in which module, and whether it is there yet."""

    left: int
    top: int
    title: str
    where: str
    exists: bool


PARTIES = [
    Party("a person's device", "sees one person", "#e8f1fb", 16, 12, 320),
    Party("public files", "meant to be the same for all", "#f1edf7", 318, 12, 142),
    Party("relay", "sees who, never what", "#f6f0e2", 318, 190, 142),
    Party("coordinator", "sees what, never who", "#e9f5ec", 620, 12, 320),
]

STEPS = [
    Step(16, 84, "features → bins", "individual.binning", exists=True),
    Step(16, 173, "margin test → update", "individual.update", exists=True),
    Step(16, 262, "split, thin → packages", "individual.splitting", exists=True),
    Step(318, 262, "sealed, delayed, shuffled", "crypto, protocol, relay", exists=True),
    Step(620, 262, "count", "aggregate.tally", exists=True),
    Step(620, 84, "step → next weights", "aggregate.descent", exists=True),
    Step(318, 84, "signed, published", "no log and no witness yet", exists=False),
]

#: Arrows as the points they pass; a word with its place, where there is one.
ARROWS = [
    ([(127, 142), (127, 173)], None),
    ([(127, 231), (127, 262)], None),
    ([(238, 291), (318, 291)], ("packages", 278, 282)),
    ([(540, 291), (620, 291)], ("packages", 580, 282)),
    ([(731, 262), (731, 142)], ("tally", 752, 206)),
    ([(620, 113), (540, 113)], ("weights,", 580, 92)),
    ([(318, 113), (278, 113), (278, 202), (238, 202)], ("weights", 278, 104)),
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
    """One step; dashed where a part of it is not built yet."""
    dash = "" if step.exists else ' stroke-dasharray="6 4"'
    middle = step.left + BOX_WIDTH / 2
    size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
    return [
        f'<rect x="{step.left}" y="{step.top}" {size} rx="7" fill="{PAPER}" stroke="{LINE}"{dash}/>',
        text(middle, step.top + 25, step.title, size=15),
        text(middle, step.top + 45, step.where, size=12, colour=SOFT),
    ]


def arrow(points: list[tuple[int, int]], word: tuple[str, int, int] | None) -> list[str]:
    """An arrow through points, and its word."""
    way = " ".join(f"{x},{y}" for x, y in points)
    drawn = [f'<polyline points="{way}" fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#head)"/>']
    if word is not None:
        drawn.append(text(word[1], word[2], word[0], size=12))
    return drawn


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
        text(580, 105, "tally", size=12),
        text(middle, 362, "solid: exists, offline and over a network · dashed: in part", colour=SOFT),
        text(middle, 392, "A train package is one bin and one sign, and names no one. Each travels alone."),
        text(middle, 420, "The code that counts cannot import the code that sees a person: the linter refuses."),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("walk.svg").write_text(draw(), encoding="utf-8")
