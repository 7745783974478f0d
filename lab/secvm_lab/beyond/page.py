"""The report: a network beside the linear model, by rounds and by packages; hashes beside one hash."""

from __future__ import annotations

from collections.abc import Sequence

from secvm.pages.figure import Curve, Figure
from secvm_lab.beyond import hashes
from secvm_lab.beyond.findings import Findings
from secvm_lab.beyond.hashes import Cell
from secvm_lab.beyond.methods import LINEAR, NETWORK, REAL
from secvm_lab.beyond.problems import Problem
from secvm_lab.beyond.trial import Mean, Outcome
from secvm_lab.reports import ReportPage

NOT_COVERED = (
    "A package of a network names a hidden unit besides a word, and which units a person sends for depends on the"
    " weights and on all of its words together. Bounds on what a tally tells of a label, and the proof of cover, are"
    " about the linear model. None of them was shown for networks. Many rounds cost privacy here as there."
)
PAPER_NETWORK = "Rectifiers, and binary weights, open avenues to extend the work to neural networks (discussion)."
PAPER_HASHES = "Hashing each feature into more bins slightly decreased the accuracy (appendix on hashing)."


def page_of(findings: Findings) -> ReportPage:
    """The whole page."""
    page = ReportPage(
        "Beyond linear",
        "A network of one hidden layer trained by single packages of plus or minus one; and more hashes a feature.",
    )
    page.heading("A network by packages")
    page.prose(
        "Each person computes its gradient on its device, and of each entry c sends only the sign, with probability"
        " |c|/C: unbiased, and nothing real-valued leaves. The coordinator steps from the tally alone. Linear is SecVM"
        " as it is deployed (swift, thinned); real-valued is the same network on whole gradients, which nobody could"
        " send."
    )
    for problem, outcomes in findings.networks:
        _network(page, problem, outcomes)
    page.statement(PAPER_NETWORK, network_sentence(findings), "partly: it learns; its guarantees are open")
    page.heading("What it tells")
    page.prose(NOT_COVERED + "\n\n" + cover_sentence(findings))
    page.heading("More hashes for each feature")
    for name, cells in findings.hashed:
        _hashes(page, name, cells)
    page.statement(PAPER_HASHES, hashes_sentence(findings), hashes_hold(findings))
    return page


def network_sentence(findings: Findings) -> str:
    """How far the network is ahead of the linear model, everywhere."""
    parts = []
    for problem, outcomes in findings.networks:
        by_name = {one.kind.name: one for one in outcomes}
        ahead = by_name[NETWORK.name].ahead_of(by_name[LINEAR.name])
        behind = by_name[NETWORK.name].ahead_of(by_name[REAL.name])
        parts.append(f"{problem.name} {points(ahead)} to linear, {points(behind)} to real-valued")
    return "By packages, in points of accuracy: " + "; ".join(parts) + "."


def cover_sentence(findings: Findings) -> str:
    """What cover would cost."""
    cover = findings.cover
    asked, linear, network = cover["asked"], cover["linear"], cover["network"]
    assert isinstance(asked, dict)
    assert isinstance(linear, dict)
    assert isinstance(network, dict)
    return (
        f"Cover for ε = {asked['epsilon']:g}, δ = {asked['delta']:g} over {asked['rounds']} rounds, {asked['people']:,}"
        f" people of {asked['words']} words and {asked['bins']:,} bins would be {linear['cover_packages']:,}"
        f" packages of each relay in a round for the linear model, and {network['cover_packages']:,} for"
        f" {asked['hidden']} hidden units, {cover['times']:g} times as many, if the accountant may be asked of"
        f" networks at all: {network['cells']:,} cells instead of {linear['cells']:,}, of which one person names"
        f" {network['named']} instead of {linear['named']}."
    )


def hashes_sentence(findings: Findings) -> str:
    """How often more hashes were lower, higher, or neither."""
    parts = []
    for name, cells in findings.hashed:
        for rule in hashes.RULES:
            verdicts = hashes.verdicts(cells, rule)
            counts = [f"{verdicts.count(word)} {word}" for word in ("lower", "higher", "no difference seen")]
            parts.append(f"{name}, {rule}: {', '.join(counts)}")
    return f"Beside one hash, beyond {hashes.CLEAR:g} standard errors: " + "; ".join(parts) + "."


def hashes_hold(findings: Findings) -> str:
    """Whether the paper's remark holds here, by the paper's own rule."""
    verdicts = [word for _, cells in findings.hashed for word in hashes.verdicts(cells, "pegasos")]
    lower, higher = (verdicts.count(word) for word in ("lower", "higher"))
    if not lower:
        # That nothing was seen is no finding, least of all of one hash alone or of one salt.
        return f"no: higher in {higher} of {len(verdicts)} comparisons" if higher else "open: no difference was seen"
    if lower == len(verdicts):
        return "yes, everywhere"
    return f"partly: lower in {lower} of {len(verdicts)} comparisons by the paper's own rule"


