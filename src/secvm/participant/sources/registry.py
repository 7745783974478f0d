"""Which sources there are: the built-in ones, and those of plug-ins.

A plug-in is a Python package with an entry point in the group ``secvm.sources`` that leads to a ``Source`` or to
something that makes one when called without arguments. It is imported only when sources are listed or it is asked for
by name. A built-in source cannot be replaced: its name is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from typing import TypeVar

from secvm.errors import BadInputError, SecVMError
from secvm.participant.sources.browsers import HISTORIES
from secvm.participant.sources.own_files import Lines, PeopleFile, Table
from secvm.participant.sources.port import Options, Source
from secvm.participant.storage.vault import Provenance, Vault

T = TypeVar("T")

#: The group of plug-ins' entry points.
GROUP = "secvm.sources"
_BUILT_IN: tuple[Source, ...] = (*HISTORIES.values(), PeopleFile(), Table(), Lines())


def list_sources() -> dict[str, str]:
    """Every source by name, with its sentence; of a plug-in that cannot be loaded, that."""
    sentences = {source.name: source.about for source in _BUILT_IN}
    for name in sorted(entry.name for entry in metadata.entry_points(group=GROUP)):
        if name in sentences:
            continue
        try:
            sentences[name] = find_source(name).about
        except BadInputError:
            sentences[name] = "A plug-in that cannot be loaded."
    return sentences


def find_source(name: str) -> Source:
    """The source of a name."""
    for source in _BUILT_IN:
        if source.name == name:
            return source
    entries = metadata.entry_points(group=GROUP, name=name)
    if not entries:
        raise BadInputError(
            f"there is no source '{name[:64]}' to read from; secvm participant import --list shows which there are",
            next_step=f"What you have in a file of your own is kept under that name with: {how_to_import(name[:64])}",
        )
    return _guarded(
        lambda: _made(entries[name].load()),
        f"the plug-in of the source '{name}' cannot be loaded",
        next_step=f"Import it by itself to see why: python -c 'import {entries[name].module}'",
    )


def how_to_import(wanted: str) -> str:
    """The command that brings in what an experiment wants: by its source, or from a file that is kept as it."""
    if wanted in HISTORIES or wanted in {entry.name for entry in metadata.entry_points(group=GROUP)}:
        return f"secvm participant import {wanted}"
    if any(wanted == source.name for source in _BUILT_IN):
        return f"secvm participant import {wanted} FILE"
    return f"secvm participant import csv FILE --as {wanted}"


def _made(loaded: object) -> Source:
    if isinstance(loaded, type) or (callable(loaded) and not isinstance(loaded, Source)):
        loaded = loaded()
    if not isinstance(loaded, Source):
        raise BadInputError("the plug-in's entry point leads to no source: that has name, about and read(options)")
    return loaded


def import_from(source: Source, options: Options, vault: Vault, *, keep_as: str | None = None) -> int:
    """Read a source and keep what it gives in the vault, in place of what it gave before; say how many features.

    What the vault excludes is left out. A source that gives nothing is an error, and the vault stays as it is: a wrong
    path must not empty it.
    """
    excluded = vault.excluded()
    options = replace(options, excluded=excluded)
    read = _guarded(lambda: source.read(options), f"the source '{source.name}' failed")
    features = {name: value for name, value in read.items() if value and name not in excluded}
    if not features:
        raise BadInputError("the source gave no features; the vault is as it was")
    vault.put(keep_as or source.name, features, Provenance(source.name, options.now, options.whole("days")))
    return len(features)


def _guarded(action: Callable[[], T], sentence: str, *, next_step: str | None = None) -> T:
    """Call what may be a stranger's: its complaint becomes one sentence, because its own may quote what it read."""
    try:
        return action()
    except SecVMError:
        raise
    except Exception as error:  # noqa: BLE001  (whatever a plug-in raises)
        kind = type(error).__name__
    raise BadInputError(f"{sentence} ({kind})", next_step=next_step)
