"""A demonstration's result, made up; and a reader of pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np

from secvm.learning.aggregate.scoring import score_cells
from secvm_lab.demo.attack import LabelAttack
from secvm_lab.demo.result import Checks, DemoResult, Guarantee, Leakage, Protected, RoundLine


def protected(**changes: Any) -> Protected:
    """What a run with a guarantee found; ``changes`` of the guarantee."""
    told: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "achieved": 0.98,
        "label_flip": 1.41,
        "cover_packages": 22_000,
        "parts": 9,
        "noise": 24.3,
    }
    attack = LabelAttack(auc=0.5521, interval=(0.5343, 0.5699), allowed=0.6182, plain=1.0, victims=2000)
    return Protected(Guarantee(**{**told, **changes}), 0.8813, attack)


def a_result(**changes: Any) -> DemoResult:
    """A plain result of three rounds, the second abandoned."""
    tested = score_cells(np.array([[30, 10], [5, 25]]))
    lines = tuple(
        RoundLine(
            number=number,
            participants=(120, 80) if number != 2 else (0, 0),
            score=tested if number != 2 else None,
            accuracy=0.7 + number / 100,
            sent=5440,
            counted=5440,
            abandoned=number == 2,
        )
        for number in (1, 2, 3)
    )
    told: dict[str, Any] = {
        "participants": 340,
        "hosts": 2,
        "witnesses": 3,
        "rounds": 3,
        "budget": 16,
        "bins": 600,
        "seed": 7,
        "descent": "swift",
        "thinning": "3/2",
        "people": "Made-up people.",
        "labels": ("north", "south"),
        "lines": lines,
        "tested_on": 5000,
        "final": score_cells(np.array([[2700, 300], [340, 1660]])),
        "central_accuracy": 0.8642,
        "checks": Checks(16320, 16320, 0, bit_exact=True, faults=(), steps_replayed=3),
        "leakage": Leakage(q=0.18, summed=(1.9, 1.9, 5.25)),
        "protected": None,
        "seconds": 61.26,
        "setup_seconds": 14.5,
        "arrivals": (810, 790, 820, 800),
        "capsule_bytes": 137,
        "report": "report.html",
    }
    return DemoResult(**{**told, **changes})


class Reader(HTMLParser):
    """Tags that open and close in order; ids, headings, attributes, and the text between them."""

    _VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.headings: list[int] = []
        self.attributes: set[str] = set()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def read(page: str) -> Reader:
    """A page that is well formed."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader
