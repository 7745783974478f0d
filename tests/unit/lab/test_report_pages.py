"""Pages: every kind of part and figure, read by a parser; and the files that are written."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.pages.figure import Curve, Figure, ReferenceLine, Shade
from secvm.pages.pictures import picture
from secvm_lab.attacks.report_page import page as attack_page
from secvm_lab.demo.report import report_page
from secvm_lab.reports import POLICY, SCRIPT, STYLE, ReportPage, write_report
from tests.unit.lab.results import a_result, protected, read

#: Everything by which a page could fetch, run or send something.
_REFERENCES = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}


def _figures() -> list[Figure]:
    """Every kind that there is."""
    many = list(range(400))
    wave = [0.5 + 0.3 * math.sin(i / 30) for i in many]
    night = [math.nan if 100 <= i < 120 else value for i, value in enumerate(wave)]
    six = [Curve(f"rule {i}", [1.0 + x for x in many], [v / (1 + i) for v in wave], colour=i) for i in range(6)]
    band = Curve("mean", [0.001, 1, 1000], [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4], colour=9, dashed=True)
    return [
        Figure("six", "Six <rules>", "Six curves.", "round", "share", six, log_across=True),
        Figure(
            "nights", "Nights", "A gap.", "round", "recall", [Curve("r", many, night)], (), [Shade(50, 90, "night")]
        ),
        Figure(
            "band",
            "A band",
            "Rises.",
            "λ",
            "accuracy",
            [band],
            [ReferenceLine("a", 0.2), ReferenceLine("b", 0.4)],
            log_across=True,
        ),
        Figure("point", "A point", "One.", "x", "y", [Curve("p", [3], [0.4], [0.3], [0.5])], percent=True),
        Figure("nothing", "Nothing", "No curve.", "x", "y", []),
    ]


def _page() -> ReportPage:
    page = ReportPage("A <report> & more", "All kinds of parts.")
    page.heading("What the paper says")
    page.statement("λ is marginal.", "Between 1e-7 & 1e-2 it is.", "yes, here")
    page.statement("Hashing is free.", "It is not.", "no")
    page.prose("One paragraph.\n\nAnother <b>one</b>.")
    page.heading("Figures")
    for figure in _figures():
        page.figure(figure, f"Caption of {figure.name}.")
    page.table(["way", "value"], [["a", "1"], ["b", "2"]], "A table.")
    page.made_by("secvm reproduce <offline>", 61.2)
    return page


@pytest.mark.parametrize(
    "text",
    [
        _page().html(),
        report_page(a_result()),
        report_page(a_result(protected=protected(), leakage=None)),
        attack_page([], quick=True, seed=1),
    ],
    ids=["report", "plain demonstration", "demonstration", "attacks"],
)
def test_every_page_is_well_formed_and_fetches_nothing(text: str) -> None:
    script = f'<script type="module">{SCRIPT}</script>'
    assert text.count("<script") == text.count(script) == (" data-spec=" in text)
    text = text.replace(script, "")
    reader = read(text)
    assert not reader.attributes & _REFERENCES
    assert not {name for name in reader.attributes if name.startswith("on") or name == "style"}
    assert not {"script", "iframe", "object", "embed", "form", "link", "img"} & set(reader.tags)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.headings[0] == 1
    assert reader.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(reader.headings, reader.headings[1:], strict=False))
    assert reader.tags.count("svg") == reader.tags.count("desc")
    assert "prefers-color-scheme: dark" in text


def test_what_is_given_to_a_page_is_text_and_never_markup() -> None:
    text = _page().html()
    for written in (
        "A &lt;report&gt; &amp; more",
        "Another &lt;b&gt;one&lt;/b&gt;.",
        "Six &lt;rules&gt;",
        "&lt;offline&gt;",
    ):
        assert written in text
    assert "<b>one" not in text


def test_figures_are_drawn_by_a_script_of_ours_and_no_other_may_run() -> None:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in POLICY
    assert not re.search(r"^(import|export) |</", SCRIPT, re.MULTILINE)
    specs = [json.loads(html.unescape(spec)) for spec in re.findall(r'data-spec="([^"]*)"', _page().html())]
    assert specs == [figure.spec() for figure in _figures()]


def test_reports_carry_the_sheet_and_not_its_comments() -> None:
    assert "--c0: #1f5fbf" in STYLE
    assert "svg .series" in STYLE
    assert "figure.plot" in STYLE
    assert "/*" not in STYLE
    assert STYLE.count("{") == STYLE.count("}")
    assert ".chart-plot" not in STYLE
    assert "<" not in STYLE


def test_a_verdict_is_told_by_its_word_and_by_its_colour() -> None:
    text = _page().html()
    assert re.search('class="verdict holds">.*?yes, here<', text)
    assert re.search('class="verdict fails">.*?>no<', text)
    open_one = ReportPage("t", "l")
    open_one.statement("a", "b", "these are other people")
    assert 'class="verdict open"' in open_one.html()


def test_long_tables_behind_figures_are_thinned_and_say_so() -> None:
    text = _page().html()
    assert "One row in 10 of 400; all numbers are in six.csv." in text
    assert '<th scope="row">400</th>' in text
    assert len(text) < 400_000


def test_a_page_has_no_two_figures_of_one_name() -> None:
    page = _page()
    with pytest.raises(BadInputError):
        page.figure(_figures()[0], "again")


def test_without_matplotlib_page_and_numbers_are_written_and_the_picture_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else found(name))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "pip install '.[plots]'" in write_report(tmp_path, _page())
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".csv"}
    with pytest.raises(BadInputError, match="matplotlib"):
        picture(_figures()[0])


def test_a_folder_that_cannot_be_made_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(BadInputError, match="cannot make the folder"):
        write_report(tmp_path / "file" / "folder", ReportPage("t", "l"))
