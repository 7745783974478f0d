"""The results as a table in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from secvm_lab.paper.offline.results import majority


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What a terminal shows."""
    data = found["data"]
    made_up = data["kind"] != "file"
    yield (
        f"{data['people']:,} {'made-up ' if made_up else ''}people, {data['words']:,} different words"
        + (" foretold" if made_up else "")
        + f"; {majority(data)}"
    )
    for name, tell in (
        ("figure_1a", _figure_1a),
        ("figure_1b", _figure_1b),
        ("lambda", _lambda),
        ("hashes", _hashes),
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


def _lambda(entries: list[dict[str, Any]]) -> Iterator[str]:
    yield f"lambda: % right, mean over {entries[0]['splits']} splits"
    for one in entries:
        yield f"  {_bins(one['bins']):>18}  {one['lambda']:>5}  {_point(one)}"


def _hashes(entries: list[dict[str, Any]]) -> Iterator[str]:
    if entries:
        yield f"Hashes per feature: % right, mean over {entries[0]['splits']} splits"
    for one in entries:
        yield f"  {_bins(one['bins']):>18}  {one['n_hashes']:>5}  {_point(one)}"


def _rules(figure: dict[str, Any]) -> Iterator[str]:
    of_people = "" if figure["people"] == figure["of_people"] else f" of {figure['of_people']:,}"
    yield (
        f"Rules of descent: {figure['people']:,}{of_people} people, {figure['splits']} of {figure['of_splits']} splits,"
        f" {_bins(figure['bins'])} bins; packages are per person, up to that round"
    )
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
    of_people = "" if figure["people"] == figure["of_people"] else f" of {figure['of_people']:,}"
    yield (
        f"Other ways: {figure['people']:,}{of_people} people, {figure['splits']} of {figure['of_splits']} splits,"
        f" {_bins(figure['bins'])} bins; % right, recall of each label, epsilon, packages of a person"
    )
    for one in figure["entries"]:
        std = "" if one["std"] is None else f" +- {100 * one['std']:4.2f}"
        recall = ", ".join("none" if value is None else f"{100 * value:.1f}" for value in one["recall"].values())
        epsilon = "" if one["epsilon"] is None else f"   epsilon {one['epsilon']:.2f}"
        sent = one["packages_per_person"]
        packages = "" if sent is None else f"   {sent:,.0f} packages"
        yield f"  {one['name']:>31}  {100 * one['mean']:6.2f}{std}   recall {recall}{epsilon}{packages}"
