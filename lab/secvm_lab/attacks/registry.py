"""All attacks: each module ``aNN_….py`` has one, ``ATTACK``; modules of ``relayed`` have several, ``TRAPS``."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from typing import Any

from secvm.errors import BadInputError
from secvm_lab import attacks as folder
from secvm_lab.attacks.attack import Attack

_MODULE = re.compile(r"a(\d\d)_[a-z0-9_]+")
#: Modules of ``relayed`` with attacks; its others are their stage.
RELAYED = ("counts", "devices", "documents", "isolation", "keeping")


def module_names() -> list[str]:
    """The modules of all attacks that have one of their own, with their folders, in the order of their numbers."""
    modules = pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
    return sorted(
        (module.name for module in modules if _MODULE.fullmatch(module.name.rpartition(".")[2])),
        key=lambda name: name.rpartition(".")[2],
    )


def attacks() -> dict[str, Attack[Any, Any, Any]]:
    """All attacks by their names on the command line, in the order of their numbers."""
    every = [importlib.import_module(name).ATTACK for name in module_names()]
    for name in RELAYED:
        every += importlib.import_module(f"{folder.__name__}.relayed.{name}").TRAPS
    return {attack.slug: attack for attack in sorted(every, key=lambda attack: attack.number)}


def find(name: str) -> Attack[Any, Any, Any]:
    """An attack by its slug, its number ("A4", "4") or its whole name."""
    every = attacks()
    wanted = name.strip().lower()
    for attack in every.values():
        if wanted in {
            attack.slug,
            f"a{attack.number}",
            f"a{attack.number:02}",
            str(attack.number),
            attack.name.lower(),
        }:
            return attack
    near = difflib.get_close_matches(wanted, every, n=1)
    hint = f"Did you mean {near[0]}?" if near else "'secvm attack list' names them all."
    raise BadInputError(f"there is no attack '{name}'", next_step=hint)
