"""The baselines on a report's page: a figure of what protection costs, and a table of who must be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from secvm.pages.figure import Curve, Figure, ReferenceLine
from secvm.pages.reports import ReportPage, percent

#: Families of the figure: how their ways' names begin, and their colours.
_FAMILIES = (("SecVM, swift with cover", 0), ("central DP", 2), ("local DP", 1))
#: Ways without an ε that are drawn as levels.
_LEVELS = ("LinearSVC", "SecVM, Pegasos", "federated averaging")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_BYTES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def add(page: ReportPage, found: Mapping[str, Any]) -> None:
    """Put all of it on the page: ``entries``, and how many ``people``, ``splits`` and ``bins`` they are of."""
    entries, people, splits = found["entries"], f"{found['people']:,} people", f"{found['splits']} random splits"
    if found["people"] < found["of_people"]:
        people += f" (of {found['of_people']:,})"
    if found["splits"] < found["of_splits"]:
        splits += f" (of {found['of_splits']:,})"
    bins = "unhashed" if found["bins"] is None else f"in {found['bins']:,} bins"
    page.prose(
        f"Every way learns from the same {people}, {bins}, on the same {splits}. An ε is for"
        " the whole training, and compares a person’s data with nothing in its place. Small crowds are hard on every"
        " way with noise: its share falls as the number of people grows."
    )
    if any(entry["asked_epsilon"] is not None for entry in entries):
        page.figure(figure(entries), "Mean over the splits; bands are one standard deviation. Levels spend no ε.")
    header, rows = table(entries)
    page.table(header, rows, "All ways on the same people and splits: mean ± standard deviation.")


def figure(entries: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy by ε, beside the ways that spend none."""
    curves = []
    for family, colour in _FAMILIES:
        points = sorted(
            (entry["asked_epsilon"], entry["mean"], entry["std"] or 0.0)
            for entry in entries
            if entry["name"].startswith(family) and entry["asked_epsilon"] is not None
        )
        if points:
            x, y, sd = zip(*points, strict=True)
            low, high = ([m + sign * d for m, d in zip(y, sd, strict=True)] for sign in (-1, 1))
            curves.append(Curve(family, x, y, low, high, colour))
    found = {entry["name"]: entry["mean"] for entry in entries}
    said = ", ".join(f"{curve.name} {percent(curve.y[-1])} at ε = {curve.x[-1]:g}" for curve in curves)
    return Figure(
        name="baselines",
        title="What protection costs",
        description=f"Accuracy over ε for ways that spend one: {said}. Levels show ways that spend none.",
        across="ε over the whole training (smaller is more private)",
        up="accuracy on people who did not train",
        curves=curves,
        rules=[ReferenceLine(name, found[name]) for name in _LEVELS if name in found],
        log_across=True,
        percent=True,
    )


def table(entries: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows, as text."""
    recalls = [f"recall of {label}" for label in entries[0]["recall"]]
    header = ["way", "accuracy", *recalls, "ε", "δ", "packages", "sent by a person"]
    return [*header, "who must be trusted", "settings"], [_row(entry) for entry in entries]


def _row(entry: Mapping[str, Any]) -> list[str]:
    spread = "" if entry["std"] is None else f"\u00a0±\u00a0{100 * entry['std']:.1f}"
    packages = entry["packages_per_person"]
    return [
        entry["name"],
        f"{100 * entry['mean']:.1f}{spread}\u00a0%",
        *(percent(math.nan if recall is None else recall) for recall in entry["recall"].values()),
        "–" if entry["epsilon"] is None else f"{entry['epsilon']:.2f}",
        "–" if entry["delta"] is None else _power_of_ten(entry["delta"]),
        "–" if packages is None else f"{packages:,.0f}",
        _size(entry["bytes_per_person"]),
        entry["trust"],
        entry["settings"],
    ]


def _power_of_ten(value: float) -> str:
    """A positive number as people write it: 2.5·10⁻⁷."""
    factor, _, exponent = f"{value:.5e}".partition("e")
    raised = str(int(exponent)).translate(_RAISED)
    factor = f"{float(factor):g}"
    return f"10{raised}" if factor == "1" else f"{factor}·10{raised}"


def _size(size: float) -> str:
    unit, name = next(((u, n) for u, n in _BYTES if size >= u), (1, "bytes"))
    return f"{size / unit:.3g}\u00a0{name}"
