"""What is wrong with the packages that this repository pins: found offline, from the locks and what is installed.

 1. Every line of requirements/*.txt is one release with its hashes, and nothing else.
 2. Each lock is whole: whatever a pinned package needs, here, is pinned too, in a version that it takes.
 3. What is installed is what is pinned.
 4. Licences are on the list of requirements/policy.toml; exceptions are named there, with a reason.
 5. No version stands in requirements/advisories.toml.
 6. The program imports nothing but what pyproject.toml asks for; developers' packages only in ``cli`` and ``testing``.

No database of vulnerabilities is asked: the fifth knows what was written down by hand, and says so.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCKS = ("bootstrap", "run", "build", "dev")
_PIN = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[A-Za-z0-9.+!]+)(?: ; (?P<marker>[^\\#@/]+?))?"
    r"(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)"
)
#: A text of a licence is longer; its name is not.
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Pin:
    """One line of a lock."""

    name: str
    version: str
    marker: str
    hashes: int

    @property
    def is_for_here(self) -> bool:
        """Whether this Python on this machine installs it."""
        return not self.marker or Requirement(f"{self.name} ; {self.marker}").marker.evaluate()  # type: ignore[union-attr]


@dataclass
class Dependencies:
    """The locks of a checkout, and what is wrong with them."""

    root: Path
    #: One sentence each.
    faults: list[str] = field(default_factory=list)

    def check(self) -> list[str]:
        """Everything; the faults, which are none where all is well."""
        for lock in LOCKS:
            if not self.pins[lock]:
                self._fault(f"requirements/{lock}.txt pins nothing")
        self._check_whole("run", self._asked(with_dev=False))
        self._check_whole("build", [Requirement(text) for text in self._project["build-system"]["requires"]])
        self._check_whole("dev", self._asked(with_dev=True))
        self._check_installed()
        self._check_licences()
        self._check_versions()
        self._check_imports()
        return self.faults

    @cached_property
    def pins(self) -> dict[str, list[Pin]]:
        """Of each lock. A line that is none is a fault."""
        return {lock: list(self._read(lock)) for lock in LOCKS}

    def _read(self, lock: str) -> Iterator[Pin]:
        path = self.root / "requirements" / f"{lock}.txt"
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            found = _PIN.fullmatch(line)
            if found is None:
                self._fault(f"requirements/{lock}.txt: no release with its hashes: {line[:60]}")
            else:
                count = found["hashes"].count("--hash")
                yield Pin(found["name"], found["version"], (found["marker"] or "").strip(), count)

    def _fault(self, sentence: str) -> None:
        self.faults.append(sentence)

    @cached_property
    def _project(self) -> dict[str, Any]:
        return tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))

    @cached_property
    def _policy(self) -> dict[str, Any]:
        return tomllib.loads((self.root / "requirements/policy.toml").read_text(encoding="utf-8"))

    def _asked(self, *, with_dev: bool) -> list[Requirement]:
        """What pyproject.toml asks for by name."""
        project = self._project["project"]
        texts = [
            *project["dependencies"],
            *(one for extra in project["optional-dependencies"].values() for one in extra),
        ]
        texts += self._project["dependency-groups"]["dev"] if with_dev else []
        return [Requirement(text) for text in texts]

    def here(self, lock: str) -> dict[str, Pin]:
        """What a lock installs on this machine."""
        return {pin.name: pin for pin in self.pins[lock] if pin.is_for_here}

    def _check_whole(self, lock: str, asked: list[Requirement]) -> None:
        pinned, seen = self.here(lock), set[tuple[str, str]]()
        waiting = [("pyproject.toml", one, "") for one in asked]
        while waiting:
            who, wanted, extra = waiting.pop()
            name = canonicalize_name(wanted.name)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            if name not in pinned:
                self._fault(f"requirements/{lock}.txt has no {name}, which {who} needs")
                continue
            if not wanted.specifier.contains(pinned[name].version, prereleases=True):
                self._fault(
                    f"requirements/{lock}.txt has {name} {pinned[name].version}, and {who} needs {wanted.specifier}"
                )
            for more in {"", *wanted.extras}:
                if (name, more) not in seen:
                    seen.add((name, more))
                    waiting += [(name, one, more) for one in _needs(name)]
        for left in sorted(set(pinned) - {name for name, _ in seen}):
            self._fault(f"requirements/{lock}.txt has {left}, which nobody asks for")

    def _check_installed(self) -> None:
        for name, pin in [*self.here("build").items(), *self.here("dev").items()]:
            found = _distribution(name)
            if found is None:
                self._fault(f"{name} is pinned and not installed")
            elif Version(found.version) != Version(pin.version):
                self._fault(f"{name} {found.version} is installed, and {pin.version} is pinned")

    def _check_licences(self) -> None:
        rules, run = self._policy, self.here("run")
        allowed, spelled = set(rules["licences"]["allowed"]), rules["licences"]["spelled"]
        for name in self.here("dev"):
            said = _licence(name, spelled)
            exception = rules["packages"].get(name)
            if exception is not None:
                if exception.get("only") == "dev" and name in run:
                    self._fault(f"{name} ({exception['licence']}) is for tests alone, and in requirements/run.txt")
                if said and said != exception["licence"]:
                    self._fault(f"{name} is under {said}, and requirements/policy.toml says {exception['licence']}")
            elif not said:
                self._fault(f"{name} does not say its licence; say it in requirements/policy.toml")
            elif not is_allowed(said, allowed):
                self._fault(f"{name} is under {said}, which requirements/policy.toml does not allow")
        for name in sorted(set(rules["packages"]) - {pin.name for pin in self.pins["dev"]}):
            self._fault(f"requirements/policy.toml speaks of {name}, which is not pinned")

    def _check_versions(self) -> None:
        told = tomllib.loads((self.root / "requirements/advisories.toml").read_text(encoding="utf-8"))
        for lock in LOCKS:
            for pin in self.pins[lock]:
                for one in told.get("advisories", []):
                    if pin.name == one["package"] and Version(pin.version) < Version(one["below"]):
                        self._fault(f"requirements/{lock}.txt: {pin.name} {pin.version}: {one['id']}, {one['reason']}")
                for one in told.get("refused", []):
                    if pin.name == one["package"] and Version(pin.version) >= Version(one["from"]):
                        self._fault(f"requirements/{lock}.txt: {pin.name} {pin.version}: {one['reason']}")

    def _check_imports(self) -> None:
        program = {canonicalize_name(one.name) for one in self._asked(with_dev=False)}
        tools = {canonicalize_name(one.name) for one in self._asked(with_dev=True)}
        companions = self._policy["companions"]
        owners = _owners()
        for module, file in imported(self.root / "src"):
            where = file.relative_to(self.root)
            # Developers' commands and what tests are made of may use developers' packages.
            asked = tools if {"cli", "testing"} & set(where.parts) else program
            names = {canonicalize_name(name) for name in owners.get(module, [])} or {canonicalize_name(module)}
            if not any(name in asked or companions.get(name) in asked for name in names):
                self._fault(f"{where} imports {module}, which pyproject.toml does not ask for")
        for name, bringer in companions.items():
            if name not in {canonicalize_name(one.name) for one in _needs(bringer)}:
                self._fault(f"requirements/policy.toml: {bringer} does not bring {name}")


def imported(source: Path) -> list[tuple[str, Path]]:
    """Modules outside of Python and of the package that a file of it imports, at any depth of the code."""
    found = set[tuple[str, Path]]()
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and node.args:
                value = getattr(node.args[0], "value", None)
                names = [value] if isinstance(value, str) else []
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "secvm":
                    found.add((top, file))
    return sorted(found)


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met with the allowed licences alone."""
    words = re.findall(r"[()]|[^\s()]+", expression)

    def either() -> bool:
        found = both()
        while words and words[0] == "OR":
            words.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while words and words[0] == "AND":
            words.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        word = words.pop(0) if words else ""
        if word == "(":
            found = either()
            if words:
                words.pop(0)
            return found
        if words and words[0] == "WITH":
            # An exception gives more rights, never fewer.
            del words[:2]
        return word in allowed

    return either() and not words


@cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@cache
def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def _needs(name: str) -> list[Requirement]:
    found = _distribution(name)
    return [] if found is None else [Requirement(text) for text in found.requires or []]


def _licence(name: str, spelled: dict[str, str]) -> str:
    """What a package says of its licence, as an SPDX expression; nothing where it says nothing that is known."""
    found = _distribution(name)
    if found is None:
        return ""
    told: Any = found.metadata
    if expression := told.get("License-Expression"):
        return str(expression)
    short = (told.get("License") or "").strip()
    if short and len(short) <= _LONGEST_NAME:
        return spelled.get(short, short)
    named = [line.rpartition(" :: ")[2] for line in told.get_all("Classifier", []) if line.startswith("License ::")]
    return " AND ".join(spelled.get(one, one.replace(" ", "-")) for one in named)
