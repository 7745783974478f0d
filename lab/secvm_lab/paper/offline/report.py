"""The results as files and as plain text: results.json, a page, a table; of each figure its numbers and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from secvm.files import write_atomically
from secvm_lab.paper.offline.figures import NAMES, add, bins_name, figures, rule_name
from secvm_lab.paper.offline.results import majority
from secvm_lab.paper.offline.statements import BESIDE, FAILS, HOLDS, SMALL, UNKNOWN, small
from secvm_lab.reports import ReportPage, write_report


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What a terminal shows."""
    data = found["data"]
    made_up = data["kind"] != "file"
    yield (
        f"{data['people']:,} {'made-up ' if made_up else ''}people, {data['words']:,} different words"
        + (" foretold" if made_up else "")
        + f"; {majority(data)}"
    )
    if small(found):
        yield small(found)
    for name, tell in (
        ("figure_1a", _figure_1a),
        ("figure_1b", _figure_1b),
        ("lambda", partial(_over, said="lambda", key="lambda")),
        ("hashes", partial(_over, said="Hashes per feature", key="n_hashes")),
        ("rules", _rules),
        ("baselines", _baselines),
    ):
        if name in found:
            yield ""
            yield from tell(found[name])
    if found["statements"]:
        yield ""
        yield "The paper, and these people:"
        for one in found["statements"]:
            yield f"  {one['paper']}"
            yield f"      {one['verdict']}: {one['ours']}"
    yield ""
    yield (
        f"{found['models']['computed']} of {found['models']['asked']} models trained now, {found['seconds']} s,"
        f" {found['peak_rss_mb']} MB; report and figures in {found['folder']}"
    )


def _bins(bins: int | None) -> str:
    return "unhashed" if bins is None else f"{bins:,}"


def _point(one: dict[str, Any]) -> str:
    std = "" if one["std"] is None else f" +- {100 * one['std']:4.2f}"
    best = f"best {100 * one['best']['mean']:6.2f} at {one['best']['round']:>4}"
    caught = one["two_cycle"]["models"]
    remarks = ["still rises"] if one["still_rises"] else []
    if caught:
        until = one["two_cycle"]["latest_round"]
        remarks.append(f"violators swing from label to label in {caught} of {one['splits']}, until round {until}")
    return f"{100 * one['mean']:6.2f}{std}   {best}" + (f"   {'; '.join(remarks)}" if remarks else "")


def _figure_1a(figure: dict[str, Any]) -> Iterator[str]:
    people = figure["test_people"]
    yield f"Fig. 1a, unhashed: lambda {figure['lambda']} chosen on A, % right of B's {people} test people"
    for curve in figure["curves"]:
        yield f"  {curve['averaging']:>4} averaged      {_point(curve)}"


def _figure_1b(entries: list[dict[str, Any]]) -> Iterator[str]:
    first = entries[0]
    yield (
        f"Fig. 1b: % right after {first['rounds']} rounds, mean and deviation over {first['splits']} splits,"
        f" lambda {first['lambda']}"
    )
    for one in entries:
        hashes = "" if one["n_hashes"] == 1 else f", {one['n_hashes']} hashes"
        yield f"  {_bins(one['bins']) + hashes:>18}  {_point(one)}"
        recall = ", ".join(f"{label} {_share(share)}" for label, share in one["recall"].items())
        precision = ", ".join(f"{label} {_share(share)}" for label, share in one["precision"].items())
        yield f"  {'':>18}  recall {recall}; precision {precision}"


def _share(share: dict[str, Any]) -> str:
    low, high = share["interval"]
    value = "none" if share["value"] is None else f"{100 * share['value']:.1f}"
    return f"{value} [{100 * low:.1f}, {100 * high:.1f}]"


def _over(entries: list[dict[str, Any]], said: str, key: str) -> Iterator[str]:
    if entries:
        yield f"{said}: % right, mean over {entries[0]['splits']} splits"
    for one in entries:
        yield f"  {_bins(one['bins']):>18}  {one[key]:>5}  {_point(one)}"


