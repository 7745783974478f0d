"""What the page is shown of an experiment: summaries and columns, made from what was read. Pure.

Every number is the coordinator's own, but whether there is a guarantee is read from the signed document; null stands
where there is none. Columns have one place for each round that is asked for, so that a curve is a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from secvm.dashboard.facts import has_guarantee
from secvm.dashboard.told import LIVE, Listed, Share, Status, ToldRound
from secvm.protocol.documents.experiment import ExperimentDocument

_ENDS = ("value", "low", "high")
_SHARES = ("recall", "precision", "baseline")


def summary(
    listed: Listed,
    document: ExperimentDocument | None,
    status: Status | None,
    *,
    live: Mapping[str, Any] | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """One experiment in a few numbers. ``live``: what is known of the round that runs, beside its times."""
    found: dict[str, Any] = {
        "digest": listed.digest,
        "title": listed.title if document is None else document.title,
        "standing": listed.standing if status is None else status.standing,
        "rounds_planned": None,
        "rounds_told": 0,
        "labels": [],
        "floor": None,
        "budget": None,
        "privacy_kind": None,
        "test": None,
        "running": None,
        "last": None,
        "auc": None,
        "auc_planned": None,
        "epsilon": None,
        "epsilon_planned": None,
        "formal_guarantee": None,
        "notes": [],
        "problem": problem,
    }
    if document is not None:
        found |= {
            "rounds_planned": document.rounds,
            "labels": list(document.experiment.labels),
            "floor": document.floor,
            "budget": document.budget,
            "privacy_kind": _kind(document),
            "formal_guarantee": has_guarantee(document),
            "test": document.test,
        }
    if status is not None:
        leakage = status.leakage
        found |= {
            "rounds_told": leakage.rounds_told,
            "running": _running(status.rounds, live or {}),
            "last": _last(status.rounds),
            "auc": leakage.auc,
            "auc_planned": leakage.planned_auc,
            "epsilon": leakage.epsilon,
            "epsilon_planned": leakage.epsilon_planned,
            "notes": list(status.notes),
        }
    return found


def _kind(document: ExperimentDocument) -> str:
    if document.privacy is None:
        return "plain"
    return "relays"


def running_round(status: Status) -> ToldRound | None:
    """The round that runs; it is the newest, if there is one."""
    newest = status.rounds[-1] if status.rounds else None
    return newest if newest is not None and newest.state in LIVE else None


def _running(rounds: Sequence[ToldRound], live: Mapping[str, Any]) -> dict[str, Any] | None:
    if not rounds or rounds[-1].state not in LIVE:
        return None
    one = rounds[-1]
    return {
        "number": one.number,
        "state": one.state,
        "opens_at": one.opens_at,
        "closes_at": one.closes_at,
        "accept_until": one.accept_until,
        **live,
    }


def _last(rounds: Sequence[ToldRound]) -> dict[str, Any] | None:
    """The newest round whose counts are public."""
    one = next((one for one in reversed(rounds) if one.participants is not None), None)
    if one is None:
        return None
    return {
        "number": one.number,
        "opens_at": one.opens_at,
        "closes_at": one.closes_at,
        "participants": one.participants,
        "people": one.people,
        "accuracy": None if one.accuracy is None else one.accuracy.value,
        "accuracy_low": None if one.accuracy is None else one.accuracy.low,
        "accuracy_high": None if one.accuracy is None else one.accuracy.high,
        **{name: _values(getattr(one, name)) for name in _SHARES},
    }


def _values(shares: Mapping[str, Share] | None) -> dict[str, float | None] | None:
    return None if shares is None else {label: share.value for label, share in shares.items()}


def columns(status: Status, numbers: Sequence[int]) -> dict[str, Any]:
    """These rounds, column by column."""
    rounds = [status.rounds[number - 1] for number in numbers]
    leaks = [status.leaks.get(number) for number in numbers]
    labels = status.labels
    return {
        "number": list(numbers),
        "state": [one.state for one in rounds],
        "opens_at": [one.opens_at for one in rounds],
        "closes_at": [one.closes_at for one in rounds],
        "participants": {
            label: [None if one.participants is None else one.participants[label] for one in rounds] for label in labels
        },
        "people": {label: [None if one.people is None else one.people[label] for one in rounds] for label in labels},
        "accuracy": _ends([one.accuracy for one in rounds]),
        **{
            name: {
                label: _ends([None if shares is None else shares[label] for shares in found])
                for label in labels
                for found in [[getattr(one, name) for one in rounds]]
            }
            for name in _SHARES
        },
        "d_prime": [None if leak is None else leak.d_prime for leak in leaks],
        "auc": [None if leak is None else leak.auc for leak in leaks],
    }


def _ends(shares: Sequence[Share | None]) -> dict[str, list[float | None]]:
    return {end: [None if share is None else getattr(share, end) for share in shares] for end in _ENDS}


def stretch(status: Status, first: int | None, last: int | None) -> tuple[int, int]:
    """The rounds from ``first`` to ``last`` that there are: (from, to), both included; to < from: none."""
    total = len(status.rounds)
    begin = 1 if first is None else max(1, first)
    return begin, max(begin - 1, total if last is None else min(last, total))
