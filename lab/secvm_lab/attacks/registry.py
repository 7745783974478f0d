"""All attacks: whatever is an ``Attack`` in a module of one of the four folders. Those of one story share a module."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import Any

from secvm.errors import BadInputError
from secvm_lab import attacks as folder
from secvm_lab.attacks.attack import Attack


def module_names() -> list[str]:
    """All modules of the four folders."""
    modules = pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
    return [module.name for module in modules if module.name.count(".") == folder.__name__.count(".") + 2]


def attacks() -> dict[str, Attack[Any, Any, Any]]:
    """All attacks by their names on the command line, in the order of their numbers."""
    modules = map(importlib.import_module, module_names())
    every = [value for module in modules for value in vars(module).values() if isinstance(value, Attack)]
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