def _of_some(said: str, figure: dict[str, Any]) -> str:
    of_people = "" if figure["people"] == figure["of_people"] else f" of {figure['of_people']:,}"
    splits = f"{figure['splits']} of {figure['of_splits']} splits"
    return f"{said}: {figure['people']:,}{of_people} people, {splits}, {_bins(figure['bins'])} bins;"


def _rules(figure: dict[str, Any]) -> Iterator[str]:
    yield _of_some("Rules of descent", figure) + " packages are per person, up to that round"
    for one in figure["entries"]:
        name = one["rule"] + ("" if one["rho"] is None else f", rho {one['rho']}")
        packages = one["curve"]["packages_per_person"]
        sent = "no packages" if packages is None else f"{packages[-1]:,.0f} packages"
        yield f"  {name:>18}  {one['rounds']:>4} rounds, {sent:>17}  {_point(one)}"
        reached = one["as_good_as_pegasos"]
        if reached is not None and one["rule"] != "pegasos":
            needed = reached["packages_per_person"]
            told = "" if needed is None else f" and {needed:,.0f} packages"
            yield f"  {'':>18}  as good as pegasos in its last round after {reached['round']} rounds{told}"


def _baselines(figure: dict[str, Any]) -> Iterator[str]:
    yield _of_some("Other ways", figure) + " % right, recall of each label, epsilon, packages of a person"
    for one in figure["entries"]:
        std = "" if one["std"] is None else f" +- {100 * one['std']:4.2f}"
        recall = ", ".join("none" if value is None else f"{100 * value:.1f}" for value in one["recall"].values())
        epsilon = "" if one["epsilon"] is None else f"   epsilon {one['epsilon']:.2f}"
        sent = one["packages_per_person"]
        packages = "" if sent is None else f"   {sent:,.0f} packages"
        yield f"  {one['name']:>31}  {100 * one['mean']:6.2f}{std}   recall {recall}{epsilon}{packages}"


_WORDS = {HOLDS: "yes", FAILS: "no", UNKNOWN: "cannot be told here", BESIDE: "these are other people", SMALL: SMALL}
COMMAND = "./secvm reproduce offline"
_TITLES = {
    "figure_1a": "Without hashing",
    "figure_1b": "Numbers of bins",
    "lambda": "Regularisation",
    "hashes": "Hashes for each word",
    "rules": "Rounds and packages",
}


def write(folder: Path, found: dict[str, Any], command: str = COMMAND) -> str:
    """Write all of them into the folder; sentences where something is missing or was there before, else empty."""
    made = page(found, command)
    write_atomically(folder / "results.json", orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE))
    missing = write_report(folder, made)
    drawn = {figure.name for figure in made.figures}
    older = [name for name in NAMES if name not in drawn and (folder / f"{name}.csv").exists()]
    stale = f"Of an earlier run, and not in this report: {', '.join(older)} (CSV, PNG) in {folder}." if older else ""
    return " ".join(filter(None, (missing, stale)))


def page(found: dict[str, Any], command: str = COMMAND) -> ReportPage:
    """The page, and the command that makes it."""
    data, settings = found["data"], found["settings"]
    made_up = data["kind"] != "file"
    lead = (
        f"{data['people']:,} people with {data['words']:,} different words, {majority(data)}; "
        f"{settings['splits']} random splits, {settings['rounds']} rounds of full-batch Pegasos."
    )
    out = ReportPage("The paper's offline evaluation, reproduced", lead)
    out.prose(small(found))
    if made_up:
        out.prose(
            "These people are made up, at the shape of the paper's Twitter data: nobody wrote these words. The figures "
            "test the code at that size; they say nothing of Twitter, of language or of gender, and the level of "
            "accuracy was chosen."
        )
    if found["statements"]:
        out.heading("What the paper says, and what is found here")
        for one in found["statements"]:
            out.statement(one["paper"], one["ours"], _WORDS[one["verdict"]])
    drawn = list(figures(found))
    for key, title in _TITLES.items():
        if found.get(key):
            out.heading(title)
            for _, figure, caption in (one for one in drawn if one[0] == key):
                out.figure(figure, caption)
            _tables(out, key, found[key])
    if "baselines" in found:
        out.heading("Other ways to learn from these people")
        add(out, found["baselines"])
    out.heading("How it was made")
    out.prose(_how(found))
    out.made_by(command)
    return out


