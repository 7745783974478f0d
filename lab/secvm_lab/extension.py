"""The browser extension's packages: built by node, held to a size and to a list of permissions, and linted.

A browser switches an extension off until its person agrees anew when an update asks for more than before. So what a
package asks for stands in ``packaging/permissions.json``, and a build that asks for more is refused.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.errors import BadInputError
from secvm_lab.node import link_packages, node

#: Of the scripts that are made for a package, each with all that it imports.
MOST_BUNDLED_BYTES = 150_000
_PATIENCE_S = 300
#: What the linter says and is meant so: nothing is made for Android, whose Firefox has no history for extensions.
_MEANT = frozenset({"KEY_FIREFOX_ANDROID_UNSUPPORTED_BY_MIN_VERSION"})


@dataclass(frozen=True, slots=True)
class Package:
    """What one browser gets."""

    browser: str
    #: The zip file; a folder of the browser's name beside it holds the same, unpacked.
    file: Path
    sha256: str
    bytes: int
    #: All of it, about as a browser downloads it.
    gzipped: int
    #: Of that, the scripts that are made for it.
    bundled: int
    manifest: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The same, unpacked."""
        return self.file.parent / self.browser

    @property
    def permissions(self) -> dict[str, list[str]]:
        """Everything that it asks for, or may ask for later."""
        gecko = self.manifest.get("browser_specific_settings", {}).get("gecko", {})
        collected = gecko.get("data_collection_permissions", {})
        asked = {name: sorted(listed) for name, listed in self.manifest.items() if name.endswith("permissions")}
        return asked | {"data_collection": sorted(one for listed in collected.values() for one in listed)}


def build(extension: Path, out: Path | None = None) -> list[Package]:
    """Build both packages, into ``dist`` or another folder."""
    link_packages(extension)
    told = _node(extension, "build.ts", *([] if out is None else [str(out.resolve())]))
    if told.returncode:
        raise BadInputError(f"the extension cannot be built: {told.stderr.strip()[-2000:]}")
    return [Package(**{**each, "file": Path(each["file"])}) for each in json.loads(told.stdout)]


def check(package: Package, extension: Path) -> None:
    """That it is no larger than it may be, and asks for nothing new. Raises ``BadInputError``."""
    if package.bundled > MOST_BUNDLED_BYTES:
        raise BadInputError(
            f"{package.file.name} has {package.bundled:,} bytes of scripts gzipped; a package may have"
            f" {MOST_BUNDLED_BYTES:,}",
            next_step="Find out what has grown: unzip -lv FILE.",
        )
    listed = json.loads((extension / "packaging/permissions.json").read_text(encoding="utf-8"))
    for kind, asked in package.permissions.items():
        new = sorted(set(asked) - set(listed.get(kind, [])))
        if new:
            raise BadInputError(
                f"{package.file.name} asks for {new[0]!r} as {kind}, which packaging/permissions.json does not list",
                next_step="Who updates to it is asked anew or switched off: list it only if that is meant.",
            )


def lint(package: Package, extension: Path) -> list[str]:
    """What Mozilla's linter for add-ons says of Firefox's package, a sentence each."""
    folder = extension / "lint"
    link_packages(folder)
    told = _node(folder, "node_modules/addons-linter/bin/addons-linter", "--output", "json", str(package.file))
    try:
        found = json.loads(told.stdout)
    except ValueError:
        raise BadInputError(f"the linter did not end well: {told.stderr.strip()[-2000:]}") from None
    said = [one for kind in ("errors", "warnings") for one in found[kind] if one["code"] not in _MEANT]
    return [f"{one['_type']}: {one['message']} ({one['code']}, {one.get('file') or 'manifest'})" for one in said]


def _node(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str | Path] = [node(), *arguments]
    return subprocess.run(  # noqa: S603  (node on our own files)
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
