"""What a device has sent, what it will send, and what is known about the risk, for the person whose device it is.

Numbers come from the state and from public documents. What a package said is nowhere to be shown: it was forgotten when
it was sealed. The risk is stated by the law that counts (one round, someone who knows all features and guesses the
label): d'² = q · bins · (1/V₊ + 1/V₋) with V± people of each label whose packages count, the probability q that a
package is sent, and AUC = Φ(d'/√2) if backgrounds were independent. It is a law of rounds without cover; where there is
cover, its guarantee is stated instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.update import squared_norm
from secvm.learning.package import Cohort
from secvm.participant.consent import Consent
from secvm.participant.declining import bytes_of_a_round
from secvm.participant.sealing import gateway_seal
from secvm.participant.state import DeviceState, Record, Status
from secvm.participant.trust_report import trust_report
from secvm.privacy.label_leakage import auc_of
from secvm.privacy.statement import PrivacyStatement
from secvm.privacy.statement_text import words
from secvm.protocol.experiment_document import ExperimentDocument, read_published
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.session import ParticipantSession

NO_GUARANTEE = (
    "This experiment adds no noise, so there is no formal guarantee. Tallies are public and stay so: anybody, not only"
    " the coordinator, can use them to guess at you."
)
#: Of what was forgotten no numbers are told again.
CANNOT_BE_TAKEN_BACK = "What was told stays told, and the ledger keeps it."


def inspect(
    state: DeviceState, *, now: int, consent: Consent | None = None, records: Iterable[Record] | None = None
) -> dict[str, Any]:
    """Everything about every experiment that the device knows, or about these, as values."""
    agreed = consent or Consent()
    looked_at = state.records() if records is None else records
    return {record.digest: _inspect_one(state, record, now, agreed) for record in looked_at}


def guarantee(document: ExperimentDocument) -> str:
    """What is promised about the packages themselves, in words: nothing, or what the experiment's cover is made for."""
    terms, cover = document.privacy, document.experiment.cover
    if terms is None or cover is None:
        return NO_GUARANTEE
    return (
        f"Every device adds cover: about {float(cover.mean_packages):.0f} packages a round that name random bins and"
        f" labels, and hide which are yours; of your own at most {cover.real_cap + 1} are sent. The experiment claims a"
        f" formal guarantee for all its {document.rounds} rounds together: epsilon {float(terms.epsilon):g} at delta"
        f" {float(terms.delta):.1g}, whatever the coordinator does and whatever anybody knows. It assumes that in every"
        f" round {terms.honest} or more devices are honest and deliver (planned: {float(terms.gamma):.0%} of"
        f" {terms.participants}), and that the relay shuffles, delivers, and does not work together with the"
        " coordinator. With fewer honest devices it is worth less, or nothing. From epsilon 8 on it protects nobody."
    )


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


def what_leaves(document: ExperimentDocument, statement: PrivacyStatement | None = None) -> list[str]:
    """In sentences: what taking part means, and what it tells, by default assumptions unless a statement says."""
    windows, experiment = document.windows, document.experiment
    sample = experiment.features_per_person
    looked_at = "all of your features" if sample is None else f"at most {sample} of your features, drawn once"
    return [
        f"It looks at: {document.features.description} (source '{document.features.source}'), {looked_at}.",
        (
            f"In every round your device sends exactly {document.budget} sealed packages of one size, at random times"
            f" within {windows.length_s} seconds, about {bytes_of_a_round(document) / 1000:.0f} kB; in at most"
            f" {document.rounds} rounds."
        ),
        (
            "One package says that someone with your label takes part. With probability"
            f" {float(document.train_share):g} your device trains (a package names one of {experiment.n_bins} bins and"
            " a sign), else it tests (a package names your label and the predicted one). The rest say nothing."
        ),
        (
            "A relay knows that you take part, and not what you send. The coordinator knows what was sent, and not"
            " by whom. If both work together, this does not hold."
        ),
        *_of_tokens(document),
        # What is claimed stands beside what this device computes.
        *([] if experiment.cover is None else [guarantee(document)]),
        *words(statement or Consent().statement(document)),
    ]


def _of_tokens(document: ExperimentDocument) -> list[str]:
    if document.tokens is None:
        return []
    return [
        (
            f"Before every round your device asks {document.tokens.issuer} for {document.budget} anonymous tokens, and"
            " puts one beside each package. The issuer learns that you take part; nobody can tell later which tokens"
            " were yours."
        )
    ]


def as_text(found: dict[str, Any]) -> str:
    """What ``inspect`` found, in plain words."""
    if not found:
        return "This device takes part in nothing. Nothing was sent, and nothing will be."
    lines: list[str] = []
    for digest, one in found.items():
        lines += [f"{one['title']}", f"  experiment {digest}", f"  {one['status']}: {one['means']}"]
        match one["status"]:
            case Status.DECLINED:
                sentences = []
            case Status.FORGOTTEN:
                sentences = [*one["told"], one["guarantee"], CANNOT_BE_TAKEN_BACK]
            case _:
                sentences = [*one["leaves"], *one["told"], *one["trust"]["told"], *one["risk"]]
        lines += [f"  {sentence}" for sentence in sentences]
        lines += [f"  abstained in round {was['round']}: {was['sentence']}" for was in one["abstentions"]]
        lines.append("")
    return "\n".join(lines)