def _how(found: dict[str, Any]) -> str:
    settings = found["settings"]
    return (
        f"{100 * settings['test_share']:.2g} % of the people test, the others train. λ = {settings['lambda']} "
        "unless a figure varies it; the step is 1/(λt); evaluation averages two weight vectors unless a figure varies "
        "that. Standard deviations are over splits. Intervals of recall and precision are 95 % (Wilson), as if each "
        "tested person were tested once. A curve still rises when its last tenth lies more than a tenth of a point, "
        "and a standard error over splits, above the tenth before. Best rounds are chosen by the very people "
        "who test, so they look a little too good; nothing else is chosen by them, but λ of Fig. 1a by those of half "
        "A, for half B. Standard errors of differences are over the same splits, corrected for their overlap "
        "(Nadeau and Bengio).\n\n"
        "All numbers are in results.json beside this page."
    )


def _tables(out: ReportPage, key: str, result: Any) -> None:
    if key == "figure_1a":
        rows = [[str(one["averaging"]), *_cells(one)] for one in result["curves"]]
        out.table(["averaged", *_HEADER], rows, "Half B; recall and precision in the last round.")
    elif key == "rules":
        rows = [[rule_name(one), *_cells(one), *_reached(one)] for one in result["entries"]]
        cut = (
            f"{result['people']:,} of {result['of_people']:,} people and {result['splits']} of {result['of_splits']} "
            f"splits, {bins_name(result['bins'])}. The last columns: rounds and packages per person until the mean "
            f"curve first is where Pegasos ends ({100 * result['target']:.1f} %)."
        )
        out.table(["rule", *_HEADER, "packages", "rounds to Pegasos' end", "packages to it"], rows, cut)
    else:
        named = {"figure_1b": "n_hashes", "lambda": "lambda", "hashes": "n_hashes"}[key]
        rows = [[bins_name(one["bins"]), str(one[named]), *_cells(one)] for one in result]
        out.table(["bins", "λ" if key == "lambda" else "hashes", *_HEADER], rows, "Recall and precision, last round.")


_HEADER = ["splits", "last round", "deviation", "best round", "still rises", "violators swing", "recall", "precision"]


def _cells(one: dict[str, Any]) -> list[str]:
    best, cycle = one["best"], one["two_cycle"]
    caught = f"{cycle['models']} of {one['splits']}, until round {cycle['latest_round']}" if cycle["models"] else "none"
    return [
        str(one["splits"]),
        f"{100 * one['mean']:.2f} %",
        "–" if one["std"] is None else f"{100 * one['std']:.2f}",
        f"{100 * best['mean']:.2f} % at {best['round']}",
        "yes" if one["still_rises"] else "no",
        caught,
        _shares(one["recall"]),
        _shares(one["precision"]),
    ]


def _shares(shares: dict[str, Any]) -> str:
    def told(share: dict[str, Any]) -> str:
        low, high = share["interval"]
        value = "–" if share["value"] is None else f"{100 * share['value']:.1f}"
        return f"{value} ({100 * low:.1f} to {100 * high:.1f})"

    return ", ".join(f"{label}: {told(share)}" for label, share in shares.items())


def _reached(one: dict[str, Any]) -> list[str]:
    packages, reached = one["curve"]["packages_per_person"], one["as_good_as_pegasos"]
    sent = "–" if packages is None else f"{packages[-1]:,.0f}"
    if reached is None:
        return [sent, "never", "–"]
    needed = reached["packages_per_person"]
    return [sent, str(reached["round"]), "–" if needed is None else f"{needed:,.0f}"]
