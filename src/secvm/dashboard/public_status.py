"""What a coordinator says, read strictly: lists, status, health, metrics, checkpoints. Bytes in, values out.

Nothing that is served is believed to be what it should be. It has the shape that is written down here, every number is
finite and every text has a length, or a ``MalformedMessageError`` says in one sentence what is wrong. Keys that nobody
knows are left out: a newer coordinator tells more. Whoever shows a text takes it for text; characters that would turn
or hide what stands around it are gone (``protocol.canonical``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import orjson
import pydantic
import pydantic.dataclasses

from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import plain
from secvm.protocol.round_state import RoundEnd

#: Instants, in milliseconds: up to the end of the year 9999, beyond which no calendar here goes, in any zone.
_LAST_INSTANT = 253_402_214_400_000
#: The largest number that a figure may have: sums of all that a page of them holds are still whole numbers in JSON.
_LARGEST_FIGURE = 2.0**40
#: More experiments than this are not shown, and the page says so.
MOST_EXPERIMENTS = 1000
#: As many as a status document of the largest size can hold.
_MOST_ROUNDS = 1_000_000
_MOST_LABELS = 1024
_METRIC = re.compile(
    rb'secvm_coordinator_([a-z_]{1,60})(?:\{((?:[a-z]{1,20}="[^"\\\n]{1,200}",?){1,4})\})? ([0-9.eE+-]{1,30})'
)
_LABEL = re.compile(rb'[a-z]{1,20}="([^"\\\n]{1,200})"')

T = TypeVar("T")
Instant = Annotated[int, pydantic.Field(ge=0, le=_LAST_INSTANT)]
Count = Annotated[int, pydantic.Field(ge=0, le=2**53)]
Whole = Annotated[int, pydantic.Field(ge=-(2**53), le=2**53)]
Number = Annotated[float, pydantic.Field(ge=-1e18, le=1e18)]
#: Where a negative one means nothing.
Above = Annotated[float, pydantic.Field(ge=0, le=1e18)]
Chance = Annotated[float, pydantic.Field(ge=0, le=1)]
Text = Annotated[str, pydantic.Field(max_length=4000), pydantic.AfterValidator(plain)]
Label = Annotated[str, pydantic.Field(min_length=1, max_length=200)]
Digest = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
Standing = Literal["running", "paused", "stopped", "finished"]
#: ``protocol.round_state``, as far as a public status names it.
#: The last two are of rounds with two relays.
State = Literal["announced", "open", "closing", "tallied", "published", "abandoned", "opened", "unopened"]

#: Of experiments that are over: nothing of them changes any more.
OVER = ("stopped", "finished")
#: Of the round that runs.
LIVE = ("announced", "open", "closing")


_STRICTLY = pydantic.ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True, allow_inf_nan=False)


class _Told(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(**_STRICTLY, frozen=True)


class ExperimentListing(_Told):
    """One experiment in the list of all."""

    digest: Digest
    title: Text
    standing: Standing


# There are very many of these: without a dictionary in each, ten thousand rounds fit in a few megabytes.


@pydantic.dataclasses.dataclass(config=_STRICTLY, slots=True, frozen=True)
class ShareInterval:
    """A share with its interval; no value where nobody was counted."""

    value: Number | None
    low: Number
    high: Number


@pydantic.dataclasses.dataclass(config=_STRICTLY, slots=True, frozen=True)
class CountInterval:
    """A number of people with its interval: one number where there is no cover."""

    value: Count
    low: Count
    high: Count


@pydantic.dataclasses.dataclass(config=_STRICTLY, slots=True, frozen=True)
class PublicRound:
    """One round, as far as it is public."""

    number: Annotated[int, pydantic.Field(ge=1, le=_MOST_ROUNDS)]
    state: State
    opens_at: Instant
    closes_at: Instant
    accept_until: Instant
    #: Counts as published, per label, and the people among them; none before the round's end is told.
    participants: dict[Label, Count] | None = None
    people: dict[Label, Whole] | None = None
    #: Of all labels together; an older coordinator does not say.
    trained: CountInterval | None = None
    accuracy: ShareInterval | None = None
    recall: dict[Label, ShareInterval] | None = None
    precision: dict[Label, ShareInterval] | None = None
    baseline: dict[Label, ShareInterval] | None = None
    #: A word for how it ended (``protocol.round_state.RoundEnd``); a newer coordinator may know others.
    end: Annotated[str, pydantic.Field(pattern=r"^[a-z-]{1,40}$")] | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether it is over and brought no new model."""
        lost = self.state in ("abandoned", "unopened")
        return self.state not in LIVE and (lost if self.end is None else self.end != RoundEnd.COUNTED.word)