_MEANS = {
    Status.JOINED: "your device takes part while 'secvm participant run' runs.",
    Status.PAUSED: "nothing is fetched or sent until you resume.",
    Status.FORGOTTEN: "what your device knew of you for this experiment is gone. What was sent cannot be taken back.",
    Status.DECLINED: "you said no, and nothing was ever sent.",
}

_OVER = "the experiment is over. Nothing more is fetched or sent."


def _inspect_one(state: DeviceState, record: Record, now: int, consent: Consent) -> dict[str, Any]:
    document = read_published(record.envelope, digest=record.digest)
    statement = consent.statement(document)
    session = _session(state, record, document)
    accepted = None if session is None else session.accepted
    rounds = {
        one.round_number: {
            "round": one.round_number,
            "packages": one.packages,
            "acknowledged": one.acknowledged,
            "lost": one.lost,
        }
        for one in state.history(record.digest)
    }
    waiting = 0
    if session is not None and accepted is not None and session.progress.waiting:
        waiting = session.progress.waiting
        running = rounds.get(accepted.manifest.round_number)
        if running is not None:
            running.update(acknowledged=session.progress.acknowledged, lost=session.progress.lost)
    acknowledged = sum(one["acknowledged"] for one in rounds.values())
    lost = sum(one["lost"] for one in rounds.values())
    told = [
        (
            f"It took part in {_count(len(rounds), 'round')}: {_count(acknowledged, 'package')} sent and acknowledged,"
            f" {lost} given up when their window closed."
        ),
        _waiting(waiting, record.status),
    ]
    newest = None if accepted is None else accepted.manifest
    if record.status is Status.JOINED and record.ending is None:
        told.append(_newest(newest, now))
    if record.cohort is not None:
        told.append(f"Your device was drawn to {record.cohort.name.lower()}, once and for all rounds.")
    over = record.ending is not None and record.status in (Status.JOINED, Status.PAUSED)
    keep = _keep(document, record.person)
    risk, numbers = _risk(
        document, accepted.manifest.last.participants if accepted and accepted.manifest.last else (), record, keep
    )
    return {
        "title": document.title,
        "status": record.status.value,
        "means": _OVER if over else _MEANS[record.status],
        "rounds": list(rounds.values()),
        "newest": None
        if newest is None
        else {"round": newest.round_number, "opens_at": newest.opens_at, "closes_at": newest.closes_at},
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
        "leaves": what_leaves(document, statement),
        "guarantee": guarantee(document),
        "budget": document.budget,
        "bytes_a_round": bytes_of_a_round(document),
        "told": told,
        "risk": risk,
        "abstentions": [
            {"round": number, "reason": reason, "sentence": sentence}
            for number, reason, sentence in state.abstentions(record.digest)
        ],
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _newest(newest: RoundManifest | None, now: int) -> str:
    if newest is None:
        return (
            "Your device has heard of no round yet. If that stays so while it runs, none is announced, or no relay of"
            " the settings answers."
        )
    if now < newest.closes_at:
        opens, closes = (
            datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S") for at in (newest.opens_at, newest.closes_at)
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


def _session(state: DeviceState, record: Record, document: ExperimentDocument) -> ParticipantSession | None:
    parts = state.session_parts(record.digest)
    if parts is None:
        return None
    # Only looked at: it is told nothing, so its seal is never used.
    return ParticipantSession.from_parts(*parts, document, seal=gateway_seal(bytes))


def _risk(
    document: ExperimentDocument, participants: tuple[int, ...], record: Record, keep: float
) -> tuple[list[str], dict[str, float] | None]:
    if document.experiment.cover is not None:
        return [
            "What tallies tell of you is bounded by the guarantee above, not by how many take part in a round."
        ], None
    if document.experiment.loss.regression:
        return ["For a label that is a number there is no law yet, so the risk has no number."], None
    found = leakage(document, participants, keep=keep)
    if found is None:
        return ["How many take part is not known on this device yet, so the risk has no number of its own yet."], None
    squared = f"{found['d_squared']:.3g}" if found["d_squared"] < inf else "∞, for somebody stands alone"
    told = [
        (
            f"In the last published round {_count(sum(participants), 'person').replace('persons', 'people')} trained."
            " Someone who knows your features and wants your label would, in one such round, have d'² ="
            f" {squared}: an AUC of {found['auc']:.2f}. It adds up: in {document.rounds} such rounds, an AUC of"
            f" {found['auc_all_rounds']:.2f}."
        )
    ]
    if record.cohort is Cohort.TEST:
        told.append(
            "These numbers are for those who train. Your device tests and names no bins: what it sends says your label"
            " beside the predicted one, and is counted with the others who test. The fewer they are, the more it tells."
        )
    return told, found


def _keep(document: ExperimentDocument, person: Individual | None) -> float:
    """The probability with which one of this person's units is sent; 1 where it is not known."""
    if person is None or not document.experiment.thinning.active:
        return 1.0
    return int(document.experiment.thinning.keep53([squared_norm(person.vector)])[0]) / 2**53
