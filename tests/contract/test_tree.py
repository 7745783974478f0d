"""The tree keeps its own rules: no clock and no dice inside, what is public, what a committed file may say."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from secvm.cli.commands import Command
from secvm.cli.main import COMMANDS, load
from secvm_lab.cli import COMMANDS as ADDED
from tests.programs import ROOT, python

CLOCK_AND_DICE = (
    "import datetime\nNOW = datetime.datetime.now(datetime.UTC)",
    "import time\nNOW = time.time()",
    "import numpy as np\nDICE = np.random.default_rng(1)",
    "from numpy.random import default_rng\nDICE = default_rng(1)",
    "import random\nDICE = random.Random(1)",
    "import secrets\nDICE = secrets.token_bytes(8)",
)


@pytest.mark.parametrize(
    ("folder", "refused"),
    [("crypto", True), ("learning", True), ("people", True), ("privacy", True), ("protocol", True), ("cli", False)],
)
def test_ruff_refuses_clock_and_dice_inside(folder: str, *, refused: bool) -> None:
    command = ["ruff", "check", "--select=TID251", "--output-format=json", f"--stdin-filename=src/secvm/{folder}/t.py"]
    result = python("-m", *command, "-", cwd=ROOT, input="\n".join(CLOCK_AND_DICE))
    # Each of them has two lines.
    found = {(fault["location"]["row"] - 1) // 2 for fault in json.loads(result.stdout) if fault["code"] == "TID251"}
    assert found == (set(range(len(CLOCK_AND_DICE))) if refused else set()), result.stdout + result.stderr


# ── what is public ───────────────────────────────────────────────────────────────────────────────────────────────────

PACKAGES = sorted(
    ".".join(file.parent.relative_to(ROOT / folder).parts)
    for folder in ("src", "lab")
    for file in (ROOT / folder).rglob("__init__.py")
    if "_kernels" not in file.parts
)


@pytest.mark.parametrize("door", PACKAGES)
def test_doors_export_what_they_name(door: str) -> None:
    module = importlib.import_module(door)
    assert module.__doc__, f"{door} has no docstring"
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    for name in names:
        assert not name.startswith("_")
        assert hasattr(module, name), f"{door}.__all__ names {name}, which is not there"


@pytest.mark.parametrize("door", PACKAGES)
def test_doors_lead_where_their_docstrings_point(door: str) -> None:
    package = importlib.import_module(door)
    (folder,) = map(Path, package.__path__)
    for module, name in re.findall(r"``(\w+)\.(\w+)``", package.__doc__ or ""):
        if (folder / f"{module}.py").exists() and name != "py":
            assert hasattr(importlib.import_module(f"{door}.{module}"), name), f"{door}: {module}.{name}"


def test_estimators_are_exported() -> None:
    assert importlib.import_module("secvm.estimator").__all__


def test_persons_device_needs_no_extras() -> None:
    """The mathematics and the frame of the program import with the base dependencies alone: numba is optional."""
    modules = [
        ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for folder in ("crypto", "learning", "privacy", "protocol", "cli")
        for file in sorted((ROOT / "src/secvm" / folder).rglob("*.py"))
        if "_kernels" not in file.parts
    ]
    modules += ["secvm.people", "secvm.people.person", "secvm.people.reader"]
    program = (
        "import importlib, sys\n"
        "for name in ('numba', 'llvmlite', 'sklearn', 'scipy', 'matplotlib', 'pandas', 'joblib'):\n"
        "    sys.modules[name] = None\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    told = python("-c", program, *modules)
    assert told.returncode == 0, told.stderr


def test_package_itself_imports_nothing() -> None:
    told = python("-c", "import secvm, sys; print([n for n in sys.modules if n.startswith('secvm.')])", check=True)
    assert told.stdout == "[]\n"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from secvm.cli.main import run; run(['--help']);"
        " heavy = {'numba', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'rich', 'orjson'};"
        " print(*heavy.intersection(sys.modules), file=sys.stderr)"
    )
    told = python("-c", program, folders=("src", "lab"), check=True)
    assert told.stderr.strip() == ""


@pytest.mark.parametrize(("name", "command"), [*COMMANDS.items(), *ADDED.items()])
def test_command_summaries_are_the_commands_own(name: str, command: Command) -> None:
    told = load(name).help
    assert told is not None
    assert told.strip().partition("\n")[0].strip() == command.summary


# ── what a committed file may say ────────────────────────────────────────────────────────────────────────────────────


def committed_files() -> list[Path]:
    """Everything git would carry: what it tracks, and what it neither tracks nor ignores yet."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_committed_file_names_a_registry_or_this_machine() -> None:
    # Put together here, so that this file does not name them either.
    hosts = ["pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "index" + "-url =", "find" + "-links ="]
    places = {str(ROOT), str(Path.home()), sys.base_prefix}
    # A short place, such as / or /usr, would be found in honest text.
    patterns = [re.escape(host) for host in hosts]
    patterns += [re.escape(place) + r"(?=[/\s\"'`]|$)" for place in places if place.count("/") > 1]
    forbidden = re.compile("|".join(patterns), re.IGNORECASE)
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in committed_files()
        for match in [forbidden.search(file.read_bytes().decode("utf-8", errors="replace"))]
        if match
    ]
    assert found == []


def test_no_lock_file_that_names_registries() -> None:
    assert [file for file in committed_files() if file.name in {"uv.lock", "poetry.lock", "Pipfile.lock"}] == []
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "uv.lock" in ignored


def pins(name: str) -> dict[str, str]:
    """Read a requirements file strictly: `name==version ; marker`, then its hashes, and nothing else at all."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(
            r"(?P<pin>[a-z0-9-]+==[A-Za-z0-9.+!]+)"
            r"(?: ; (?P<marker>[^\\#@/]+?))?"
            r"(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)",
            line,
        )
        assert match, f"requirements/{name}.txt: {line[:80]}"
        found[f"{match['pin']} ; {match['marker'] or ''}"] = match["hashes"].strip()
    return found


@pytest.mark.parametrize("name", ["bootstrap", "run", "build", "dev"])
def test_requirements_are_pinned_and_name_no_place(name: str) -> None:
    assert pins(name)


@pytest.mark.parametrize("name", ["run", "build"])
def test_requirements_of_developers_hold_those_of_the_program(name: str) -> None:
    some, everything = pins(name), pins("dev")
    assert {pin.partition(" ; ")[0] for pin in some} <= {pin.partition(" ; ")[0] for pin in everything}


def test_requirements_hold_everything_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in requirements}

    extras = project["project"]["optional-dependencies"]
    asked_to_run = names(project["project"]["dependencies"] + [one for extra in extras.values() for one in extra])
    assert asked_to_run <= {pin.partition("==")[0] for pin in pins("run")}
    asked_to_develop = names(project["dependency-groups"]["dev"])
    assert asked_to_develop <= {pin.partition("==")[0] for pin in pins("dev")}
    assert names(project["build-system"]["requires"]) <= {pin.partition("==")[0] for pin in pins("build")}


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
