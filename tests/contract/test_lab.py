"""Two distributions: secvm alone has nothing of the laboratory, and secvm-lab hangs itself in."""

import configparser
import re
import subprocess
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from secvm.cli.commands import IN_LABORATORY
from secvm.cli.main import COMMANDS
from secvm_lab.cli import COMMANDS as ADDED
from tests.programs import ROOT, python

LAB = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))["project"]
PRODUCT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def alone(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run ``secvm`` where secvm-lab is not installed."""
    return python("-m", "secvm.cli.main", *arguments)


def built(project: Path, folder: Path) -> zipfile.ZipFile:
    done = python("-m", "build", "--no-isolation", "--wheel", "--outdir", folder, project)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def points(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(delimiters="=")
    parser.read_string(text)
    return {group: dict(parser[group]) for group in parser.sections()}


def test_wheel_of_the_laboratory_says_what_a_checkout_says(tmp_path: Path) -> None:
    """A checkout is found by the dist-info that is committed; an install by the one in the wheel."""
    folder = f"secvm_lab-{LAB['version']}.dist-info"
    committed = ROOT / "lab" / folder
    with built(ROOT / "lab", tmp_path) as wheel:
        names = wheel.namelist()
        there = points(wheel.read(f"{folder}/entry_points.txt").decode())
        metadata = message_from_bytes(wheel.read(f"{folder}/METADATA"))
    assert points((committed / "entry_points.txt").read_text(encoding="utf-8")) == there == LAB["entry-points"]
    beside = message_from_bytes((committed / "METADATA").read_bytes())
    assert [beside[key] for key in ("Name", "Version")] == [metadata[key] for key in ("Name", "Version")]
    assert {name.partition("/")[0] for name in names} == {"secvm_lab", folder}
    assert "secvm_lab/py.typed" in names


def test_both_distributions_have_one_version_and_their_pins_are_of_both() -> None:
    (product,) = LAB["dependencies"]
    assert product.endswith(f"=={PRODUCT['project']['version']}")
    assert LAB["version"] == PRODUCT["project"]["version"]
    assert PRODUCT["dependency-groups"]["lab"] == LAB["optional-dependencies"]["dask"]


def test_help_without_the_laboratory_lists_the_products_commands_alone() -> None:
    told = alone("--help")
    assert told.stderr == ""
    assert re.findall(r"^  ([a-z]+)  ", told.stdout.partition("Commands:")[2], re.MULTILINE) == list(COMMANDS)


def test_products_list_of_the_laboratorys_commands_is_the_laboratorys() -> None:
    assert frozenset(ADDED) == IN_LABORATORY
    assert not set(ADDED) & set(COMMANDS)


@pytest.mark.parametrize("command", sorted(IN_LABORATORY))
def test_command_of_the_laboratory_says_where_it_is(command: str) -> None:
    told = alone(*command.split(), "--help")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == (
        f"secvm: 'secvm {command}' is part of secvm-lab, which is not installed\n"
        "Call ./secvm in a clone of the repository, or install it from there: pip install . ./lab\n"
    )


def test_noise_for_comparison_says_where_it_is(tmp_path: Path) -> None:
    people = tmp_path / "people.jsonl"
    people.write_text('{"label": "a", "features": ["x"]}\n{"label": "b", "features": ["y"]}\n', encoding="utf-8")
    told = alone("train", str(people), "--epsilon", "1", "--bins", "10", "--noise", "central")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("secvm: --noise central is part of secvm-lab, which is not installed\n")
