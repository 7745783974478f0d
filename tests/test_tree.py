"""The tree keeps its own rules: who imports whom, what is public, what a committed file may say."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from secvm.cli import dev
from secvm.cli.main import COMMANDS, load

ROOT = Path(__file__).resolve().parents[1]

# ── who may import whom ──────────────────────────────────────────────────────────────────────────────────────────────

LINT = (
    "import sys; from importlinter.cli import lint_imports;"
    " sys.exit(lint_imports(limit_to_contracts=tuple(sys.argv[1:]), no_cache=True, no_logo=True))"
)


@pytest.fixture
def copied_source(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        [sys.executable, "-P", "-c", LINT, *contracts],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_contracts_hold(copied_source: Path) -> None:
    result = lint_imports(copied_source)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("contract", "files"),
    [
        pytest.param("layers", {"learning/t.py": "import secvm.protocol"}, id="learning imports protocol"),
        pytest.param("layers", {"learning/t.py": "import secvm.crypto"}, id="learning imports crypto"),
        pytest.param("layers", {"crypto/t.py": "import secvm.learning"}, id="crypto imports learning"),
        pytest.param("layers", {"crypto/t.py": "import secvm.protocol"}, id="crypto imports protocol"),
        pytest.param("layers", {"privacy/t.py": "import secvm.protocol"}, id="privacy imports protocol"),
        pytest.param("layers", {"learning/t.py": "import secvm.privacy"}, id="learning imports privacy"),
        pytest.param("layers", {"crypto/t.py": "import secvm.privacy"}, id="crypto imports privacy"),
        *(
            pytest.param("privacy", {"privacy/t.py": f"import secvm.{other}"}, id=f"privacy learns of {other}")
            for other in ("crypto", "protocol", "people", "runtime")
        ),
        *(
            pytest.param("pure", {"privacy/t.py": f"import {name}"}, id=f"privacy imports {name}")
            for name in ("os", "random", "secrets", "socket", "time", "pathlib")
        ),
        pytest.param("sklearn", {"privacy/t.py": "import scipy.stats"}, id="privacy needs more than a device"),
        pytest.param("printing", {"privacy/t.py": "import rich"}, id="privacy talks to terminals"),
        pytest.param("layers", {"protocol/t.py": "import secvm.people"}, id="protocol imports people"),
        pytest.param(
            "boundary_protocol",
            {"protocol/t.py": "import secvm.learning.individual.dice"},
            id="what travels imports the side of one person",
        ),
        pytest.param("pure", {"protocol/t.py": "import time"}, id="protocol has a clock"),
        pytest.param("pure", {"protocol/t.py": "import socket"}, id="protocol goes online"),
        pytest.param("pure", {"crypto/t.py": "import secrets"}, id="crypto has dice"),
        pytest.param("estimator", {"estimator/t.py": "import secvm.protocol"}, id="the estimator speaks the protocol"),
        pytest.param("layers", {"learning/t.py": "import secvm.people"}, id="learning imports people"),
        *(
            pytest.param("layers", {f"{one}/t.py": f"import secvm.{other}"}, id=f"{one} imports {other}")
            for one, other in (
                ("participant", "coordinator"),
                ("participant", "relay"),
                ("relay", "coordinator"),
                ("coordinator", "relay"),
                ("coordinator", "participant"),
                ("coordinator", "estimator"),
                ("coordinator", "witness"),
                ("witness", "coordinator"),
                ("coordinator", "auditor"),
                ("auditor", "coordinator"),
                ("auditor", "participant"),
                ("auditor", "relay"),
                ("runtime", "relay"),
                ("runtime", "people"),
            )
        ),
        *(
            pytest.param("relay", {f"{folder}/t.py": f"import secvm.{other}"}, id=f"{folder} learns of {other}")
            for folder in ("relay", "runtime")
            for other in ("learning.package", "protocol.codec")
        ),
        *(
            pytest.param("witness", {"witness/t.py": f"import {other}"}, id=f"the witness learns of {other}")
            for other in (
                "numpy",
                "secvm.learning.package",
                "secvm.people",
                "secvm.protocol.log",
                "secvm.protocol.manifest",
            )
        ),
        pytest.param(
            "coordinator",
            {"coordinator/t.py": "import secvm.learning.individual.update"},
            id="the coordinator learns of one person",
        ),
        pytest.param("participant", {"participant/t.py": "import httptools"}, id="a device brings a server along"),
        pytest.param("sealing", {"crypto/t.py": "import secvm.learning.package"}, id="sealing learns of packages"),
        pytest.param("ciphers", {"learning/t.py": "import cryptography"}, id="ciphers outside crypto"),
        pytest.param("dask", {"estimator/t.py": "import distributed"}, id="the estimator goes to many machines"),
        pytest.param("dask", {"coordinator/t.py": "import dask"}, id="the coordinator runs what it is sent"),
        pytest.param("postgres", {"coordinator/t.py": "import psycopg"}, id="a coordinator goes past its store"),
        pytest.param("postgres", {"testing/t.py": "import psycopg"}, id="tests go past the pool"),
        pytest.param("ciphers", {"runtime/t.py": "import py_arkworks_bls12381"}, id="pairings outside crypto"),
        *(
            pytest.param("pure", {"crypto/t.py": f"import {name}"}, id=f"crypto imports {name}")
            for name in ("socket", "secrets", "os", "time", "pathlib")
        ),
        pytest.param("layers", {"people/t.py": "import secvm.estimator"}, id="people imports estimator"),
        pytest.param("layers", {"estimator/t.py": "import secvm.cli"}, id="estimator imports cli"),
        pytest.param("layers", {"errors.py": "import secvm.learning"}, id="errors imports anything"),
        pytest.param("layers", {"gossip/__init__.py": ""}, id="a new folder without a place"),
        pytest.param(
            "boundary",
            {"learning/aggregate/t.py": "import secvm.learning.individual"},
            id="the side of counts imports the side of one person",
        ),
        pytest.param(
            "boundary_back",
            {"learning/individual/t.py": "import secvm.learning.aggregate"},
            id="the side of one person imports the side of counts",
        ),
        pytest.param(
            "boundary",
            {
                "learning/bridge.py": "import secvm.learning.individual",
                "learning/aggregate/t.py": "def f():\n    import secvm.learning.bridge",
            },
            id="the two sides joined by a third, inside a function",
        ),
        *(
            pytest.param("pure", {"learning/t.py": f"import {name}"}, id=f"learning imports {name}")
            for name in (
                "socket",
                "sqlite3",
                "asyncio",
                "urllib.request",
                "random",
                "secrets",
                "time",
                "datetime",
                "os",
            )
        ),
        pytest.param("kernels", {"learning/t.py": "import numba"}, id="numba outside _kernels"),
        pytest.param("kernels", {"estimator/t.py": "from numba import njit"}, id="numba in the estimator"),
        pytest.param("sklearn", {"people/t.py": "import sklearn.svm"}, id="people imports scikit-learn"),
        pytest.param("sklearn", {"learning/_kernels/t.py": "import scipy"}, id="kernels import scipy"),
        pytest.param("estimator", {"estimator/t.py": "import urllib.request"}, id="the estimator goes online"),
        pytest.param("printing", {"people/t.py": "import typer"}, id="people talks to terminals"),
        pytest.param("printing", {"auditor/t.py": "import rich"}, id="the auditor talks to terminals"),
        pytest.param("sklearn", {"auditor/t.py": "import scipy"}, id="an auditor needs more than a device"),
        pytest.param(
            "acyclic",
            {"people/s.py": "import secvm.people.t", "people/t.py": "import secvm.people.s"},
            id="two neighbours import each other",
        ),
    ],
)
def test_import_contracts_refuse_trespass(copied_source: Path, contract: str, files: dict[str, str]) -> None:
    for name, line in files.items():
        file = copied_source / "src/secvm" / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a", encoding="utf-8") as source:
            source.write(f"\n{line}\n")
    result = lint_imports(copied_source, contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout or "exhaustive" in result.stdout.lower()


@pytest.mark.parametrize(
    "line",
    [
        "import datetime\n\nNOW = datetime.datetime.now(datetime.UTC)",
        "import time\n\nNOW = time.time()",
        "import numpy as np\n\nDICE = np.random.default_rng(1)",
        "from numpy.random import default_rng\n\nDICE = default_rng(1)",
        "import random\n\nDICE = random.Random(1)",
        "import secrets\n\nDICE = secrets.token_bytes(8)",
    ],
)
@pytest.mark.parametrize(
    ("folder", "refused"),
    [("crypto", True), ("learning", True), ("people", True), ("privacy", True), ("protocol", True), ("cli", False)],
)
def test_ruff_refuses_clock_and_dice_inside(line: str, folder: str, *, refused: bool) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select=TID251", f"--stdin-filename=src/secvm/{folder}/t.py", "-"],
        cwd=ROOT,
        input=line + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("TID251" in result.stdout) == refused, result.stdout + result.stderr


# ── what is public ───────────────────────────────────────────────────────────────────────────────────────────────────

PACKAGES = sorted(
    ".".join(file.parent.relative_to(ROOT / "src").parts)
    for file in (ROOT / "src/secvm").rglob("__init__.py")
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
    folder = ROOT / "src" / Path(*door.split("."))
    for module, name in re.findall(r"``(\w+)\.(\w+)``", importlib.import_module(door).__doc__ or ""):
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
    told = subprocess.run(
        [sys.executable, "-P", "-c", program, *modules],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert told.returncode == 0, told.stderr


def test_package_itself_imports_nothing() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import secvm, sys; print([n for n in sys.modules if n.startswith('secvm.')])"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert told.stdout == "[]\n"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from secvm.cli.main import run; run(['--help']);"
        " heavy = {'numba', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'rich', 'orjson'};"
        " print(*heavy.intersection(sys.modules), file=sys.stderr)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert told.stderr.strip() == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_command_summaries_are_the_commands_own(name: str) -> None:
    command = load(name)
    assert command.help is not None
    assert command.help.strip().partition("\n")[0].strip() == COMMANDS[name].summary


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


@pytest.mark.parametrize("name", ["bootstrap", "run", "dev"])
def test_requirements_are_pinned_and_name_no_place(name: str) -> None:
    assert pins(name)


def test_requirements_of_developers_hold_those_of_the_program() -> None:
    run, everything = pins("run"), pins("dev")
    assert {pin.partition(" ; ")[0] for pin in run} <= {pin.partition(" ; ")[0] for pin in everything}


def test_requirements_hold_everything_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in requirements}

    extras = project["project"]["optional-dependencies"]
    asked_to_run = names(project["project"]["dependencies"] + [one for extra in extras.values() for one in extra])
    assert asked_to_run <= {pin.partition("==")[0] for pin in pins("run")}
    asked_to_develop = names(project["dependency-groups"]["dev"])
    assert asked_to_develop <= {pin.partition("==")[0] for pin in pins("dev")}


# ── what the README shows ────────────────────────────────────────────────────────────────────────────────────────────

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("command", "shown"), dev.help_blocks(README))
def test_readme_shows_the_real_help(command: str, shown: str) -> None:
    assert shown == dev.real_help(command), "run ./secvm dev fix"


def test_help_blocks_are_found_and_renewed() -> None:
    page = "before\n\n<!-- help: secvm dev lock -->\n```text\nold\n```\n\n```\nother\n```\n"
    assert dev.help_blocks(page) == [("secvm dev lock", "old\n")]
    renewed = dev.with_real_help(page)
    assert dev.help_blocks(renewed) == [("secvm dev lock", dev.real_help("secvm dev lock"))]
    assert renewed.startswith("before\n")
    assert renewed.endswith("```\n\n```\nother\n```\n")


def test_every_help_mark_has_its_block() -> None:
    assert README.count("<!-- help:") == len(dev.help_blocks(README))


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
