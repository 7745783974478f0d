"""What a report carries in its head: the sheets and the script that live pages load, since a report is one file.

``static/look.css`` is the only place where colours, sizes and strokes are written; pictures that are drawn elsewhere
read their colours from it too. ``static/report.js`` and the modules that it imports become one script.
"""

from __future__ import annotations

import base64
import hashlib
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
#: Every colour by its name: in daylight and in the dark.
_DAY, _NIGHT = (_colours(block) for block in re.findall(r"\{([^{}]*)\}", _SECTIONS["tokens"])[:2])
#: Colours of curves, in daylight and in the dark; pictures as PNG have those of daylight.
LIGHT, DARK = (tuple(found[f"c{i}"] for i in range(8)) for found in (_DAY, _NIGHT))
#: What stands around the curves, in daylight.
INK, SOFT, EDGE = (_DAY[name] for name in ("ink", "soft", "edge"))
#: Everything that goes into a report's head.
STYLE = _SECTIONS["tokens"] + _SECTIONS["base"] + _SECTIONS["drawing"] + _small(asset("report.css").content.decode())
#: The script that draws a report's figures, and the policy of a report: it runs no other, fetches and sends nothing.
SCRIPT = _script("report.js")
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_DIGEST}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
