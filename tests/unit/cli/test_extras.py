"""What a command says where packages are missing that an extra of this distribution would bring."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from secvm.cli.commands import EXTRAS
from secvm.cli.main import COMMANDS, load

_ROOT = Path(__file__).parents[3]
#: How a distribution is imported where the name differs.
_MODULES = {"scikit-learn": "sklearn"}
#: Runs command lines where no extra is installed, and prints the exit code and what was said on stderr of each.
_BARE = """
import contextlib, importlib.metadata, io, json, sys
modules, lines = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(modules))
importlib.metadata.entry_points = lambda **_: ()
from secvm.cli.main import run
for line in lines:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        code = run(line)
    print(json.dumps([code, told.getvalue()]))
"""


def _bare(*lines: list[str]) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-c", _BARE, json.dumps([sorted(EXTRAS), lines])],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_table_of_extras_is_that_of_the_distribution() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {re.split(r"[>\[]", need)[0] for need in project["dependencies"]}
    brought: dict[str, set[str]] = {}
    for extra, needs in project["optional-dependencies"].items():
        for need in needs:
            name = re.split(r"[>\[]", need)[0]
            if name not in base:
                brought.setdefault(_MODULES.get(name, name.replace("-", "_")), set()).add(extra)
    assert {name: set(extras) for name, extras in EXTRAS.items()} == brought


def test_missing_extra_is_a_sentence_with_a_hint_and_never_a_traceback(tmp_path: Path) -> None:
    people, settings = tmp_path / "people.jsonl", tmp_path / "settings.toml"
    people.write_text('{"label": "a", "features": ["x"]}\n{"label": "b", "features": ["y"]}\n')
    settings.write_text("")
    lines = {
        "estimator": [["train", str(people), "--out", str(tmp_path / "model")]],
        "coordinator": [["coordinator", "serve", "--config", str(settings)]],
        "relay": [
            ["relay", "serve", "--config", str(settings)],
            ["relay", "key", "--out", str(tmp_path / "relay.key")],
        ],
        "witness": [["witness", "serve", "--config", str(settings)]],
    }
    told = iter(_bare(*(line for several in lines.values() for line in several)))
    for extra, several in lines.items():
        for line in several:
            code, said = next(told)
            if said:
                assert code == 2, (line, said)
                assert re.fullmatch(
                    r"secvm: '?[a-z ]+'? needs the package [a-z_]+, which is not installed\n"
                    rf"In a clone of the repository: pip install '\.\[{extra}\]'\n",
                    said,
                ), (line, said)


@pytest.mark.parametrize("name", ["demo", "attack", "privacy"])
def test_command_of_the_laboratory_says_how_it_is_installed(name: str) -> None:
    lines = [["privacy", "bins"]] if name == "privacy" else [[name]]
    ((code, said),) = _bare(*lines)
    assert code == 2
    assert "is part of secvm-lab, which is not installed\n" in said
    assert said.endswith("or install it from there: pip install . ./lab\n")


def test_import_of_the_estimator_says_the_same() -> None:
    program = "import sys; sys.modules['sklearn'] = None\nfrom secvm.estimator import SecVMClassifier"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "secvm.estimator.SecVMClassifier needs the package sklearn, which is not installed" in done.stderr


@pytest.mark.parametrize("name", ["experiment", "participant", "coordinator"])
def test_lists_of_commands_are_not_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in COMMANDS
    monkeypatch.setenv("COLUMNS", "60")
    command = load(name)
    with command.make_context(name, ["--help"], resilient_parsing=True) as context:
        shown = " ".join(command.get_help(context).split())
    for entry in command.commands.values():
        assert " ".join(entry.help.partition("\n")[0].split()) in shown
