"""The demonstration's page and summary."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from secvm.lab.demo.report import report_page
from secvm.lab.demo.result import Checks, Guarantee, Leakage
from tests.unit.lab.results import a_result

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class _Reader(HTMLParser):
    """Tags that open and close in order, their attributes, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_refers_to_nothing_outside() -> None:
    page = report_page(a_result())
    reader = read(page)
    assert not {name for _, name, _ in reader.attributes} & {"src", "href", "srcset", "action", "data", "onclick"}
    assert not re.search(r"https?://|//[a-z]|@import|url\(|<script", page)
    assert "default-src 'none'" in page


def test_every_drawing_is_well_formed_and_tells_what_is_to_be_seen() -> None:
    drawings = re.findall(r"<svg.*?</svg>", report_page(a_result()), re.DOTALL)
    # Each for a desk and for a phone.
    assert len(drawings) == 2 * 5
    for drawing in drawings:
        root = ET.fromstring(drawing)
        assert root.get("role") == "img"
        assert (root.findtext("title") or "") != ""
        assert len(root.findtext("desc") or "") > 40
        assert "nan" not in drawing


def test_the_numbers_on_the_page_are_those_of_the_summary() -> None:
    result = a_result()
    summary, text = result.summary(), " ".join(read(report_page(result)).text).replace("\u00a0", " ")
    for share in (summary["accuracy"], summary["central_accuracy"], *summary["recall"].values()):
        assert f"{100 * share:.1f} %" in text
    for share in (*summary["precision"].values(), *summary["baseline"].values()):
        assert f"{100 * share:.1f} %" in text
    assert f"{summary['packages_sent']:,} packages were acknowledged" in text
    assert f"{summary['packages_counted']:,} were counted: {summary['lost']} lost" in text
    assert f"{summary['counted_twice']} counted twice" in text
    assert f"{summary['seconds']:.0f} s" in text
    for line in result.lines:
        assert f"{line.sent:,}" in text
    assert f"{result.leakage.auc:.2f}" in text


def test_the_summary_has_its_keys_in_their_order() -> None:
    assert list(a_result().summary()) == [
        "participants",
        "rounds",
        "budget",
        "accuracy",
        "central_accuracy",
        "recall",
        "precision",
        "baseline",
        "packages_sent",
        "packages_counted",
        "lost",
        "counted_twice",
        "bit_exact_with_offline",
        "witnesses",
        "audit",
        "steps_replayed",
        "privacy",
        "seconds",
        "report",
        "page",
    ]


def test_what_went_wrong_is_shown_as_wrong() -> None:
    faults = ("the log was forked: <two> trees",)
    checks = Checks(
        packages_sent=100, packages_counted=98, counted_twice=1, bit_exact=False, faults=faults, steps_replayed=2
    )
    assert checks.lost == 3
    assert checks.audit == "failed"
    assert not checks.as_they_should_be
    page = report_page(a_result(checks=checks))
    assert page.count('<li class="no">') == 4
    assert "&lt;two&gt; trees" in page
    assert "differ from" in page


def test_a_label_cannot_write_into_the_page() -> None:
    page = report_page(a_result(labels=("<script>alert(1)</script>", "b&b")))
    assert "<script" not in page
    read(page)


def test_leakage_of_no_rounds_is_a_coin() -> None:
    assert Leakage(q=1.0, summed=()).auc == 0.5


def test_with_cover_the_page_states_epsilon_budget_and_assumptions() -> None:
    found = Guarantee(
        epsilon=4.0,
        delta=1e-5,
        achieved=3.57,
        label_flip=math.inf,
        honest=306,
        cover_mean=5.1,
        own=10,
        noise=4.3,
    )
    result = a_result(guarantee=found)
    page = report_page(result)
    for said in ("Plumbing, not protection", "3.57", "1e-05", "at least 306 devices", "the relay shuffles"):
        assert said in page
    assert "No formal guarantee" not in page
    told = result.summary()["privacy"]
    assert (told["kind"], told["epsilon"], told["label_flip"]) == ("cover", 4.0, None)
    assert a_result().summary()["privacy"] == {"kind": "plain"}
