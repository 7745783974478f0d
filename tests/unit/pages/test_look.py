"""The sheet that all pages share, and the files that servers give."""

from __future__ import annotations

import gzip
import hashlib
import re
from itertools import product

import pytest

from secvm.pages.assets import Assets, asset, shared

_LOOK = asset("look.css").content.decode()


def _blocks() -> dict[str, dict[str, str]]:
    """Colours by name, as each of the three blocks has them."""
    tokens = _LOOK[_LOOK.index("== tokens ==") : _LOOK.index("== base ==")]
    heads = ('[data-theme="light"] {', ':root:not([data-theme="light"]) {', '\n[data-theme="dark"] {')
    found = {}
    for name, head in zip(("light", "by the system", "dark"), heads, strict=True):
        inside = tokens[tokens.index(head) + len(head) :]
        found[name] = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", inside[: inside.index("}")]))
    return found


def test_dark_is_the_same_by_the_system_and_by_choice_and_names_every_colour() -> None:
    blocks = _blocks()
    assert blocks["by the system"] == blocks["dark"]
    assert blocks["dark"].keys() == blocks["light"].keys()
    assert len(blocks["light"]) > 20


_TEXTS = ("ink", "soft", "good", "fair", "bad", "accent", *(f"c{i}" for i in range(8)))
_PAIRS = [
    *((text, ground, 4.5) for text, ground in product(_TEXTS, ("ground", "card"))),
    *((text, "sunken", 4.5) for text in ("ink", "soft")),
    *((one, f"{one}-ground", 4.5) for one in ("good", "fair", "bad")),
    *(("ink", f"{one}-ground", 4.5) for one in ("good", "fair", "bad")),
    ("on-accent", "accent", 4.5),
    ("on-bad", "bad", 4.5),
    # Edges of what is to be used, and the ring around what has the keyboard.
    *((one, ground, 3.0) for one, ground in product(("outline", "focus", "rule"), ("ground", "card"))),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("one", "other", "least"), _PAIRS)
def test_what_must_be_read_or_seen_has_the_contrast_that_wcag_asks_for(
    theme: str, one: str, other: str, least: float
) -> None:
    colours = _blocks()[theme]
    bright, dim = sorted((_luminance(colours[one]), _luminance(colours[other])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= least


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_that_a_sheet_uses_is_one_of_the_names() -> None:
    for name in ("look.css", "report.css"):
        used = set(re.findall(r"var\(--([\w-]+)\)", asset(name).content.decode()))
        assert used <= _blocks()["light"].keys()


def test_a_file_is_given_with_its_kind_its_digest_and_smaller() -> None:
    held = asset("chart.js")
    assert held.media_type == "text/javascript; charset=utf-8"
    assert held.digest == hashlib.sha256(held.content).hexdigest()[:16]
    assert gzip.decompress(held.gzipped) == held.content
    assert len(held.gzipped) < len(held.content) / 2
    assert asset("look.css").media_type == "text/css; charset=utf-8"


def test_the_look_and_the_charts_leave_most_of_a_first_paint_to_the_page() -> None:
    assert sum(len(held.gzipped) for held in shared().values()) < 40_000


def test_only_files_of_the_folders_have_a_name() -> None:
    for name in ("../style.py", "style.py", "", "/etc/passwd", "static/look.css"):
        assert name not in shared()
        with pytest.raises(KeyError):
            asset(name)


def test_two_folders_with_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two folders"):
        Assets("secvm.pages", "secvm.pages")


@pytest.mark.parametrize("name", sorted(name for name in shared() if name.endswith(".js")))
def test_scripts_say_what_they_are_for_and_put_nothing_in_as_markup(name: str) -> None:
    text = asset(name).content.decode()
    assert text.startswith("// ")
    assert "// @ts-check" in text
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://(?!www\.w3)", text
    )
    lines = text.splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 120
    imported = re.findall(r'from "\./([\w.]+)"', text)
    assert set(imported) <= shared().keys()
