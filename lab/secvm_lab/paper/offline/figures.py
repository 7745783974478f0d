"""The figures of the report and its page of baselines, from the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from secvm.pages.figure import Curve, Figure, ReferenceLine
from secvm_lab.paper.offline.statements import PAPER_HASHED, PAPER_UNHASHED
from secvm_lab.reports import ReportPage, percent

#: Names of all figures there can be.
NAMES = (
    *("figure_1a", "lambda_on_a", "figure_1b", "figure_1b_rounds", "lambda", "hashes", "rules_by_rounds"),
    *("rules_by_packages", "baselines"),
)
_RIGHT = "right predictions of test people"


def figures(found: dict[str, Any]) -> Iterator[tuple[str, Figure, str]]:
    """(key of the results, figure, caption), in the order of the page."""
    if "figure_1a" in found:
        yield "figure_1a", *_averaging(found["figure_1a"])
        yield "figure_1a", *_choice(found["figure_1a"])
    if "figure_1b" in found:
        yield "figure_1b", *_bins(found["figure_1b"], found["data"]["words"])
        yield "figure_1b", *_bin_curves(found["figure_1b"])
    for key in ("lambda", "hashes"):
        if found.get(key):
            yield key, *_over(key, found[key])
    if "rules" in found:
        yield "rules", *_by_rounds(found["rules"]["entries"])
        yield "rules", *_by_packages(found["rules"]["entries"])


def bins_name(bins: int | None) -> str:
    """A number of bins in words."""
    return "unhashed" if bins is None else f"{bins:,} bins"


def rule_name(entry: dict[str, Any]) -> str:
    """A rule of descent in words."""
    if entry["rule"] == "pegasos":
        return "Pegasos, average of two"
    return "swift, whole rows" if entry["rho"] is None else f"swift, ρ = {entry['rho']}"


def _figure(name: str, title: str, seen: str, across: str, curves: Sequence[Curve], **more: Any) -> Figure:
    return Figure(name, title, seen, across, _RIGHT, curves, percent=True, **more)


def _curves(entries: Sequence[dict[str, Any]], named: Callable[[dict[str, Any]], str]) -> list[Curve]:
    """The mean curve of each entry, by round."""
    found = []
    for i, one in enumerate(entries):
        mean = one["curve"]["mean"]
        found.append(Curve(named(one), range(1, len(mean) + 1), mean, colour=i))
    return found


def _averaging(figure: dict[str, Any]) -> tuple[Figure, str]:
    drawn = _figure(
        "figure_1a",
        "Fig. 1a: no hashing, by number of averaged weight vectors",
        "Test accuracy of half B by round, a curve for each number of averaged weight vectors.",
        "round",
        _curves(
            figure["curves"],
            lambda one: "no averaging" if one["averaging"] == 1 else f"{one['averaging']} averaged",
        ),
        rules=[ReferenceLine("the paper's Twitter people, unhashed", PAPER_UNHASHED)],
    )
    return drawn, f"λ = {figure['lambda']}, chosen on half A; {figure['test_people']:,} test people of half B."


def _choice(figure: dict[str, Any]) -> tuple[Figure, str]:
    x = [float(one["lambda"]) for one in figure["choice"]]
    drawn = _figure(
        "lambda_on_a",
        "How λ was chosen",
        "Test accuracy of half A in the last round, by λ.",
        "λ",
        [Curve("unhashed, half A", x, [one["mean"] for one in figure["choice"]])],
        log_across=True,
    )
    return drawn, "The best λ on A's test people, the smallest of equals, is used for B."


def _bins(entries: list[dict[str, Any]], words: int) -> tuple[Figure, str]:
    curves = []
    for i, hashes in enumerate(dict.fromkeys(one["n_hashes"] for one in entries)):
        some = sorted(
            (one["bins"] or words, one) for one in entries if one["n_hashes"] == hashes or one["bins"] is None
        )
        name = "1 hash for each word" if hashes == 1 else f"{hashes} hashes for each word"
        points = [(bins, one["mean"], one["std"] or 0.0) for bins, one in some]
        curves.append(_banded(name, points, i))
    drawn = _figure(
        "figure_1b",
        "Fig. 1b: accuracy for different numbers of bins",
        "Mean test accuracy by number of bins, with one standard deviation over splits on either side.",
        "bins",
        curves,
        rules=[
            ReferenceLine("the paper, unhashed", PAPER_UNHASHED),
            ReferenceLine("the paper, 1,000 words in a bin", PAPER_HASHED),
        ],
        log_across=True,
    )
    last = entries[0]
    told = f"Mean and standard deviation over random splits, after {last['rounds']} rounds, λ = {last['lambda']}."
    return drawn, f"{told} Unhashed stands at the number of different words, {words:,}."


def _banded(name: str, points: Sequence[tuple[float, float, float]], colour: int) -> Curve:
    """A curve of (place, mean, deviation), with a deviation on either side."""
    x, mean, spread = zip(*points, strict=True)
    low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
    return Curve(name, x, mean, low, high, colour=colour)


def _bin_curves(entries: list[dict[str, Any]]) -> tuple[Figure, str]:
    drawn = _figure(
        "figure_1b_rounds",
        "The same, by round",
        "Mean test accuracy over splits by round, a curve for each number of bins.",
        "round",
        _curves(
            entries,
            lambda one: bins_name(one["bins"]) + ("" if one["n_hashes"] == 1 else f", {one['n_hashes']} hashes"),
        ),
    )
    return (
        drawn,
        "Whether the last round is the best one, and whether more would help, differs between numbers of bins.",
    )


#: Figures of the last round with a curve for each number of bins: title, description, what is across and its key.
_OVER = {
    "lambda": ("λ", "Mean test accuracy in the last round by λ, a curve for each number of bins.", "λ", "lambda"),
    "hashes": (
        "Hashes for each word",
        "Mean test accuracy in the last round by hashes for each word.",
        "hashes",
        "n_hashes",
    ),
}


def _over(name: str, entries: list[dict[str, Any]]) -> tuple[Figure, str]:
    title, seen, across, key = _OVER[name]
    curves = []
    for i, bins in enumerate(dict.fromkeys(one["bins"] for one in entries)):
        some = [one for one in entries if one["bins"] == bins]
        curves.append(Curve(bins_name(bins), [float(e[key]) for e in some], [e["mean"] for e in some], colour=i))
    drawn = _figure(name, title, seen, across, curves, log_across=name == "lambda")
    return drawn, f"Mean over {entries[0]['splits']} splits, after {entries[0]['rounds']} rounds."


def _by_rounds(entries: list[dict[str, Any]]) -> tuple[Figure, str]:
    drawn = _figure(
        "rules_by_rounds",
        "Rules of descent, by round",
        "Mean test accuracy by round for each rule.",
        "round",
        _curves(entries, rule_name),
    )
    return drawn, "A round costs minutes of everybody's day and a piece of everybody's privacy."


def _by_packages(entries: list[dict[str, Any]]) -> tuple[Figure, str]:
    curves = [
        Curve(rule_name(one), [max(p, 1e-3) for p in packages], one["curve"]["mean"], colour=i)
        for i, one in enumerate(entries)
        if (packages := one["curve"]["packages_per_person"]) is not None
    ]
    drawn = _figure(
        "rules_by_packages",
        "Rules of descent, by packages",
        "Mean test accuracy by packages that a person has sent so far, for each rule that packages can carry.",
        "packages per person",
        curves,
        log_across=True,
    )
    return drawn, "Packages per training person, all rounds so far together."


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
            curves.append(_banded(family, points, colour))
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
