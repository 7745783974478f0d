"""Kinds of rules and losses by name: the built-in ones, and those of installed packages.

A package offers one by an entry point in the registry's group that leads to its class:

    [project.entry-points."secvm.rules"]
    signs = "my_package:Signs"

It is imported when it is asked for by name, or when all are listed. A built-in name cannot be taken. Only what is
installed beside this package is found: a document that names anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import ClassVar, Generic, Protocol, TypeVar

from secvm.errors import BadExperimentError


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
