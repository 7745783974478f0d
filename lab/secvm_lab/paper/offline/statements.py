"""What the paper says, beside what these people say: worked out from the results, never written down beforehand.

A verdict is "holds here", "does not hold here", or "cannot be told here" where the test people are too few for the
difference in question. A small run, of fewer than ``ENOUGH`` people, judges nothing. The paper's own accuracies belong
to its own data; they stand beside ours, without a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from secvm_lab.paper.offline.results import difference
from secvm_lab.paper.offline.settings import AVERAGED, MARGINAL

HOLDS, FAILS, UNKNOWN, BESIDE = "holds here", "does not hold here", "cannot be told here", "other people, no verdict"
SMALL = "small run, not judged"
#: From so many people on, of whom 500 test, and 250 where they are cut in two halves.
ENOUGH = 5_000

#: The paper: 75.2 % unhashed, 74.7 % with a thousand words in a bin.
PAPER_UNHASHED, PAPER_HASHED = 0.752, 0.747
_PAPER_COST = PAPER_UNHASHED - PAPER_HASHED
_ROUNDING = 1e-9
#: What we call marginal, and nearly monotonic: one point.
MARGINAL_POINTS = 0.01
#: A standard error above this decides nothing about half a point; and the error of one split alone, at a guess.
_TOO_NOISY = 0.005
_ONE_SPLIT = 0.015
#: From so many points on we say that hashing costs much.
_MUCH = 0.01
#: Words per bin that count as a factor of a thousand.
_THOUSAND = (500, 2000)
_AGGRESSIVE = "Even very aggressive hashing has only a negligible impact."
#: Rounds in which averaging two must not be behind, as a share; and rounds at the start that are not looked at.
_MOST_ROUNDS = 0.9
_START = 5


def small(found: dict[str, Any]) -> str:
    """That the run is too small to judge by, and what size is enough; empty: it is not."""
    people: int = found["data"]["people"]
    if people >= ENOUGH:
        return ""
    return f"Small run: {people:,} people show that it works and judge nothing. {ENOUGH:,} or more are enough."


def statements(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Every statement of the paper that the results have something to say about."""
    out = _statements(found)
    if small(found):
        out = [one if one["verdict"] == BESIDE else one | {"verdict": SMALL} for one in out]
    return out


