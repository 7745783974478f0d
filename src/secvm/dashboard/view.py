"""What the page is shown of an experiment: what is fixed of it, summaries and columns. Pure, and slow where cover is.

``facts`` and ``privacy`` come from the signed document alone; the statement is computed here, as a device computes it:
what a status document claims of itself is not repeated. In summaries and columns every number is the coordinator's own,
but whether there is a guarantee is read from the document; null stands where there is none. Columns have one place for
each round that is asked for, so that a curve is a column.
"""

from __future__ import annotations

import zoneinfo
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise, takewhile
from typing import Any

import orjson

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.dashboard.public_status import (
    LIVE,
    CountInterval,
    ExperimentListing,
    ExperimentStatus,
    PublicRound,
    ShareInterval,
)
from secvm.errors import BadInputError
from secvm.privacy.accounting.guarantee import finite
from secvm.privacy.statements import relayed_text
from secvm.privacy.statements.plain import state, words
from secvm.privacy.statements.relayed import state_relayed
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, Windows
from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of
from secvm.protocol.documents.terms import write_learning
from secvm.protocol.invite import Invite
from secvm.protocol.plain.sealed_requests import REQUEST_BYTES
from secvm.protocol.round_state import RoundEnd

#: What a device counts for a package: header, ephemeral key and tag around a request, as devices seal it
#: (docs/protocol.md §14), and the HTTP around all of it. Forms and experiments are told the same (a test compares).
BYTES_PER_PACKAGE = 7 + 32 + REQUEST_BYTES + 16 + 400


def facts(document: ExperimentDocument) -> dict[str, Any]:
    """The question, and all that decides how it is answered."""
    experiment, binning, windows = document.experiment, document.binning, document.windows
    learning = write_learning(experiment, binning.bins)
    return {
        "question": document.question,
        "operator": document.operator,
        "contact": document.contact,
        "purpose": document.purpose,
        "invite": Invite.of(document).to_text() if document.relays else None,
        "features": {
            "source": document.features.source,
            "description": document.features.description,
            "presence": document.features.presence,
        },
        "labels": list(experiment.labels),
        "bins": binning.bins,
        "hashes": binning.hashes if isinstance(binning, HashedBins) else None,
        "beacons": [
            {"chain": beacon.chain, "round": beacon.round_number}
            for beacon in (binning.beacons if isinstance(binning, HashedBins) else ())
        ],
        "features_per_person": experiment.features_per_person,
        "train_share": float(document.train_share),
        "rounds": document.rounds,
        "floor": document.floor,
        "budget": document.budget,
        "windows": {
            "length_s": windows.length_s,
            "grace_s": windows.grace_s,
            "first_opening": windows.first_opening,
            "hours": [list(pair) for pair in windows.hours],
            "time_zone": windows.time_zone,
        },
        "relays": [
            {
                "url": relay.url,
                "role": relay.role,
                "operator": relay.operator,
                "key": relay.key.data.hex(),
            }
            for relay in document.relays
        ],
        "log": None
        if document.log is None
        else {
            "name": document.log.name,
            "quorum": document.log.quorum,
            "freshness_s": document.log.freshness_s,
            "witnesses": [witness.name for witness in document.log.witnesses],
        },
        "descent": learning["rule"]["name"],
        "lambda": learning["rule"]["constants"].get("lambda"),
        "constants": learning["rule"]["constants"],
        "loss": learning["loss"]["name"],
        "multiclass": learning["multiclass"],
        "thinning": learning["thinning"],
        "robust": learning["robust"],
        "class_weights": learning["class_weights"],
        "tokens": document.tokens,
        "test": document.test,
    }


def has_guarantee(document: ExperimentDocument) -> bool:
    """Whether its document gives one, as a device judges it: whatever a status says."""
    if document.experiment.cover is None:
        return False
    return relayed_terms_of(document).operators.why_no_guarantee(one_relay=False) is None


def privacy(document: ExperimentDocument) -> dict[str, Any]:
    """What is guaranteed, in numbers and in plain sentences. May take seconds: in a thread."""
    if document.experiment.cover is not None:
        return _by_relays(document)
    statement = state(terms_of(document), bytes_per_package=BYTES_PER_PACKAGE)
    return {
        "kind": "plain",
        "epsilon": None,
        "delta": None,
        "why_no_guarantee": "this experiment adds no noise",
        "assumptions": [],
        "statement": words(statement),
        "bytes_per_round": statement.bytes_per_round,
    }