@pydantic.dataclasses.dataclass(config=_STRICTLY, slots=True, frozen=True)
class RoundLeak:
    """What one round's tally gave away."""

    round: Annotated[int, pydantic.Field(ge=1, le=_MOST_ROUNDS)]
    d_prime: Above
    auc: Chance


class Leakage(_Told):
    """The leakage meter, as the coordinator tells it."""

    formal_guarantee: bool
    rounds_told: Count
    planned_d_prime: Above | None
    planned_auc: Chance | None
    d_prime: Above | None
    auc: Chance | None
    #: Only with a formal guarantee.
    epsilon: Above | None = None
    epsilon_planned: Above | None = None
    delta: Chance | None = None
    honest: Count | None = None


class _Head(_Told):
    """A status document without its rounds."""

    experiment: Digest
    standing: Standing
    labels: Annotated[list[Label], pydantic.Field(max_length=_MOST_LABELS)]
    notes: Annotated[list[Text], pydantic.Field(max_length=1000)]
    leakage: Leakage


class ExperimentStatus:
    """What a status document says. The next one is read with this one beside it: what is as before is not read anew."""

    def __init__(
        self,
        head: _Head,
        rounds: list[PublicRound],
        leaks: dict[int, RoundLeak],
        marks: tuple[list[int], list[int]],
        changed: list[int],
    ) -> None:
        self.experiment, self.standing, self.labels = head.experiment, head.standing, tuple(head.labels)
        self.notes, self.leakage = tuple(head.notes), head.leakage
        #: In order, from 1.
        self.rounds = rounds
        self.leaks = leaks
        #: Numbers of rounds that are not as they were in the status before.
        self.changed = changed
        #: Hashes of every round and leak as they stood there, to be compared.
        self.marks = marks

    def facts(self) -> tuple[object, ...]:
        """All but the rounds, to be compared."""
        return self.standing, self.labels, self.notes, self.leakage

    @classmethod
    def read(cls, data: bytes, *, digest: str, before: ExperimentStatus | None = None) -> ExperimentStatus:
        """Out of the bytes that were served for this experiment."""
        content = _object(data, "the status")
        rounds_told = content.pop("rounds", None)
        leakage = content.get("leakage")
        leaks_told = leakage.pop("per_round", []) if isinstance(leakage, dict) else None
        head = _checked(_Head, content, "the status")
        if head.experiment != digest:
            raise MalformedMessageError("the status is that of another experiment")
        pieces = [orjson.dumps(round_) for round_ in _list(rounds_told, "the status", _MOST_ROUNDS)]
        leaked = [orjson.dumps(round_) for round_ in _list(leaks_told, "the status", _MOST_ROUNDS)]
        marks = [hash(piece) for piece in pieces], [hash(piece) for piece in leaked]
        if before is not None and before.labels != tuple(head.labels):
            before = None
        old_rounds, old_leaks = ([], []) if before is None else before.marks
        rounds, changed = [], set()
        for place, piece in enumerate(pieces):
            if before is not None and place < len(old_rounds) and marks[0][place] == old_rounds[place]:
                rounds.append(before.rounds[place])
                continue
            round_ = _checked_text(PublicRound, piece, "a round")
            if round_.number != place + 1:
                raise MalformedMessageError("the rounds of the status are not in order")
            _check_labels(round_, head.labels)
            rounds.append(round_)
            changed.add(round_.number)
        leaks = dict(before.leaks) if before is not None and marks[1][: len(old_leaks)] == old_leaks else {}
        for piece in leaked[len(leaks) :]:
            leak = _checked_text(RoundLeak, piece, "the leakage meter")
            leaks[leak.round] = leak
            changed.add(leak.round)
        return cls(head, rounds, leaks, marks, sorted(n for n in changed if n <= len(rounds)))


