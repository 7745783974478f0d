"""How reports look: the same sheets that live pages load, put into the page, since a report is one file.

``static/look.css`` is the only place where colours, sizes and strokes are written. Pictures drawn elsewhere (PNG) read
their colours from it too.
"""

from __future__ import annotations

import re

from secvm.pages.assets import asset


def _sections() -> dict[str, str]:
    """The parts of the sheet by the names that stand before them, without comments and needless spaces."""
    _, *parts = re.split(r"/\* == (\w+) == \*/", asset("look.css").content.decode())
    return {name: _small(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _small(sheet: str) -> str:
    """Without what only its writers need; nothing but layout is touched."""
    bare = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL))
    return re.sub(r" ?([{};]) ?", r"\1", bare).replace(";}", "}").strip() + "\n"


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


_SECTIONS = _sections()
#: Every colour by its name: in daylight and in the dark.
_DAY, _NIGHT = (_colours(block) for block in re.findall(r"\{([^{}]*)\}", _SECTIONS["tokens"])[:2])
#: Colours of curves, in daylight and in the dark; pictures as PNG have those of daylight.
LIGHT, DARK = (tuple(found[f"c{i}"] for i in range(8)) for found in (_DAY, _NIGHT))
#: What stands around the curves, in daylight.
INK, SOFT, EDGE = (_DAY[name] for name in ("ink", "soft", "edge"))
#: How many levels to compare with are told apart by their dashes.
LEVELS = 3
#: Nothing may be fetched, run or sent from such a page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Everything that goes into a report's head.
STYLE = _SECTIONS["tokens"] + _SECTIONS["base"] + _SECTIONS["drawing"] + _small(asset("report.css").content.decode())
#: What a drawing needs that stands alone.
DRAWING_STYLE = _SECTIONS["tokens"] + _SECTIONS["drawing"]