def _by_relays(document: ExperimentDocument) -> dict[str, Any]:
    terms = relayed_terms_of(document)
    delta = float(terms.claimed.delta)
    statement = state_relayed(terms, delta=delta, bytes_per_package=OUTER_BYTES)
    planned = statement.planned
    return {
        "kind": "relays",
        "epsilon": None if planned is None else finite(planned.epsilon),
        "delta": None if planned is None else planned.delta,
        "why_no_guarantee": statement.why_no_guarantee,
        "assumptions": [] if planned is None else relayed_text.rests_on(terms.operators, planned),
        "statement": relayed_text.words(statement),
        "bytes_per_round": statement.bytes_per_round,
    }


_ENDS = ("value", "low", "high")
_SHARES = ("recall", "precision", "baseline")
#: In this order; null where nothing is known.
_IN_A_SUMMARY = (
    *("digest", "title", "standing", "rounds_planned", "rounds_told", "labels", "floor", "budget", "privacy_kind"),
    *("test", "running", "last", "auc", "auc_planned", "epsilon", "epsilon_planned", "formal_guarantee"),
    *("notes", "problem", "begins_at", "in_vain"),
)


def summary(
    listed: ExperimentListing,
    document: ExperimentDocument | None,
    status: ExperimentStatus | None,
    *,
    live: Mapping[str, Any] | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """One experiment in a few numbers. ``live``: what is known of the round that runs, beside its times."""
    content: dict[str, Any] = dict.fromkeys(_IN_A_SUMMARY) | {
        "digest": listed.digest,
        "title": listed.title if document is None else document.title,
        "standing": listed.standing if status is None else status.standing,
        "rounds_told": 0,
        "labels": [],
        "notes": [],
        "problem": problem,
    }
    if document is not None:
        content |= {
            "rounds_planned": document.rounds,
            "labels": list(document.experiment.labels),
            "floor": document.floor,
            "budget": document.budget,
            "privacy_kind": "plain" if document.privacy is None else "relays",
            "formal_guarantee": has_guarantee(document),
            "test": document.test,
            "begins_at": document.windows.first_opening,
        }
    if status is not None:
        leakage = status.leakage
        content |= {
            "rounds_told": leakage.rounds_told,
            "running": _running(status, live or {}),
            "last": _last(status.rounds),
            "auc": leakage.auc,
            "auc_planned": leakage.planned_auc,
            "epsilon": leakage.epsilon,
            "epsilon_planned": leakage.epsilon_planned,
            "notes": list(status.notes),
            "in_vain": _in_vain(status.rounds),
        }
    return content


def _in_vain(rounds: Sequence[PublicRound]) -> dict[str, Any] | None:
    """How many rounds at the end brought no new model, and how each ended; a round that runs is left aside."""
    over = (round_ for round_ in reversed(rounds) if round_.state not in LIVE)
    ends = [round_.end for round_ in takewhile(lambda round_: round_.is_abandoned, over)]
    return {"rounds": len(ends), "ends": [end for end, _ in Counter(ends).most_common()]} if ends else None


def running_round(status: ExperimentStatus) -> PublicRound | None:
    """The round that runs; it is the newest, if there is one."""
    newest = status.rounds[-1] if status.rounds else None
    return newest if newest is not None and newest.state in LIVE else None


def _running(status: ExperimentStatus, live: Mapping[str, Any]) -> dict[str, Any] | None:
    newest = running_round(status)
    if newest is None:
        return None
    names = ("number", "state", "opens_at", "closes_at", "accept_until")
    return {**{name: getattr(newest, name) for name in names}, **live}


def _last(rounds: Sequence[PublicRound]) -> dict[str, Any] | None:
    """The newest round whose counts are public."""
    round_ = next((round_ for round_ in reversed(rounds) if round_.participants is not None), None)
    if round_ is None:
        return None
    return {
        "number": round_.number,
        "opens_at": round_.opens_at,
        "closes_at": round_.closes_at,
        "participants": round_.participants,
        "people": round_.people,
        "trained": None if round_.trained is None else {end: getattr(round_.trained, end) for end in _ENDS},
        "accuracy": None if round_.accuracy is None else round_.accuracy.value,
        "accuracy_low": None if round_.accuracy is None else round_.accuracy.low,
        "accuracy_high": None if round_.accuracy is None else round_.accuracy.high,
        **{name: _values(getattr(round_, name)) for name in _SHARES},
    }


def _values(shares: Mapping[str, ShareInterval] | None) -> dict[str, float | None] | None:
    return None if shares is None else {label: share.value for label, share in shares.items()}


def columns(status: ExperimentStatus, numbers: Sequence[int]) -> dict[str, Any]:
    """These rounds, column by column."""
    rounds = [status.rounds[number - 1] for number in numbers]
    leaks = [status.leaks.get(number) for number in numbers]
    labels = status.labels
    return {
        "number": list(numbers),
        "state": [round_.state for round_ in rounds],
        "opens_at": [round_.opens_at for round_ in rounds],
        "closes_at": [round_.closes_at for round_ in rounds],
        "end": [round_.end for round_ in rounds],
        **{
            name: {label: [None if counts is None else counts[label] for counts in by_round] for label in labels}
            for name in ("participants", "people")
            for by_round in [[getattr(round_, name) for round_ in rounds]]
        },
        "trained": _ends([round_.trained for round_ in rounds]),
        "accuracy": _ends([round_.accuracy for round_ in rounds]),
        **{
            name: {
                label: _ends([None if shares is None else shares[label] for shares in by_round])
                for label in labels
                for by_round in [[getattr(round_, name) for round_ in rounds]]
            }
            for name in _SHARES
        },
        "d_prime": [None if leak is None else leak.d_prime for leak in leaks],
        "auc": [None if leak is None else leak.auc for leak in leaks],
    }


def _ends(shares: Sequence[ShareInterval | CountInterval | None]) -> dict[str, list[float | None]]:
    return {end: [None if share is None else getattr(share, end) for share in shares] for end in _ENDS}


def stretch(status: ExperimentStatus, first: int | None, last: int | None) -> tuple[int, int]:
    """The rounds from ``first`` to ``last`` that there are: (from, to), both included; to < from: none."""
    total = len(status.rounds)
    begin = 1 if first is None else max(1, first)
    return begin, max(begin - 1, total if last is None else min(last, total))


ENDS_MODULE = "ends.js"


def ends_module() -> bytes:
    """A script with the words for how rounds end, for the page."""
    return b"export const ENDS = " + orjson.dumps({end.word: end.value for end in RoundEnd}) + b";\n"


_DUSK, _DAWN = 22, 6
_ALL_DAY = ((0, 24),)
_DAY_MS = 86_400_000
#: Half the width of a night in which there is no round.
_NARROW = 0.1


def time_zone(name: str) -> tzinfo:
    """The zone of this name; UTC is known everywhere."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInputError("the time zone is none that is known here; it needs a name such as Europe/Berlin") from None


def nights(windows: Windows, rounds: Sequence[PublicRound], *, zone: tzinfo) -> list[tuple[float, float]]:
    """Stretches of night among these rounds, which follow each other."""
    if windows.hours != _ALL_DAY:
        return [
            (before.number + 0.5 - _NARROW, before.number + 0.5 + _NARROW)
            for before, after in pairwise(rounds)
            if _night_between(windows, before.opens_at, after.opens_at)
        ]
    stretches: list[tuple[float, float]] = []
    for round_ in rounds:
        hour = datetime.fromtimestamp(round_.opens_at // 1000, zone).hour
        if _DAWN <= hour < _DUSK:
            continue
        if stretches and stretches[-1][1] == round_.number - 0.5:
            stretches[-1] = (stretches[-1][0], round_.number + 0.5)
        else:
            stretches.append((round_.number - 0.5, round_.number + 0.5))
    return stretches


def _night_between(windows: Windows, before: int, after: int) -> bool:
    """Whether an hour in which no window opens lies between two openings."""
    try:
        zone = time_zone(windows.time_zone)
    except BadInputError:
        zone = UTC
    if after - before >= _DAY_MS:
        return True
    open_hours = {hour for start, end in windows.hours for hour in range(start, end)}
    return any(
        datetime.fromtimestamp(instant // 1000, zone).hour not in open_hours
        for instant in range(before, after, 3_600_000)
    )
