"""What the page shows, from what the device keeps: one value, made of numbers and plain sentences. Pure.

It shows nothing that the device does not keep for other reasons, and keeps nothing more for the page. So the times of
packages are those still to come: a time is forgotten with its capsule, when it is acknowledged or the window is over.
Times to come are told by quarters of an hour; nobody needs the second.

No feature and no label of the person is in it. Those are asked for one by one (``desk``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secvm.participant.consent.ledger import Ledger, Spending, figures, finite, in_words, read_ledger
from secvm.participant.consent.policies import Consent
from secvm.participant.person.disclosure import who_asks
from secvm.participant.person.inspection import inspect
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.storage.state import DeviceState, ExperimentRecord, Status
from secvm.participant.storage.vault import Provenance
from secvm.participant.trust.evidence import Held, in_a_list
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy.leakage import auc_of
from secvm.privacy.risk import up
from secvm.privacy.sentences import Sentence, say
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.relays.session import RelayedHeader

_DAY_MS, QUARTER_MS = 86_400_000, 900_000
#: What of an experiment is shown as ``inspection`` says it.
_INSPECTED = ("status", "ended", "rounds", "acknowledged", "lost", "waiting", "abstentions")


@dataclass(frozen=True, slots=True)
class VaultLook:
    """How much the vault holds, never what."""

    #: Number of features by source.
    sources: dict[str, int]
    #: Questions that the person has answered.
    labels: int
    bytes: int
    #: When its file was last written; None: never.
    changed_at: int | None
    #: Under a passphrase.
    locked: bool
    #: Histories of browsers on this machine, by the names of their profiles.
    profiles: tuple[str, ...] = ()
    #: How each source was read, where that is known.
    readings: Mapping[str, Provenance] = field(default_factory=dict)


def view(
    state: DeviceState,
    vault: VaultLook,
    held: Sequence[Held],
    *,
    now: int,
    consent: Consent,
    daily_bytes: int,
    runs: bool,
    policy: TrustPolicy | None = None,
) -> dict[str, Any]:
    """Everything but what is offered (``offers``)."""
    ledger = read_ledger(state, consent)
    records = state.records()
    # What somebody said no to is not reckoned with again: a stranger wrote its numbers.
    taken = [record for record in records if record.status is not Status.DECLINED]
    inspected = inspect(state, now=now, consent=consent, policy=policy, records=taken)
    return {
        "now": now,
        "runs": runs,
        "vault": {
            "labels": vault.labels,
            "bytes": vault.bytes,
            "changed_at": vault.changed_at,
            "locked": vault.locked,
            "sources": [
                {"name": name, "features": count, "read": _read(vault.readings.get(name))}
                for name, count in sorted(vault.sources.items())
            ],
            "features": sum(vault.sources.values()),
        },
        "budget": budget(ledger, consent, today=state.traffic(now // _DAY_MS), daily_bytes=daily_bytes),
        "experiments": [
            experiment_view(state, record, inspected[record.digest], ledger, runs=runs) for record in taken
        ],
        "declined": [
            {"digest": record.digest, "title": read_published(record.envelope, digest=record.digest).title}
            for record in records
            if record.status is Status.DECLINED
        ],
        "evidence": in_a_list(held),
    }


def _read(reading: Provenance | None) -> dict[str, int | None] | None:
    return None if reading is None else {"at": reading.read_at, "days": reading.days}


def budget(ledger: Ledger, consent: Consent, *, today: int, daily_bytes: int) -> dict[str, Any]:
    """What may be told and sent, how much of it is spent; a limit of null is none at all."""
    common = Ledger(tuple(entry for entry in ledger.spendings if not entry.apart))
    limits = consent.budget
    return {
        # What was accepted for one experiment alone is counted there, and not here.
        "epsilon": _meter(up(common.charged, 100), limits.epsilon),
        "auc": _meter(up(auc_of(common.d_squared), 1000), 1.0 if limits.auc >= 1 else limits.auc, least=0.5),
        "bytes": _meter(today, daily_bytes),
        "words": contents(in_words(ledger)),
        "figures": contents(figures(ledger, consent)),
        "unsafe": consent.unsafe,
    }


def _meter(spent: float, limit: float, *, least: float = 0.0) -> dict[str, float | None]:
    """Spent, limit and the share of it that is left, 0 to 1. An AUC begins at a coin's 0.5."""
    if math.isinf(limit) or (least and limit >= 1):
        return {"spent": finite(spent), "limit": None, "left": None}
    room = limit - least
    left = 0.0 if room <= 0 else max(0.0, min(1.0, (limit - spent) / room))
    return {"spent": finite(spent), "limit": limit, "left": left}


