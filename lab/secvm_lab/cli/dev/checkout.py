"""The checkout that this program runs from, and running Python tools in it; an installed package has none."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from secvm.errors import BadInputError

_STDERR = 2


def find_or_refuse() -> Path:
    """Find the checkout that this file lies in: ``lab/secvm_lab`` below a launcher and a pyproject.toml."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "pyproject.toml").is_file() or not (root / "secvm").is_file():
        raise BadInputError(
            "this command works on a checkout of the repository, and this is an installed package",
            next_step="Clone the repository and use its launcher, ./secvm.",
        )
    return root


def call(
    arguments: Sequence[str],
    root: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    beside_result: bool = False,
) -> int:
    """Run Python with these arguments in the checkout and return its exit code.

    ``environment``: variables beside those of this process. ``beside_result``: what it prints goes to stderr, because
    stdout is for this command's own result.
    """
    try:
        return subprocess.run(  # noqa: S603  (the arguments are ours or the developer's own)
            [sys.executable, *arguments],
            cwd=root,
            env={**os.environ, **environment},
            stdout=_STDERR if beside_result else None,
            check=False,
        ).returncode
    except KeyboardInterrupt:
        return 130


def tool(*arguments: str) -> list[str]:
    """Arguments with which Python runs an installed tool, and no file of that name in the folder."""
    return ["-P", "-m", *arguments]
