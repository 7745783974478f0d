"""The package as other people get it: built, installed somewhere else, and run from there."""

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with what is already installed: nothing is fetched."""
    root = Path(__file__).resolve().parents[2]
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(root)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    return file


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
    assert {name.partition("/")[0] for name in names} == {"secvm", wheel.name.rsplit("-", 3)[0] + ".dist-info"}
    assert not [name for name in names if "test_" in name or name.endswith((".nbi", ".nbc", ".pyc"))]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_wheel_says_what_each_party_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    needs = metadata.get_all("Requires-Dist", [])
    always = {need.partition(">")[0] for need in needs if "extra ==" not in need}
    assert always == {"aiohttp", "cryptography", "numpy", "orjson", "py-arkworks-bls12381", "pydantic", "rich", "typer"}
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "coordinator",
        "dask",
        "lanes",
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


@pytest.mark.parametrize("command", [["dev", "check"], ["test"], ["bench"]])
def test_installed_program_says_which_commands_need_a_checkout(installed: Path, command: list[str]) -> None:
    told = run_installed(installed, *command)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.startswith("secvm: this command works on a checkout")
    assert "Traceback" not in told.stderr
