"""What a device has sent, what it will send, and what is known about the risk, for the person whose device it is.

Numbers come from the state and from public documents. What a package said is nowhere to be shown: it was forgotten when
it was sealed. The risk is stated by the law that counts (one round, someone who knows all features and guesses the
label): d'² = q · bins · (1/V₊ + 1/V₋) with V± people of each label whose packages count, the probability q that a
package is sent, and AUC = Φ(d'/√2) if backgrounds were independent. It is a law of rounds without cover; where there is
cover, its guarantee is stated instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.update import squared_norm
from secvm.learning.package import Cohort
from secvm.participant.consent.policies import Consent
from secvm.participant.person.disclosure import figures, what_leaves, who_asks
from secvm.participant.sending.sealing import bytes_of_a_round, gateway_seal
from secvm.participant.storage.state import DeviceState, ExperimentRecord, Status
from secvm.participant.trust.evidence import trust_report
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.privacy.leakage import auc_of
from secvm.privacy.risk import in_words
from secvm.privacy.sentences import Sentence, say
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_memory import Phase
from secvm.protocol.relays.session import RelayedSession
from secvm.protocol.schedule import Window

#: Of what was forgotten no numbers are told again.
CANNOT_BE_TAKEN_BACK = "What was told stays told, and the ledger keeps it."


def inspect(
    state: DeviceState,
    *,
    now: int,
    consent: Consent | None = None,
    policy: TrustPolicy | None = None,
    records: Iterable[ExperimentRecord] | None = None,
) -> dict[str, Any]:
    """Everything about every experiment that the device knows, or about these, as values."""
    agreed, trusts = consent or Consent(), policy or TrustPolicy()
    looked_at = state.records() if records is None else records
    return {record.digest: _inspect_one(state, record, now, agreed, trusts) for record in looked_at}


def leakage(document: ExperimentDocument, participants: Sequence[float], *, keep: float) -> dict[str, float] | None:
    """d'² and AUC of one round with so many train participants per label, and the AUC if all rounds were like it.

    None where the law says nothing.
    """
    if len(participants) < 2 or document.experiment.cover is not None:
        return None
    # With several labels, the two rarest: the pair that is easiest to tell apart.
    first, second = sorted(participants)[:2]
    squared = inf if first == 0 else keep * document.experiment.n_bins * (1 / first + 1 / second)
    return {"d_squared": squared, "auc": auc_of(squared), "auc_all_rounds": auc_of(document.rounds * squared)}


def leakage_at_floor(document: ExperimentDocument, *, keep: float) -> dict[str, float] | None:
    """The same for the smallest round that counts, with as many people of each label."""
    labels = len(document.experiment.labels)
    return leakage(document, [document.floor / labels] * labels, keep=keep)


def as_text(inspected: dict[str, Any]) -> str:
    """What ``inspect`` found, in plain words."""
    if not inspected:
        return "This device takes part in nothing. Nothing was sent, and nothing will be."
    lines: list[str] = []
    for digest, part in inspected.items():
        lines += [part["title"], *(f"  {sentence}" for sentence in part["asks"])]
        lines += [f"  experiment {digest}", f"  {part['status']}: {part['means']}"]
        match part["status"]:
            case Status.DECLINED:
                sentences = []
            case Status.FORGOTTEN:
                sentences = [*part["told"], part["risk_words"], CANNOT_BE_TAKEN_BACK]
            case _:
                sentences = [*part["leaves"], *part["told"], *part["trust"]["told"], *part["figures"]]
        lines += [f"  {sentence}" for sentence in sentences]
        lines += [f"  abstained in round {was['round']}: {was['sentence']}" for was in part["abstentions"]]
        lines.append("")
    return "\n".join(lines)


_MEANS = {
    Status.JOINED: "your device takes part while 'secvm participant run' runs.",
    Status.PAUSED: "nothing is fetched or sent until you resume.",
    Status.FORGOTTEN: "what your device knew of you for this experiment is gone. What was sent cannot be taken back.",
    Status.DECLINED: "you said no, and nothing was ever sent.",
}

_OVER = "the experiment is over. Nothing more is fetched or sent."


def _inspect_one(
    state: DeviceState, record: ExperimentRecord, now: int, consent: Consent, policy: TrustPolicy
) -> dict[str, Any]:
    document = read_published(record.envelope, digest=record.digest)
    statement = consent.statement(document)
    relayed = document.experiment.cover is not None
    standing = _relayed_standing(state, record, document) if relayed else _standing(state, record, document)
    unopened = state.relayed.unopened(record.digest)
    rounds = {
        row.round_number: {
            "round": row.round_number,
            "packages": row.packages,
            "acknowledged": row.acknowledged,
            "lost": row.lost,
            "unopened": row.round_number in unopened,
        }
        for row in state.history(record.digest)
    }
    waiting = standing.waiting
    running = rounds.get(standing.round_number) if waiting else None
    if running is not None:
        running.update(acknowledged=standing.acknowledged, lost=standing.lost)
    acknowledged = sum(row["acknowledged"] for row in rounds.values())
    lost = sum(row["lost"] for row in rounds.values())
    sentences = [
        (
            f"It took part in {_count(len(rounds), 'round')}: {_count(acknowledged, 'package')} sent and acknowledged,"
            f" {lost} given up when their window closed."
        ),
        _waiting(waiting, record.status),
    ]
    if record.status is Status.JOINED and record.ending is None:
        sentences.append(_newest(standing, now))
    if record.cohort is not None:
        sentences.append(f"Your device was drawn to {record.cohort.name.lower()}, once and for all rounds.")
    over = record.ending is not None and record.status in (Status.JOINED, Status.PAUSED)
    keep = _keep(document, record.person)
    last_round, numbers = _last_round(document, standing.participants, record, keep)
    return {
        "title": document.title,
        "asks": who_asks(document),
        "status": record.status.value,
        "means": _OVER if over else _MEANS[record.status],
        "rounds": list(rounds.values()),
        "newest": None
        if standing.window is None
        else {
            "round": standing.round_number,
            "opens_at": standing.window.opens_at,
            "closes_at": standing.window.closes_at,
        },
        "waiting": waiting,
        "acknowledged": acknowledged,
        "lost": lost,
        "bytes_today": state.traffic(now // 86_400_000),
        "evidence": len(state.evidence(record.digest)),
        "trust": trust_report(state, document),
        "ended": record.ending is not None,
        "leakage": numbers,
        "leakage_at_floor": leakage_at_floor(document, keep=keep),
        "statement": statement.content(),
        "leaves": what_leaves(document, statement, policy),
        "risk": statement.risk,
        "risk_words": in_words(statement.risk, document.experiment),
        "figures": [*figures(document, statement), *last_round],
        "budget": document.budget,
        "bytes_a_round": bytes_of_a_round(document),
        "told": sentences,
        "abstentions": [
            {"round": number, "reason": reason, "sentence": sentence}
            for number, reason, sentence in state.abstentions(record.digest)
        ],
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a device stands: the newest round that it knows, and what of it is still to be sent."""

    round_number: int = 0
    window: Window | None = None
    waiting: int = 0
    acknowledged: int = 0
    lost: int = 0
    #: Train participants of the last published round, per label.
    participants: tuple[int, ...] = ()


