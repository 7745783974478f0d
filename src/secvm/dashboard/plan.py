"""``POST /api/plan``: what an experiment would tell, cost and learn, while somebody still fills the form.

The form sends a specification as it would be posted, and what only the planner needs:

    {"specification": {…},            as ``POST /admin/experiments`` takes it; unfinished parts are told, not refused
     "shares": {"owl": 0.3, …},       of the labels, where they are known
     "vocabulary": 20000,             different words, where their number is known
     "logged": true,                  whether the coordinator has a log
     "part": "quick" | "guarantee"}   the second takes seconds where there is a guarantee

The specification is the coordinator's, which the page's server does not know: it is read here for its numbers alone,
and a test holds both readings together; parts that declare their settings are read by them in both. Everything that
does not fit becomes a remark beside its field.

Planning needs no key: it tells nothing of this coordinator. Quick parts are answered as they come. Guarantees take
seconds of a processor to plan, so that one is made at a time, a few may wait, and whoever comes then is told to ask
again; plans are kept, and asking for one again costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

import orjson
import pydantic

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.dashboard.view import BYTES_PER_PACKAGE
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DEPLOYED, RULES, AskedDescent, DescentRule
from secvm.learning.arithmetic import exact
from secvm.learning.declared import BINS, HASHES, USUAL_TRAIN_SHARE, Declared, Setting
from secvm.learning.losses import Hinge, Loss
from secvm.pages.guarding import RefusedRequestError
from secvm.privacy.accounting.accountant import patience, until
from secvm.privacy.planning.accuracy_cost import AccuracyTable
from secvm.privacy.planning.planner import guaranteed, quick
from secvm.privacy.planning.relay_plan import SECONDS_PER_MILLION
from secvm.privacy.planning.wish import RelayWish, Remark, Wish
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.terms import RelayRole
from secvm.runtime.settings import Settings

#: More labels than this have no place in a manifest.
_MOST_LABELS = 400
_LONGEST = 200

Number = int | float | Annotated[str, pydantic.Field(max_length=_LONGEST)]
#: A table whose names and numbers are checked by the part that declares them.
Table = Annotated[dict[str, Number | None], pydantic.Field(max_length=_LONGEST)]
T = TypeVar("T")
D = TypeVar("D", bound=Declared)


class _Part(pydantic.BaseModel):
    """A part of the specification: what the planner does not look at is the coordinator's business."""

    model_config = pydantic.ConfigDict(
        extra="ignore", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class _Features(_Part):
    presence: bool = True
    per_participant: int | None = None


class _Binning(_Part):
    bins: int
    hashes: int = 1


class _Windows(_Part):
    length_s: Annotated[int, pydantic.Field(ge=1)]
    grace_s: Annotated[int, pydantic.Field(ge=0)] = 0
    hours: Annotated[tuple[tuple[int, int], ...], pydantic.Field(max_length=24)] = ((0, 24),)


class _Relay(_Part):
    role: RelayRole | None = None
    operator: Annotated[str, pydantic.Field(max_length=_LONGEST)] | None = None
    seconds_per_million: Annotated[int, pydantic.Field(ge=1)] = SECONDS_PER_MILLION


def _none(privacy: object) -> object:
    return None if privacy == "none" else privacy


class _Specification(_Part):
    labels: Annotated[tuple[str, ...], pydantic.Field(max_length=_MOST_LABELS)]
    people: int | None = None
    floor: int
    features: _Features
    binning: _Binning
    windows: _Windows | None = None
    descent: Table = pydantic.Field(default_factory=dict)
    loss: str = Hinge.name
    multiclass: Literal["ovr", "ovo"] = "ovr"
    budget: int | None = None
    train_share: Number = str(USUAL_TRAIN_SHARE)
    rounds: int | None = None
    relays: Annotated[tuple[_Relay, ...], pydantic.Field(max_length=64)] = ()
    #: "none" is None.
    privacy: Annotated[Table | None, pydantic.BeforeValidator(_none)] = pydantic.Field(default_factory=dict)


class PlanRequest(Settings):
    """The whole of it, as it is sent."""

    specification: _Specification
    shares: dict[str, float] | None = None
    vocabulary: int | None = None
    logged: bool = True
    part: Literal["quick", "guarantee"] = "quick"


class UnfinishedError(BadInputError):
    """Something of the form cannot be read; ``remarks`` say what."""

    def __init__(self, remarks: Sequence[Remark]) -> None:
        super().__init__(remarks[0].sentence)
        self.remarks = tuple(remarks)


def read_request(data: bytes) -> tuple[Wish, str]:
    """What is wished for, and which part of the answer.

    Raises
    ------
    UnfinishedError
        When a field of the specification is missing, or holds something else.
    BadInputError
        When it is no such request at all.
    """
    try:
        request = PlanRequest.model_validate_json(data)
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        remarks = [_remark(fault["loc"], fault["type"]) for fault in faults]
        if not all(remarks):
            raise BadInputError("a plan is asked for with a specification and a part, as JSON") from None
        raise UnfinishedError([fault for fault in remarks if fault is not None]) from None
    return _wish(request), request.part


def _wish(request: PlanRequest) -> Wish:
    asked = request.specification
    labels = asked.labels
    if _read("loss", lambda: Loss(asked.loss)).regression:
        raise UnfinishedError([Remark("loss", "The planner knows labels that are names, not numbers.")])
    if len(set(labels)) != len(labels) or not all(label.strip() for label in labels):
        raise UnfinishedError([Remark("labels", "Every label needs a name of its own.")])
    descent, rounds = _descent(asked.descent), asked.rounds
    if rounds is None and asked.privacy is None:
        rounds = descent.rule.usual_rounds()
    shares = request.shares
    return Wish(
        labels=len(labels),
        people=0 if asked.people is None else asked.people,
        bins=asked.binning.bins,
        features=asked.features.per_participant,
        rounds=rounds,
        floor=asked.floor,
        hashes=asked.binning.hashes,
        descent=descent,
        multiclass=asked.multiclass,
        presence=asked.features.presence,
        train_share=_number("train_share", asked.train_share),
        budget=asked.budget,
        guarantee=None if asked.privacy is None else _part("privacy", PrivacyTarget, asked.privacy),
        shares=None if shares is None else tuple(shares.get(label, 0.0) for label in labels),
        vocabulary=request.vocabulary,
        relays=tuple(RelayWish(relay.role, relay.operator, relay.seconds_per_million) for relay in asked.relays),
        logged=request.logged,
        rounds_per_day=None if asked.windows is None else _per_day(asked.windows),
    )


def _part(place: str, kind: type[D], table: Mapping[str, object]) -> D:
    """A part that declares its settings; a remark stands beside the one that does not fit."""
    for setting in kind.settings():
        if setting.name in table:
            _read(f"{place}.{setting.name}", partial(setting.read, table[setting.name]))
    return _read(place, lambda: kind.read(table))


def _descent(table: Table) -> AskedDescent:
    kind = _read("descent.rule", lambda: RULES.find(str(table.get("rule") or DEPLOYED.name)))
    own = {name: value for name, value in table.items() if name in kind.setting_names() and value is not None}
    _part("descent", kind, own)
    return _read("descent.thinning", lambda: AskedDescent.read(table))


def _per_day(windows: _Windows) -> float:
    """Rounds in a day at most: one after another, as long as windows may open."""
    hours = sum(max(0, end - start) for start, end in windows.hours)
    return max(1.0, hours * 3600 // (windows.length_s + windows.grace_s))


def _number(field: str, value: float | str) -> Fraction:
    try:
        return exact(value)
    except BadInputError:
        raise UnfinishedError([Remark(field, "This is not a number.")]) from None


def _read(field: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except BadInputError as fault:
        text = str(fault)
        raise UnfinishedError([Remark(field, f"{text[:1].upper()}{text[1:]}.")]) from None


def _remark(place: Sequence[int | str], kind: str) -> Remark | None:
    """About a field of the form; None: it is no form."""
    # Where a number may be of several kinds, what was tried is no part of the name.
    names = [part for part in place if isinstance(part, str) and part not in ("int", "float", "constrained-str")]
    if names[:1] == ["specification"] and len(names) > 1:
        return Remark(".".join(names[1:3]), _sentence(kind))
    return Remark(names[0], _sentence(kind)) if names[:1] in (["vocabulary"], ["shares"]) else None


def _sentence(kind: str) -> str:
    if kind == "missing":
        return "This is needed."
    if kind.startswith("int"):
        return "A whole number is needed here."
    return "This is not written as it should be."


#: The name of the module below among the page's files.
DECLARED_MODULE = "declared.js"


def declared_module() -> bytes:
    """A script with the defaults and hints of what parts of an experiment declare, for the form."""
    settings = {f"privacy.{setting.name}": setting for setting in PrivacyTarget.settings()}
    settings |= {"binning.bins": BINS, "binning.hashes": HASHES}
    fields = {name: {"default": _text(setting), "hint": setting.sentence} for name, setting in settings.items()}
    rules = {rule.name: rule for rule in (DEPLOYED, *filter(None, map(_rule, RULES)))}
    for rule in reversed(rules.values()):
        # What is left empty is chosen by a plan, or is the rule's own.
        fields |= {f"descent.{each.name}": {"default": "", "hint": each.sentence} for each in rule.settings()}
    fields["descent.rule"] = {"default": DEPLOYED.name, "hint": ""}
    fields["train_share"] = {"default": f"{float(100 * USUAL_TRAIN_SHARE):g}", "hint": ""}
    declared = {
        "fields": fields,
        "rules": {name: {"about": rule.about, "settings": rule.setting_names()} for name, rule in rules.items()},
    }
    return b"export const DECLARED = " + orjson.dumps(declared) + b";\n"


def _rule(name: str) -> type[DescentRule] | None:
    """The rule of a name; None: its package is broken, which is no reason to show no form."""
    try:
        return RULES.find(name)
    except BadInputError:
        return None


def _text(setting: Setting) -> str:
    """A default as somebody would type it: no exponents."""
    if setting.default is None:
        return ""
    ratio = Fraction(setting.default)
    return f"{Decimal(ratio.numerator) / Decimal(ratio.denominator):f}"


#: A form is some kilobytes; nobody reads more.
MOST_BYTES = 2**16
#: Those who wait for a guarantee's plan, the one that is made included.
MOST_WAITING = 4
#: Nobody waits for a plan any longer; what takes so long are numbers that nobody means.
PATIENCE_S = 60.0
CAVEAT = "Measured on made-up people (Zipf words, two labels); yours will differ."


@cache
def accuracy_table() -> AccuracyTable:
    """The table that ``./secvm bench planner --write`` made."""
    return AccuracyTable(orjson.loads((files("secvm.dashboard") / "accuracy_cost.json").read_bytes()))


class Planner:
    """Answers forms. May be asked by several threads."""

    def __init__(self, *, most_waiting: int = MOST_WAITING, now: Callable[[], int] | None = None) -> None:
        """``now``: milliseconds of a clock that nobody sets, by which plans are given up; None: they are not."""
        self._now = now
        self._one_at_a_time = threading.Lock()
        self._places = threading.BoundedSemaphore(most_waiting)

    def __call__(self, content: dict[str, Any]) -> dict[str, Any]:
        """The answer to one form.

        Raises
        ------
        BadInputError
            Where it is no form of ours.
        RefusedError
            Where it is too long, or too many wait already.
        """
        data = orjson.dumps(content)
        if len(data) > MOST_BYTES:
            raise RefusedRequestError(413, "a form to be planned is shorter than this")
        try:
            return self._planned(data)
        except UnfinishedError as fault:
            return unfinished(fault.remarks)
        except (ArithmeticError, MemoryError, ValueError) as fault:
            if isinstance(fault, BadInputError):
                raise
            # Numbers that no float holds, from somebody who plays with the form.
            return unfinished((Remark("", "These numbers are too large or too small to be planned with."),))

    def _planned(self, data: bytes) -> dict[str, Any]:
        wish, part = read_request(data)
        each = BYTES_PER_PACKAGE if wish.guarantee is None else OUTER_BYTES
        if part == "quick" or wish.guarantee is None:
            plan = quick(wish, accuracy_table(), bytes_per_package=each)
        elif not self._places.acquire(blocking=False):
            raise RefusedRequestError(503, "other plans are being made: ask again in a moment")
        else:
            try:
                with self._one_at_a_time, patience(self._enough()):
                    plan = guaranteed(wish, accuracy_table(), bytes_per_package=each)
            finally:
                self._places.release()
        return {**plan.content(bytes_per_package=each), "caveat": CAVEAT}

    def _enough(self) -> Callable[[], bool]:
        return (lambda: False) if self._now is None else until(self._now, PATIENCE_S)


def unfinished(remarks: tuple[Remark, ...]) -> dict[str, Any]:
    """The answer to a form that cannot be read yet: remarks, and no number."""
    numbers = ("attacker", "packages", "accuracy", "hashing", "guarantee", "rests_on", "plan")
    return {
        "kind": None,
        "formal": False,
        "exact": True,
        "refusals": [remark.content() for remark in remarks],
        "warnings": [],
        **dict.fromkeys(numbers),
        "statement": [],
        "curve": [],
        "caveat": CAVEAT,
    }
