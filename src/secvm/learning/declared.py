"""How the parts of an experiment declare their settings: once, each with name, kind, default, range and one sentence.

A part (a descent rule, a loss, thinning, robustness, the privacy that is asked for) is a frozen dataclass that inherits
from ``Declared`` and whose fields are made by ``number`` and ``whole``:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True)
    ... class Brake(Declared):
    ...     strength: Fraction = number("1/2", "Share of a step that is taken back.", above=0, at_most=1)
    >>> Brake(0.25).content()
    {'strength': '1/4'}
    >>> Brake.read({"strength": 2})
    Traceback (most recent call last):
    secvm.errors.BadExperimentError: strength must be a number, greater than 0 and at most 1, not 2

Whoever reads, writes or shows a part asks for its ``settings``: documents, specifications, model files, the estimator,
the command line, the form and the reference.

Settings that every experiment has, whatever its rule and loss, are declared here: bins, hashes, budget, train share.

A ``Registry`` has kinds of rules and losses by name: the built-in ones, and those of installed packages. A package
offers one by an entry point in the registry's group that leads to its class:

    [project.entry-points."secvm.rules"]
    signs = "my_package:Signs"

It is imported when it is asked for by name, or when all are listed. A built-in name cannot be taken. Only what is
installed beside this package is found: a document that names anything else is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.arithmetic import exact

Number = Fraction | int
#: Where a dataclass field keeps its declaration.
_KEY = "secvm.setting"
#: Longest number that an error quotes.
_QUOTED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One number that somebody may set. Public: it describes experiments, never people."""

    #: As documents, specifications and forms write it.
    name: str
    #: What it is, in one sentence.
    sentence: str
    #: Its value where nobody says anything; None where nothing is a value too.
    default: Number | None
    #: The default where the label is a number instead of a class, if that is another one.
    for_numbers: Number | None = None
    #: Whether only integers are taken.
    is_whole: bool = False
    #: Whether None is a value.
    optional: bool = False
    at_least: Number | None = None
    above: Number | None = None
    at_most: Number | None = None
    below: Number | None = None
    #: The name in Python, where ``name`` is none.
    attribute: str = ""

    def usual(self, *, numbers: bool = False) -> Number | None:
        """The default; ``numbers``: whether the label is a number."""
        return self.for_numbers if numbers and self.for_numbers is not None else self.default

    @property
    def limits(self) -> str:
        """The range in words."""
        bounds = (("at least", self.at_least), ("greater than", self.above), ("at most", self.at_most))
        words = [f"{word} {shown(bound)}" for word, bound in (*bounds, ("less than", self.below)) if bound is not None]
        return ", ".join(["a whole number" if self.is_whole else "a number", *([" and ".join(words)] if words else [])])

    def read(self, value: object) -> Number | None:
        """The value as a rational or an integer. Raises ``BadExperimentError`` beyond the range."""
        if value is None and self.optional:
            return None
        try:
            number = exact(value)  # type: ignore[arg-type]  # what is no number is refused there
        except BadInputError:
            raise BadExperimentError(f"{self.name} must be {self.limits}") from None
        inside = (
            (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
            and (self.below is None or number < self.below)
            and not (self.is_whole and number.denominator != 1)
        )
        if not inside:
            raise BadExperimentError(f"{self.name} must be {self.limits}, not {shown(number)}")
        return int(number) if self.is_whole else number


def shown(value: Number) -> str:
    """A number for people: a decimal where that is short and exact, else a ratio, and never a long text."""
    text = str(value)
    if len(text) > _QUOTED:
        return f"{text[:_QUOTED]}…"
    decimal = f"{float(value):g}".replace("e-0", "e-")
    return decimal if value.denominator != 1 and exact(decimal) == value else text


def number(default: float | str | Fraction | None, sentence: str, *, name: str = "", **more: Any) -> Any:
    """A dataclass field for a rational; ``more`` are bounds and ``for_numbers`` of ``Setting``."""
    return _field(default, sentence, name, more)


def whole(default: int | None, sentence: str, *, name: str = "", **more: Any) -> Any:
    """A dataclass field for an integer; ``more`` are bounds and ``for_numbers`` of ``Setting``."""
    return _field(default, sentence, name, {**more, "is_whole": True})


def _field(default: float | str | Fraction | None, sentence: str, name: str, more: Mapping[str, Any]) -> Any:
    bounds: dict[str, Any] = {key: value if isinstance(value, bool) else exact(value) for key, value in more.items()}
    value = None if default is None else exact(default)
    if more.get("is_whole") and value is not None:
        value = int(value)  # type: ignore[assignment]
    setting = Setting(name=name, sentence=sentence, default=value, optional=default is None, **bounds)
    return dataclasses.field(default=value, metadata={_KEY: setting})


@cache
def _settings(kind: Any) -> tuple[Setting, ...]:
    return tuple(
        dataclasses.replace(field.metadata[_KEY], name=field.metadata[_KEY].name or field.name, attribute=field.name)
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    )


class Declared:
    """A part of an experiment that knows its settings."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for setting in self.settings():
            object.__setattr__(self, setting.attribute, setting.read(getattr(self, setting.attribute)))

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """What can be set, in the order of the declaration."""
        return _settings(cls)  # type: ignore[arg-type]  # a class has a hash, whatever its values have

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """What the settings are called."""
        return tuple(setting.name for setting in cls.settings())

    def content(self) -> dict[str, str | int | None]:
        """All values by name, as JSON has them: rationals as text."""
        values = {setting.name: getattr(self, setting.attribute) for setting in self.settings()}
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in values.items()}

    @classmethod
    def read(cls, content: Mapping[str, object], *, numbers: bool = False) -> Self:
        """The part with these values by name; what is missing has its default, and other names are refused.

        ``numbers``: whether the label is a number, for which some defaults differ.
        """
        known = {setting.name: setting for setting in cls.settings()}
        for name in content:
            if name not in known:
                names = ", ".join(known) or "no settings"
                raise BadExperimentError(f"{str(name)[:_QUOTED]} is not a setting here; there is {names}")
        usual = {setting.attribute: setting.usual(numbers=numbers) for setting in known.values()}
        return cls(**{**usual, **{known[name].attribute: value for name, value in content.items()}})


class Named(Protocol):
    """A class that knows what it is called."""

    name: ClassVar[str]


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes of one kind by their names."""

    def __init__(self, group: str, kind: type[T], *built_in: type[T], noun: str) -> None:
        self.group, self.noun, self._kind = group, noun, kind
        #: Without those of other packages, in the order in which they are shown.
        self.built_in: dict[str, type[T]] = {each.name: each for each in built_in}

    def __getitem__(self, name: str) -> type[T]:
        if name in self.built_in:
            return self.built_in[name]
        entries = metadata.entry_points(group=self.group, name=name)
        if not entries:
            raise KeyError(name)
        try:
            kind = entries[name].load()
        except Exception as error:  # noqa: BLE001  (whatever another package raises)
            raise BadExperimentError(f"the {self.noun} '{name}' cannot be loaded ({type(error).__name__})") from None
        if not (isinstance(kind, type) and issubclass(kind, self._kind) and kind.name == name):
            raise BadExperimentError(f"the entry point '{name}' of {self.group} leads to no {self.noun} of this name")
        return kind

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        others = {entry.name for entry in metadata.entry_points(group=self.group)}
        yield from sorted(others - self.built_in.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> type[T]:
        """The class of a name. Raises ``BadExperimentError`` where there is none."""
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise BadExperimentError(f"unknown {self.noun} '{name[:64]}'; known are {known}") from None


#: The range reduction uses 32 bits of the hash: at 2^24 bins the likeliest bin is 0.4 % likelier than the rarest. The
#: bias is one bin more.
MAX_BINS = 2**24
#: An update has one unit per hash; more than a handful only blurs (paper, appendix A.1).
MAX_HASHES = 16
#: Packages of one participant in one round; privacy.md's heaviest setting needs about 2,500.
MAX_BUDGET = 2**16
#: Where nobody says which share of the devices trains.
USUAL_TRAIN_SHARE = Fraction(7, 10)

BINS = Setting(
    name="bins",
    sentence="Bins of features, the bias not counted: fewer hide more, more learn more.",
    default=None,
    is_whole=True,
    at_least=1,
    at_most=MAX_BINS,
)
HASHES = Setting(
    name="hashes", sentence="Bins of one feature.", default=1, is_whole=True, at_least=1, at_most=MAX_HASHES
)
BUDGET = Setting(
    name="budget",
    sentence="B: packages that every device sends in every round; without it, as many as nearly every update needs.",
    default=None,
    is_whole=True,
    optional=True,
    at_least=2,
    at_most=MAX_BUDGET,
)
TRAIN_SHARE = Setting(
    name="train_share",
    sentence="Probability with which a device trains; the others test the model.",
    default=USUAL_TRAIN_SHARE,
    above=0,
    at_most=1,
)