def experiment_view(
    state: DeviceState, record: ExperimentRecord, inspected: dict[str, Any], ledger: Ledger, *, runs: bool
) -> dict[str, Any]:
    """One experiment that this device takes part in, or took part in."""
    document = read_published(record.envelope, digest=record.digest)
    model, trust = state.model(record.digest), inspected["trust"]
    spent = next((entry for entry in ledger.spendings if entry.digest == record.digest), None)
    return {
        **about(document),
        **{name: inspected[name] for name in _INSPECTED},
        "means": _means(record.status, ended=inspected["ended"], runs=runs, trust=trust).content(),
        "risk": inspected["risk_words"].content(),
        "leaves": contents(inspected["leaves"]),
        "figures": contents([*inspected["figures"], _spent(spent)]),
        "window": inspected["newest"],
        "times": times_to_come(state, document),
        "trains": None if record.cohort is None else record.cohort.name == "TRAIN",
        "checked": contents(trust["told"]),
        "distrust": trust["distrust"],
        "convicted": trust["convicted"],
        "model_round": None if model is None else model.rounds,
    }


def _spent(spent: Spending | None) -> Sentence:
    if spent is None:
        return say("spent.nothing")
    if spent.charged is not None and math.isfinite(spent.charged):
        return say("spent.epsilon", epsilon=up(spent.charged, 100), rounds=spent.rounds)
    if spent.d_squared is not None and math.isfinite(spent.d_squared):
        return say("spent.auc", auc=up(auc_of(spent.d_squared), 1000), rounds=spent.rounds)
    return say("spent.unknown", rounds=spent.rounds)


def about(document: ExperimentDocument) -> dict[str, Any]:
    """What an experiment is, and who is behind it: from its signed document alone."""
    windows, log = document.windows, document.log
    return {
        "digest": document.digest,
        "title": document.title,
        "question": document.question,
        "asks": contents(who_asks(document)),
        "labels": None if document.experiment.loss.regression else list(document.experiment.labels),
        "source": document.features.source,
        "looks_at": document.features.description.strip().rstrip("."),
        "rounds_planned": document.rounds,
        "packages_a_round": document.budget,
        "bytes_a_round": bytes_of_a_round(document),
        "guarantee": document.experiment.cover is not None,
        "test": document.test,
        "hours": [list(span) for span in windows.hours],
        "time_zone": windows.time_zone,
        "who": {
            "coordinator": [key.key_id.hex() for key in document.coordinator_keys],
            "note": document.gateway_note,
            "relays": [relay.url for relay in document.relays],
            "witnesses": [] if log is None else [witness.name for witness in log.witnesses],
            "log": None if log is None else log.name,
        },
    }


def times_to_come(state: DeviceState, document: ExperimentDocument) -> list[dict[str, int]]:
    """How many packages wait for each quarter of an hour, by the instant it begins."""
    counted = Counter(at // QUARTER_MS * QUARTER_MS for at in _moments(state, document))
    return [{"at": at, "packages": count} for at, count in sorted(counted.items())]


def _moments(state: DeviceState, document: ExperimentDocument) -> list[int]:
    """When each package that waits is to be sent. To two relays all of a round leave at one moment."""
    if document.experiment.cover is None:
        parts = state.session_parts(document.digest)
        return [] if parts is None else [row.at for row in parts[1]]
    relayed = state.relayed_session(document.digest)
    at = None if relayed is None else RelayedHeader.from_bytes(relayed[0]).at
    return [] if at is None else [at] * document.budget


def contents(sentences: Sequence[str]) -> list[dict[str, Any]]:
    """Sentences for a page, which says those that it knows by their key in its reader's language."""
    return [sentence.content() if isinstance(sentence, Sentence) else {"text": sentence} for sentence in sentences]


def _means(status: Status, *, ended: bool, runs: bool, trust: dict[str, Any]) -> Sentence:
    if status is Status.FORGOTTEN:
        return say("means.forgotten")
    if trust["convicted"]:
        return say("means.convicted")
    if ended:
        return say("means.over")
    if status is Status.PAUSED:
        return say("means.paused")
    if trust["distrust"] is not None:
        return say("means.distrust", why=trust["distrust"])
    return say("means.runs" if runs else "means.stopped")