def points(mean: Mean) -> str:
    """A difference in points of accuracy with its standard error."""
    return f"{100 * mean.value:+.1f}{_error(mean)}"


def share(mean: Mean) -> str:
    """An accuracy with its standard error, as percentages."""
    return f"{100 * mean.value:.1f}{_error(mean)}"


def _error(mean: Mean) -> str:
    """Of one split nobody knows the error; zero would say that it is known."""
    return f" ± {100 * mean.error:.1f}" if mean.known else ""


NETWORK_HEADER = ("way", "accuracy, %", "to linear", "rounds", "packages a person", "entries clipped, %")


def network_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A line for each way."""
    linear = next(one for one in outcomes if one.kind is LINEAR)
    rows = []
    for one in outcomes:
        packages = one.packages
        rows.append(
            [
                one.kind.name,
                share(one.accuracy),
                "" if one is linear else points(one.ahead_of(linear)),
                f"{one.rounds.value:.0f}",
                "cannot be sent" if packages is None else f"{packages.value:,.0f}",
                "" if one is linear or packages is None else f"{100 * one.clipped('entries_clipped'):.2f}",
            ]
        )
    return rows


HASHES_HEADER = ("rule", "bins", "hashes", "accuracy, %", "to one hash", "seen", "last round, %", "two-cycles")


def hashes_rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A line for each cell, rule by rule."""
    rows = []
    for cell in sorted(cells, key=lambda one: (one.rule, one.bins, one.hashes)):
        single = hashes.one_hash(cells, cell)
        ahead = None if cell is single else cell.ahead_of(single)
        rows.append(
            [
                cell.rule,
                f"{cell.bins:,}",
                str(cell.hashes),
                share(cell.accuracy),
                "" if ahead is None else points(ahead),
                "" if ahead is None else hashes.verdict(ahead),
                share(cell.last),
                f"{cell.caught} of {cell.accuracies.shape[0] * cell.accuracies.shape[1]}",
            ]
        )
    return rows


def _network(page: ReportPage, problem: Problem, outcomes: Sequence[Outcome]) -> None:
    page.prose(f"{problem.name}: {problem.told}; {problem.hidden} hidden units.")
    page.table(NETWORK_HEADER, network_rows(outcomes))
    rounds = range(1, len(outcomes[0].curve("test")) + 1)
    by_round = [
        Curve(one.kind.name, tuple(rounds), one.curve("test").tolist(), colour=i) for i, one in enumerate(outcomes)
    ]
    by_package = [
        Curve(one.kind.name, one.curve("packages").tolist(), one.curve("test").tolist(), colour=i)
        for i, one in enumerate(outcomes)
        if one.kind.sends
    ]
    told = f"Mean accuracy of test people over the splits, {problem.name}."
    _figure(page, f"{problem.name}-rounds", f"{problem.name}: by rounds", told, "rounds", by_round)
    across = "packages of a person so far"
    _figure(page, f"{problem.name}-packages", f"{problem.name}: by packages", told, across, by_package, log_across=True)


def _figure(
    page: ReportPage,
    name: str,
    title: str,
    told: str,
    across: str,
    curves: Sequence[Curve],
    *,
    log_across: bool = False,
) -> None:
    figure = Figure(name, title, told, across, "accuracy", curves, log_across=log_across, percent=True)
    page.figure(figure, told)


def _hashes(page: ReportPage, name: str, cells: Sequence[Cell]) -> None:
    page.table(HASHES_HEADER, hashes_rows(cells), caption=f"People: {name}.")
    for rule in hashes.RULES:
        curves = []
        for i, n_hashes in enumerate(sorted({cell.hashes for cell in cells})):
            row = sorted(
                (cell for cell in cells if cell.rule == rule and cell.hashes == n_hashes), key=lambda one: one.bins
            )
            means = [cell.accuracy for cell in row]
            curves.append(
                Curve(
                    "1 hash" if n_hashes == 1 else f"{n_hashes} hashes",
                    [cell.bins for cell in row],
                    [mean.value for mean in means],
                    [mean.value - mean.error for mean in means],
                    [mean.value + mean.error for mean in means],
                    colour=i,
                )
            )
        told = f"Mean accuracy with its standard error over salts, {name}, {rule}."
        _figure(page, f"hashes-{name}-{rule}", f"More hashes: {name}, {rule}", told, "bins", curves, log_across=True)