def _check_labels(round_: PublicRound, labels: Sequence[str]) -> None:
    for by_label in (round_.participants, round_.people, round_.recall, round_.precision, round_.baseline):
        if by_label is not None and list(by_label) != list(labels):
            raise MalformedMessageError("a round of the status has other labels than its experiment")


def read_list(data: bytes) -> tuple[list[ExperimentListing], int]:
    """The experiments of ``/v1/experiments``, and how many were left out because there are too many."""
    raw = _list(_object(data, "the list of experiments").get("experiments"), "the list of experiments", 2**20)
    experiments = [
        _checked(ExperimentListing, experiment, "the list of experiments") for experiment in raw[-MOST_EXPERIMENTS:]
    ]
    if len({experiment.digest for experiment in experiments}) != len(experiments):
        raise MalformedMessageError("an experiment stands in the list twice")
    return experiments, len(raw) - len(experiments)


Name = Annotated[str, pydantic.Field(max_length=200), pydantic.AfterValidator(plain)]


class NodeHealth(_Told):
    """Which node of a coordinator answered."""

    name: Name
    role: Literal["driver", "follower"]
    term: Count | None
    lag_ms: Count | None


class LogHealth(_Told):
    """How the log is."""

    name: Name
    key: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
    entries: Count
    cosigned: Count
    waiting: Count
    halted: Count
    #: Witnesses that have not cosigned the newest entries.
    silent: Annotated[list[Name], pydantic.Field(max_length=1000)] = []


class Lost(_Told):
    """What a coordinator waits for: a quorum of witnesses, or a relay."""

    what: Literal["quorum", "relay"]
    parties: Annotated[list[Name], pydantic.Field(max_length=1000)]
    since: Instant


class Health(_Told):
    """``/health``."""

    status: Annotated[str, pydantic.Field(max_length=40)]
    node: NodeHealth | None = None
    log: LogHealth | None = None
    lost: Annotated[list[Lost], pydantic.Field(max_length=1000)] = []


def read_health(data: bytes) -> Health:
    """How the coordinator says it is."""
    return _checked(Health, _object(data, "the coordinator's health"), "the coordinator's health")


#: A metric's name without its beginning, and the values of its labels in their order → its number.
Figures = Mapping[tuple[str, ...], float]


def read_metrics(data: bytes) -> dict[tuple[str, ...], float]:
    """All plain numbers of ``/metrics`` that are the coordinator's own; lines of another kind are left out."""
    figures: dict[tuple[str, ...], float] = {}
    for line in data.split(b"\n"):
        match = _METRIC.fullmatch(line)
        if match is None:
            continue
        try:
            number = float(match[3])
        except ValueError:
            continue
        if abs(number) <= _LARGEST_FIGURE:
            labels = [label.decode("utf-8", "replace") for label in _LABEL.findall(match[2] or b"")]
            figures[(match[1].decode(), *labels)] = number
    return figures


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        content = orjson.loads(data)
    except (ValueError, RecursionError):
        raise MalformedMessageError(f"{what} is no JSON") from None
    if not isinstance(content, dict):
        raise MalformedMessageError(f"{what} is no JSON object")
    return content


def _list(content: object, what: str, longest: int) -> list[Any]:
    if not isinstance(content, list) or len(content) > longest:
        raise MalformedMessageError(f"{what} has a list that is none, or too long")
    return content


def _checked(kind: type[T], raw: object, what: str) -> T:
    return _checked_text(kind, orjson.dumps(raw), what)


def _checked_text(kind: type[T], data: bytes, what: str) -> T:
    asked: Any = kind
    try:
        value: T = _adapter(asked).validate_json(data)
    except (pydantic.ValidationError, RecursionError):
        # Not which value, nor where: it may be anything.
        raise MalformedMessageError(f"{what} is not written as it should be") from None
    return value


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)