def _newest(newest: _Standing, now: int) -> str:
    if newest.window is None:
        return (
            "Your device has heard of no round yet. If that stays so while it runs, none is announced, or no relay of"
            " the settings answers."
        )
    if now < newest.window.closes_at:
        opens, closes = (
            datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S")
            for at in (newest.window.opens_at, newest.window.closes_at)
        )
        return f"The newest round it knows is {newest.round_number}: its window lasts from {opens} to {closes} UTC."
    return (
        f"The newest round it knows is {newest.round_number}, which is over. It asks for the next at a random moment."
    )


def _waiting(waiting: int, status: Status) -> str:
    if not waiting:
        return "Nothing waits to be sent."
    if status is Status.PAUSED:
        return (
            f"{_count(waiting, 'sealed package')} of the last round will be sent only if you resume within its window."
        )
    return f"{_count(waiting, 'sealed package')} of the running round: still to be sent, within its window."


def _standing(state: DeviceState, record: ExperimentRecord, document: ExperimentDocument) -> _Standing:
    parts = state.session_parts(record.digest)
    # Only looked at: it is told nothing, so its seal is never used.
    session = None if parts is None else ParticipantSession.from_parts(*parts, document, seal=gateway_seal(bytes))
    if session is None or session.accepted is None:
        return _Standing()
    manifest, progress = session.accepted.manifest, session.progress
    participants = manifest.last.participants if manifest.last else ()
    counts = (progress.waiting, progress.acknowledged, progress.lost)
    return _Standing(manifest.round_number, manifest.window, *counts, participants)


def _relayed_standing(state: DeviceState, record: ExperimentRecord, document: ExperimentDocument) -> _Standing:
    parts = state.relayed_session(record.digest)
    session = None if parts is None else RelayedSession.from_parts(*parts, document)
    if session is None or session.manifest is None:
        return _Standing()
    waiting = document.budget if session.phase is Phase.SENDING else 0
    return _Standing(session.manifest.round_number, session.manifest.window, waiting)


def _last_round(
    document: ExperimentDocument, participants: tuple[int, ...], record: ExperimentRecord, keep: float
) -> tuple[list[Sentence], dict[str, float] | None]:
    if document.experiment.cover is not None or document.experiment.loss.regression:
        # A guarantee holds for any number of people; and for numbers there is no law.
        return [], None
    numbers = leakage(document, participants, keep=keep)
    if numbers is None:
        return [say("figures.no-count")], None
    sentence = say(
        "figures.last-round",
        trained=sum(participants),
        auc=numbers["auc"],
        all=numbers["auc_all_rounds"],
        rounds=document.rounds,
    )
    return [sentence, *([say("figures.tests")] if record.cohort is Cohort.TEST else [])], numbers


def _keep(document: ExperimentDocument, person: Individual | None) -> float:
    """The probability with which one of this person's units is sent; 1 where it is not known."""
    if person is None or not document.experiment.thinning.active:
        return 1.0
    return int(document.experiment.thinning.keep53([squared_norm(person.vector)])[0]) / 2**53