def _statements(found: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if "figure_1a" in found:
        out.extend(_of_1a(found["figure_1a"]))
    if "figure_1b" in found:
        out.extend(_hashing(found["figure_1b"], found["settings"]["test_share"]))
    if "lambda" in found:
        out.extend(_lambda(found["lambda"], found["settings"]["test_share"]))
    if "hashes" in found:
        out.extend(_hashes(found["hashes"]))
    return out


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _statement(name: str, paper: str, ours: str, verdict: str, **numbers: Any) -> dict[str, Any]:
    return {"name": name, "paper": paper, "ours": ours, "verdict": verdict, **numbers}


def _of_1a(figure: dict[str, Any]) -> Iterator[dict[str, Any]]:
    n = figure["test_people"]
    accuracy = figure["accuracy"]
    error = _binomial(accuracy, n)
    yield _statement(
        "unhashed",
        "Unhashed, trained on B with the λ that A chose, accuracy is 75.2 %.",
        f"{_points(accuracy)} % of B's {n} test people (standard error {_points(error)}), λ = {figure['lambda']}.",
        BESIDE,
        accuracy=accuracy,
        standard_error=error,
    )
    last = {one["lambda"]: one["mean"] for one in figure["choice"]}
    yield _spread("lambda on A", [last[value] for value in MARGINAL], error, "A's test people, unhashed")
    curves = {one["averaging"]: np.array(one["curve"]["mean"]) for one in figure["curves"]}
    yield from _averaging(curves, error)


def _binomial(accuracy: float, n: int) -> float:
    return float(np.sqrt(max(accuracy * (1 - accuracy), 1e-6) / n))


def _spread(name: str, accuracies: list[float], error: float, where: str) -> dict[str, Any]:
    spread = max(accuracies) - min(accuracies)
    verdict = HOLDS if spread <= MARGINAL_POINTS else UNKNOWN if spread <= MARGINAL_POINTS + 2 * error else FAILS
    return _statement(
        name,
        "Any λ between 1e-7 and 1e-2 makes only a marginal difference.",
        f"Between the best and the worst of them lie {_points(spread)} points ({where}).",
        verdict,
        spread=spread,
    )


def _averaging(curves: dict[int, Any], error: float) -> Iterator[dict[str, Any]]:
    if len(curves[1]) <= 2 * _START:
        return
    one, two = curves[1][_START:], curves[2][_START:]
    falls = {k: float(np.maximum(0, -np.diff(curve[_START:])).sum()) for k, curve in curves.items()}
    setback = float((np.maximum.accumulate(two) - two).max())
    yield _statement(
        "averaging two is nearly monotonic",
        "Averaging two weight vectors gives an almost monotonic learning curve.",
        f"From round {_START + 1} on the curve of two falls by {_points(falls[2])} points in all, without averaging by"
        f" {_points(falls[1])}; it is never more than {_points(setback)} points below what it had reached.",
        _monotonic(setback, error, falls),
        falls={str(k): fall for k, fall in falls.items()},
        setback=setback,
    )
    ahead = float((two >= one).mean())
    yield _statement(
        "averaging two beats none",
        "Averaging two gives an accuracy strictly above that without averaging.",
        f"Two are at least as good in {100 * ahead:.0f} % of the rounds from {_START + 1} on, by"
        f" {_points(float((two - one).mean()))} points on average; in the last round {_points(two[-1])} % against"
        f" {_points(one[-1])} %.",
        _beats(ahead, float((two - one).mean()), error),
        share_of_rounds=ahead,
        mean_gain=float((two - one).mean()),
    )
    reach = float(curves[2][-1]) - MARGINAL_POINTS
    rounds = {k: _first(curve, reach) for k, curve in curves.items()}
    known = [rounds[k] or len(curves[k]) + 1 for k in AVERAGED if k >= 2]
    slower = known == sorted(known) and known[-1] > known[0]
    told = ", ".join(f"{k}: {rounds[k] or 'never'}" for k in AVERAGED)
    yield _statement(
        "averaging more is slower",
        "Averaging more than two only leads to slower convergence.",
        f"First round within a point of the end of two, by number averaged: {told}.",
        HOLDS if slower else _against(error),
        rounds={str(k): number for k, number in rounds.items()},
    )


def _monotonic(setback: float, error: float, falls: dict[int, float]) -> str:
    if setback <= MARGINAL_POINTS and falls[2] < falls[1]:
        return HOLDS
    return UNKNOWN if setback <= MARGINAL_POINTS + 2 * error else FAILS


def _beats(ahead: float, gain: float, error: float) -> str:
    if ahead >= _MOST_ROUNDS and gain > 0:
        return HOLDS
    return FAILS if gain < -2 * error else _against(error)


def _against(error: float) -> str:
    """What does not look as the paper says fails where the test people can tell a point from none."""
    return FAILS if error <= MARGINAL_POINTS else UNKNOWN


def _first(curve: Any, reach: float) -> int | None:
    there = np.flatnonzero(curve >= reach)
    return int(there[0]) + 1 if len(there) else None


def _hashing(entries: list[dict[str, Any]], test_share: float) -> Iterator[dict[str, Any]]:
    whole = next((e for e in entries if e["bins"] is None), None)
    if whole is None:
        for entry in entries:
            yield _statement(
                f"accuracy with {entry['bins']} bins",
                "A thousand words in a bin: accuracy is 74.7 %, half a point below 75.2 % unhashed."
                if _is_thousand(entry)
                else _AGGRESSIVE,
                f"{_points(entry['mean'])} % with {entry['words_per_bin']:.0f} words in a bin; unhashed was not asked"
                " for.",
                BESIDE,
                accuracy=entry["mean"],
            )
        return
    for entry in entries:
        if entry["bins"] is None or entry["n_hashes"] != 1:
            continue
        cost, error = difference(whole["accuracies"], entry["accuracies"], test_share=test_share)
        name = f"hashing {entry['words_per_bin']:.0f} words into a bin"
        said = "A factor of 1,000 only lowers accuracy from 75.2 % to 74.7 %: the impact of hashing is negligible."
        told = "" if error is None else f", standard error {_points(error)}"
        verdict = _cost_verdict(cost, _ONE_SPLIT if error is None else error)
        much = "Hashing costs much here: " if verdict == FAILS and cost > _MUCH else ""
        ours = (
            f"{much}{entry['bins']} bins instead of one for each word {'cost' if cost >= 0 else 'win'}"
            f" {_points(abs(cost))} points"
            f" ({_points(whole['mean'])} % to {_points(entry['mean'])} %{told}); at their best rounds"
            f" {_points(whole['best']['mean'])} % and {_points(entry['best']['mean'])} %."
        )
        yield _statement(
            name,
            said if _is_thousand(entry) else _AGGRESSIVE,
            ours,
            verdict,
            bins=entry["bins"],
            cost=cost,
            standard_error=error,
            costs_much=bool(much),
        )


def _is_thousand(entry: dict[str, Any]) -> bool:
    return bool(_THOUSAND[0] <= entry["words_per_bin"] <= _THOUSAND[1])


def _cost_verdict(cost: float, error: float) -> str:
    """No more than the paper's half a point, as far as these people can tell."""
    if cost - 2 * error > _PAPER_COST:
        return FAILS
    # Where two errors more would still be cheap enough, it does not matter how large they are.
    told = error <= _TOO_NOISY or cost + 2 * error <= _PAPER_COST
    return HOLDS if told and cost <= _PAPER_COST + _ROUNDING else UNKNOWN


def _lambda(entries: list[dict[str, Any]], test_share: float) -> Iterator[dict[str, Any]]:
    for bins in dict.fromkeys(entry["bins"] for entry in entries):
        here = {entry["lambda"]: entry for entry in entries if entry["bins"] == bins}
        some = here[MARGINAL[0]]
        errors = [difference(here[v]["accuracies"], some["accuracies"], test_share=test_share)[1] for v in MARGINAL]
        error = max((e for e in errors if e is not None), default=_ONE_SPLIT)
        where = f"{some['splits']} splits, " + ("unhashed" if bins is None else f"{bins} bins")
        yield _spread(f"lambda, {bins or 'no'} bins", [here[value]["mean"] for value in MARGINAL], error, where)


def _hashes(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    fewest = min((entry["n_hashes"] for entry in entries), default=1)
    for entry in entries:
        over, error = entry["over_fewest_hashes"], entry["over_fewest_hashes_error"]
        if entry["n_hashes"] == fewest:
            continue
        told = "" if error is None else f" (standard error {_points(error)})"
        clear = error is not None and abs(over) > 2 * error
        # Lower, and by no more than a point as far as can be told.
        slightly = over < 0 and -over - 2 * (error or 0) <= MARGINAL_POINTS
        much = "Much, not slightly: " if clear and over < 0 and not slightly else ""
        yield _statement(
            f"{entry['n_hashes']} hashes, {entry['bins']} bins",
            "More hashes per feature lower accuracy slightly.",
            f"{much}{entry['n_hashes']} hashes instead of {fewest} change accuracy by {100 * over:+.1f} points with"
            f" {entry['bins']} bins{told}.",
            (HOLDS if slightly else FAILS) if clear else UNKNOWN,
            difference=over,
            standard_error=error,
        )
