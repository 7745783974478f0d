"""Draw docs/pictures/round.svg: the life of a round, from the table in ``secvm.protocol.round_state``.

    python docs/pictures/draw_round.py

tests/contract/test_docs.py holds the committed picture equal to what this draws.
"""  # noqa: INP001  (a program of its own)

from __future__ import annotations

from html import escape
from pathlib import Path

from secvm.protocol.round_state import TRANSITIONS, RoundState

INK, SOFT, PAPER, ENDS = "#1d2733", "#55616e", "#ffffff", "#eef1f4"
BOX_WIDTH, BOX_HEIGHT, GAP, ROW, MARGIN = 104, 40, 128, 84, 16


def columns() -> dict[RoundState, int]:
    """How many events lie before each state, at most."""
    depth = dict.fromkeys(TRANSITIONS, 0)
    for _ in TRANSITIONS:  # as many passes as states: longer than any path
        for state, row in TRANSITIONS.items():
            for after in row.values():
                depth[after] = max(depth[after], depth[state] + 1)
    return depth


def places() -> dict[RoundState, tuple[int, int]]:
    """The upper left corner of each state's box: a column per event, those of one column below each other."""
    found: dict[RoundState, tuple[int, int]] = {}
    for state, column in columns().items():
        row = sum(columns()[other] == column for other in found)
        found[state] = (MARGIN + column * (BOX_WIDTH + GAP), MARGIN + row * ROW)
    return found


def draw() -> str:
    """The picture as SVG."""
    at = places()
    width = max(x for x, _ in at.values()) + BOX_WIDTH + MARGIN
    height = max(y for _, y in at.values()) + BOX_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        '<g font-family="system-ui, sans-serif" font-size="12">',
        "<title>The life of a round</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">',
        f'<path d="M0,0 L8,4 L0,8 z" fill="{SOFT}"/></marker></defs>',
    ]
    for state, row in TRANSITIONS.items():
        for event, after in row.items():
            (x, y), (to_x, to_y) = at[state], at[after]
            x, y, to_y = x + BOX_WIDTH, y + BOX_HEIGHT // 2, to_y + BOX_HEIGHT // 2
            middle = (x + to_x) // 2
            parts.append(
                f'<path d="M{x},{y} C{middle},{y} {middle},{to_y} {to_x},{to_y}" fill="none" stroke="{SOFT}" '
                'stroke-width="1.5" marker-end="url(#tip)"/>'
            )
            label = y - 7 if y == to_y else to_y + 16
            parts.append(
                f'<text x="{middle}" y="{label}" text-anchor="middle" fill="{SOFT}">{escape(event.value)}</text>'
            )
    for state, (x, y) in at.items():
        fill = PAPER if TRANSITIONS[state] else ENDS
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8" fill="{fill}" stroke="{INK}"/>'
        )
        parts.append(
            f'<text x="{x + BOX_WIDTH // 2}" y="{y + BOX_HEIGHT // 2 + 4}" text-anchor="middle" fill="{INK}" '
            f'font-weight="600">{escape(state.value)}</text>'
        )
    return "\n".join([*parts, "</g>", "</svg>", ""])


if __name__ == "__main__":
    (Path(__file__).resolve().parent / "round.svg").write_text(draw(), encoding="utf-8")
