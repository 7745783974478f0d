"""The package as other people get it: built, installed somewhere else, and run from there."""

import email
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path, folder: Path, **environment: str) -> Path:
    """Build with what is already installed: nothing is fetched."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(root)]
    inherited = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**inherited, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in it, far from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    what = ["--no-deps", "--no-index", "--quiet", "--target", str(folder), str(wheel)]
    has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    installer = ["pip", "install"] if has_pip.returncode == 0 else ["uv", "pip", "install"]
    subprocess.run([sys.executable, "-m", *installer, *what], check=True)
    return folder


def run_installed(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The script that `pip install` makes does just this. Of this environment it sees the dependencies only.
    start = "import sys; sys.argv[0] = 'secvm'; from secvm.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", start, *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "secvm/py.typed" in names
    assert "secvm/cli/main.py" in names
    # What pages are made of, and the planner's table: not Python, and needed.
    kinds = {".css", ".html", ".js", ".json", ".sql", ".svg"}
    beside = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.suffix in kinds}
    assert {"secvm/pages/static/look.css", "secvm/dashboard/static/shell.html"} <= beside <= set(names)
    assert {name.partition("/")[0] for name in names} == {"secvm", wheel.name.rsplit("-", 3)[0] + ".dist-info"}
    assert not [name for name in names if "test_" in name or name.endswith((".nbi", ".nbc", ".pyc"))]
    # Nothing of the laboratory, but what others test against.
    assert "secvm/testing/federation.py" in names
    assert not [name for name in names if re.search(r"lab[_/.-]|fuzz|chaos|simulat|attacks|soak|screenshot", name)]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_the_same_tree_gives_the_same_bytes_elsewhere_and_later(wheel: Path, tmp_path: Path) -> None:
    """So that anybody can build what was published, and compare. SOURCE_DATE_EPOCH changes the times alone."""
    copy = tmp_path / "somewhere else"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, copy)
    for number, path in enumerate(sorted(copy.rglob("*"))):
        # Files as another checkout has them: other times, nobody else's to read.
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    again = build(copy, tmp_path / "again")
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()
    dated = build(copy, tmp_path / "dated", SOURCE_DATE_EPOCH="1600000000")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(dated) as other:
        assert {info.date_time[:3] for info in other.infolist()} == {(2020, 9, 13)}
        assert [(i.filename, i.CRC) for i in one.infolist()] == [(i.filename, i.CRC) for i in other.infolist()]


def test_wheel_says_what_each_party_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    needs = metadata.get_all("Requires-Dist", [])
    always = {need.partition(">")[0] for need in needs if "extra ==" not in need}
    assert always == {"aiohttp", "cryptography", "numpy", "orjson", "py-arkworks-bls12381", "pydantic", "rich", "typer"}
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "coordinator",
        "dashboard",
        "postgres",
        "estimator",
        "plots",
        "relay",
        "tokens",
        "witness",
    }


def test_installed_program_tells_its_version(installed: Path) -> None:
    told = run_installed(installed, "--version")
    assert (told.returncode, told.stderr) == (0, "")
    (metadata,) = installed.glob("secvm-*.dist-info")
    assert told.stdout == f"secvm {metadata.name.removeprefix('secvm-').removesuffix('.dist-info')}\n"


def test_installed_program_tells_its_help(installed: Path) -> None:
    told = run_installed(installed, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("Usage: secvm ")


@pytest.mark.parametrize("command", [["dev", "check"], ["test"]])
def test_installed_program_says_which_commands_the_laboratory_brings(installed: Path, command: list[str]) -> None:
    told = run_installed(installed, *command)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.startswith(f"secvm: 'secvm {command[0]}' is part of secvm-lab, which is not installed\n")
    assert "Traceback" not in told.stderr


ROUND = """
import json, sys
from pathlib import Path

import secvm
from secvm.testing.federation import Federation, HostOf, Pace

folder = Path(sys.argv[1])
people = folder / "people.jsonl"
people.write_text("".join(
    json.dumps({"label": label, "features": [label, f"word-{number}"]}) + "\\n"
    for number in range(3) for label in ("north", "south")
))
question = {
    "title": "From a wheel", "labels": ["north", "south"], "floor": 1, "rounds": 1, "budget": 6,
    "train_share": 0.9, "features": {"source": "words"}, "binning": {"bins": 20},
}
pace = Pace(length_s=30, grace_s=4, lead_s=10, rate=12.0)
with Federation(folder, hosts=[HostOf(people, 0, 6)], seed="of a wheel", pace=pace) as federation:
    federation.start_servers()
    federation.begin(question)
    counts, _ = federation.play_round(1, attending=6, budget=6)
print(json.dumps({
    "package": secvm.__path__[0], "joined": counts.joined, "acknowledged": counts.acknowledged,
    "laboratory": sorted(name for name in sys.modules if name.startswith("secvm_lab")),
}))
"""


def test_devices_installed_from_the_wheel_join_and_take_part_in_a_round(installed: Path, tmp_path: Path) -> None:
    """Every party of it runs from the wheel, without secvm-lab."""
    told = subprocess.run(
        [sys.executable, "-P", "-c", ROUND, str(tmp_path)],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {
        "package": str(installed / "secvm"),
        "joined": 6,
        "acknowledged": 36,
        "laboratory": [],
    }
