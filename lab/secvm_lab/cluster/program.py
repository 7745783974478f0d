"""What runs on a machine: all that has to be the same on each of them for results to be.

A version number is not enough: two checkouts between releases have the same. So the sources have a digest.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import secvm
import secvm_lab

#: Which arithmetic there is, and what pickles and messages look like.
_PACKAGES = ("numpy", "numba", "dask", "distributed")

Program = dict[str, str]


@cache
def _digest() -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for package in (secvm, secvm_lab):
        folder = Path(*package.__path__)
        for source in sorted(folder.rglob("*.py")):
            hasher.update(f"{package.__name__} {source.relative_to(folder)}\n{source.stat().st_size}\n".encode())
            hasher.update(source.read_bytes())
    return hasher.hexdigest()


def this_program() -> Program:
    """What runs in this process, by name."""
    found = {"SecVM with the digest": _digest(), "Python": ".".join(str(n) for n in sys.version_info[:2])}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "(missing)"
    return found


def difference(there: Program, here: Program) -> str | None:
    """The first thing that is not the same, as the middle of a sentence; None: all is."""
    for name in here:
        if there.get(name) != here[name]:
            return f"runs {name} {there.get(name, '(missing)')}, and this machine {here[name]}"
    return None
