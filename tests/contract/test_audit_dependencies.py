"""``secvm dev audit-dependencies``: clean as it stands, and each kind of fault is found when it is put there."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from secvm.cli.dependencies import Dependencies, is_allowed
from secvm.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
HASH = "--hash=sha256:" + "0" * 64


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/secvm/learning").mkdir(parents=True)
    (tmp_path / "src/secvm/learning/fine.py").write_text("import json\n\nimport numpy\n\nimport secvm.errors\n")
    return tmp_path


def change(path: Path, pattern: str, replacement: str) -> None:
    before = path.read_text(encoding="utf-8")
    after = re.sub(pattern, replacement, before, count=1, flags=re.MULTILINE)
    assert after != before
    path.write_text(after, encoding="utf-8")


def test_what_is_pinned_here_has_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "audit-dependencies", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["faults"] == []
    assert told["database"] is False
    assert told["pins"]["dev"] > told["pins"]["run"] > 20


def test_a_copy_without_changes_has_no_fault_either(checkout: Path) -> None:
    assert Dependencies(checkout).check() == []


def without_hashes(root: Path) -> None:
    change(root / "requirements/run.txt", r"^aiohttp==(\S+) \\\n(    --hash\S+(?: \\)?\n)+", r"aiohttp==\1\n")


def from_elsewhere(root: Path) -> None:
    with (root / "requirements/dev.txt").open("a", encoding="utf-8") as file:
        file.write("evil @ https://evil.example/evil.whl " + HASH + "\n")


def not_whole(root: Path) -> None:
    change(root / "requirements/run.txt", r"^yarl==\S+ \\\n(    --hash\S+(?: \\)?\n)+", "")


def a_builder_that_is_not_pinned(root: Path) -> None:
    change(root / "requirements/build.txt", r"^pathspec==\S+ \\\n(    --hash\S+(?: \\)?\n)+", "")


def too_old_for_its_neighbour(root: Path) -> None:
    change(root / "requirements/run.txt", r"^pydantic-core==\S+", "pydantic-core==2.0.0")


def nobody_asks(root: Path) -> None:
    with (root / "requirements/run.txt").open("a", encoding="utf-8") as file:
        file.write("left-over==1.0 " + HASH + "\n")


def another_is_installed(root: Path) -> None:
    change(root / "requirements/dev.txt", r"^rich==\S+", "rich==14.9.9")


def gpl_in_the_program(root: Path) -> None:
    with (root / "requirements/run.txt").open("a", encoding="utf-8") as file:
        file.write("pymerkle==7.0.0 " + HASH + "\n")
    change(root / "pyproject.toml", r'^  "rich>=13.8",', '  "rich>=13.8",\n  "pymerkle>=7",')


def a_licence_that_is_not_allowed(root: Path) -> None:
    change(root / "requirements/policy.toml", r'"MPL-2.0", ', "")


def a_licence_that_nobody_knows(root: Path) -> None:
    change(root / "requirements/policy.toml", r"^\[packages\.atheris\]\n.*\n.*\n", "")


def another_licence_than_is_written(root: Path) -> None:
    change(root / "requirements/policy.toml", r'^licence = "GPL-3.0-or-later"', 'licence = "MIT"')


def a_known_bad_version(root: Path) -> None:
    change(root / "requirements/run.txt", r"^orjson==\S+", "orjson==3.9.14")


def a_refused_version(root: Path) -> None:
    change(root / "requirements/dev.txt", r"^importlib-metadata==\S+", "importlib-metadata==10.2.0")


def an_import_that_nobody_asked_for(root: Path) -> None:
    (root / "src/secvm/learning/sly.py").write_text("def f():\n    from requests import get\n")


def an_import_by_name(root: Path) -> None:
    (root / "src/secvm/learning/sly.py").write_text("import importlib\n\nimportlib.import_module('leftpad.core')\n")


def a_tool_in_the_program(root: Path) -> None:
    (root / "src/secvm/learning/sly.py").write_text("import hypothesis\n")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (without_hashes, "run.txt: no release with its hashes: aiohttp=="),
        (from_elsewhere, "dev.txt: no release with its hashes: evil @"),
        (not_whole, "run.txt has no yarl, which"),
        (a_builder_that_is_not_pinned, "build.txt has no pathspec, which hatchling needs"),
        (too_old_for_its_neighbour, "run.txt has pydantic-core 2.0.0, and pydantic needs"),
        (nobody_asks, "run.txt has left-over, which nobody asks for"),
        (another_is_installed, "is installed, and 14.9.9 is pinned"),
        (gpl_in_the_program, "pymerkle (GPL-3.0-or-later) is for tests alone"),
        (a_licence_that_is_not_allowed, "certifi is under MPL-2.0, which requirements/policy.toml does not allow"),
        (a_licence_that_nobody_knows, "atheris does not say its licence"),
        (another_licence_than_is_written, "pymerkle is under GPL-3.0-or-later, and requirements/policy.toml says MIT"),
        (a_known_bad_version, "orjson 3.9.14: CVE-2024-27454"),
        (a_refused_version, "importlib-metadata 10.2.0: brings a package along"),
        (an_import_that_nobody_asked_for, "sly.py imports requests"),
        (an_import_by_name, "sly.py imports leftpad"),
        (a_tool_in_the_program, "sly.py imports hypothesis"),
    ],
)
def test_each_kind_of_fault_is_found(spoil: Callable[[Path], None], sentence: str, checkout: Path) -> None:
    spoil(checkout)
    faults = Dependencies(checkout).check()
    assert [fault for fault in faults if sentence in fault], faults


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND ISC", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT OR GPL-3.0-only AND ISC", True),
        ("(GPL-3.0-only OR MIT) AND ISC", True),
        ("(GPL-3.0-only OR GPL-2.0-only) AND ISC", False),
        ("ISC WITH some-exception AND MIT", True),
        ("", False),
        ("MIT MIT", False),
    ],
)
def test_an_expression_of_licences_is_read_as_it_is_meant(expression: str, *, fine: bool) -> None:
    assert is_allowed(expression, {"MIT", "ISC"}) is fine


def test_the_check_of_all_checks_runs_it() -> None:
    # `./secvm dev check` is what continuous integration runs.
    assert '"audit-dependencies"' in (ROOT / "src/secvm/cli/dev.py").read_text(encoding="utf-8")
