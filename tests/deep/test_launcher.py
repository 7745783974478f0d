"""The launcher on machines of several kinds, with a stand-in for Python that installs nothing and writes down what it
was asked for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Does as Python does, but for making environments and installing into them. Switches are files in $SWITCHES.
STAND_IN = """#!/usr/bin/env bash
ask() { [[ -e "$SWITCHES/$1" ]]; }
log() { printf '%s\\n' "$*" >>"$SWITCHES/log"; }
case "$*" in
  "-c import ensurepip, venv") ! ask no-ensurepip ;;
  "-m virtualenv "*) exit 1 ;;
  "-m pip --version") ! ask no-pip ;;
  "-m uv --version") true ;;
  "-m pip config list") cat "$SWITCHES/pip-config" 2>/dev/null ;;
  "-m venv "*)
    log "$*"
    for folder; do :; done
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
  "-m pip --python "*) log "pip into venv" ;;
  "-m pip install "*bootstrap.txt*) log "pip installs uv" ;;
  "-m pip install "*) log "pip installs"; ! ask pip-fails ;;
  "-m uv pip install "*)
    log "uv installs, index ${UV_DEFAULT_INDEX:-default}"
    sleep 0.3
    if ask interrupt; then rm "$SWITCHES/interrupt"; kill -9 "$PPID"; fi
    if ask uv-fails; then echo "no route to the index"; exit 1; fi ;;
  *) exec "$REAL_PYTHON" "$@" ;;
esac
"""


class Machine:
    """A checkout in a folder with spaces in its name, and a Python that pretends."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "a checkout with spaces"
        self.checkout.mkdir()
        for name in ("src", "lab", "requirements"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
        for name in ("secvm", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)
        self.venv = self.checkout / ".venv"
        self.switches = folder / "switches"
        self.switches.mkdir()
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("python3.13", STAND_IN)
        for name in ("apt-get", "uv", "virtualenv"):
            self.program(name, f'#!/usr/bin/env bash\necho "{name} $*" >>"$SWITCHES/log"\nexit 1\n')

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def switch(self, name: str, text: str = "") -> None:
        (self.switches / name).write_text(text, encoding="utf-8")

    @property
    def log(self) -> list[str]:
        file = self.switches / "log"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        return subprocess.Popen(
            [str(self.checkout / "secvm"), *arguments],
            cwd=self.elsewhere,
            env={
                **inherited,
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "SWITCHES": str(self.switches),
                "REAL_PYTHON": sys.executable,
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_first_use_sets_up_and_second_use_does_not(machine: Machine) -> None:
    code, out, err = machine.run("--version")
    assert (code, out) == (0, "secvm 0.1.0\n"), err
    assert len(err.splitlines()) == 2
    before = machine.log
    assert machine.run("--version") == (0, "secvm 0.1.0\n", "")
    assert machine.log == before == [f"-m venv {machine.venv}", "pip installs uv", "uv installs, index default"]


def test_modules_are_compiled_once_and_into_the_environment_alone(machine: Machine) -> None:
    code, _out, err = machine.run("--version", PYTHONDONTWRITEBYTECODE="1")
    assert code == 0, err
    assert list((machine.venv / "pycache").rglob("main.*.pyc"))
    assert not list((machine.checkout / "src").rglob("*.pyc"))


def test_exit_codes_and_stdout_are_the_programs(machine: Machine) -> None:
    machine.run("--version")
    code, out, err = machine.run("frobnicate")
    assert (code, out) == (2, "")
    assert err.startswith("secvm: ")


def test_arguments_and_working_directory_are_kept(machine: Machine) -> None:
    (machine.checkout / "benchmarks").mkdir()
    (machine.checkout / "benchmarks/where.py").write_text(
        '"""Where am I."""\nimport pathlib\ndef add_arguments(parser): parser.add_argument("file")\n'
        'def run(arguments): return {"text": pathlib.Path(arguments.file).read_text()}\n',
        encoding="utf-8",
    )
    (machine.elsewhere / "a file").write_text("found", encoding="utf-8")
    # A file of the caller's that has the name of a module is no module.
    (machine.elsewhere / "typer.py").write_text("raise SystemExit('taken for typer')", encoding="utf-8")
    code, out, err = machine.run("bench", "where", "a file", "--format", "json")
    assert (code, out) == (0, '{"text":"found"}\n'), err


def test_launcher_works_through_a_link(machine: Machine) -> None:
    machine.run("--version")
    link = machine.elsewhere / "link"
    link.symlink_to(machine.checkout / "secvm")
    told = subprocess.run([str(link), "--version"], capture_output=True, text=True, check=False, env={
        **os.environ, "SWITCHES": str(machine.switches), "REAL_PYTHON": sys.executable,
    })  # fmt: skip
    assert (told.returncode, told.stdout) == (0, "secvm 0.1.0\n"), told.stderr


def test_changed_requirements_are_installed(machine: Machine) -> None:
    machine.run("--version")
    with (machine.checkout / "requirements/run.txt").open("a", encoding="utf-8") as file:
        file.write("# one more\n")
    before = len(machine.log)
    machine.run("--version")
    assert machine.log[before:] == ["pip installs uv", "uv installs, index default"]


def test_developers_commands_bring_the_tools_and_serve_the_program_too(machine: Machine) -> None:
    assert machine.run("--version")[0] == 0
    assert machine.run("dev")[0] == 0
    before = machine.log
    assert machine.run("--version")[0] == 0
    assert machine.run("dev")[0] == 0
    assert machine.log == before
    assert len([line for line in before if line.startswith("uv installs")]) == 2


def test_interrupted_setup_is_made_anew(machine: Machine) -> None:
    machine.switch("interrupt")
    code, out, _ = machine.run("--version")
    assert (code, out) == (-9, "")
    (machine.venv / "left-over").touch()
    code, out, err = machine.run("--version")
    assert (code, out) == (0, "secvm 0.1.0\n"), err
    assert not (machine.venv / "left-over").exists()


def test_failed_setup_says_why_and_is_not_used(machine: Machine) -> None:
    machine.switch("uv-fails")
    machine.switch("pip-fails")
    code, out, err = machine.run("--version")
    assert (code, out) == (1, "")
    assert "no route to the index" in err
    assert machine.run("--version")[0] == 1
    (machine.switches / "uv-fails").unlink()
    assert machine.run("--version")[:2] == (0, "secvm 0.1.0\n")


def test_pip_installs_where_uv_cannot(machine: Machine) -> None:
    machine.switch("uv-fails")
    assert machine.run("--version")[:2] == (0, "secvm 0.1.0\n")
    assert machine.log[-1] == "pip installs"


def test_uv_is_told_of_pips_index(machine: Machine) -> None:
    machine.switch("pip-config", "global.index-url='https://index.example/simple'\nglobal.timeout='60'\n")
    assert machine.run("--version")[0] == 0
    assert machine.log[-1] == "uv installs, index https://index.example/simple"


def test_two_launchers_at_once_install_once(machine: Machine) -> None:
    both = [machine.start("--version") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "secvm 0.1.0\n"), err
    assert [line for line in machine.log if line.startswith("uv installs")] == ["uv installs, index default"]


def test_python_without_ensurepip_uses_the_machines_pip(machine: Machine) -> None:
    machine.switch("no-ensurepip")
    code, out, err = machine.run("--version", SECVM_PYTHON=str(machine.bin / "python3.13"))
    assert (code, out) == (0, "secvm 0.1.0\n"), err
    assert f"-m venv --without-pip {machine.venv}" in machine.log
    assert "pip into venv" in machine.log


def test_root_on_debian_gets_the_missing_package(machine: Machine) -> None:
    machine.switch("no-ensurepip")
    machine.switch("no-pip")
    machine.program("id", "#!/usr/bin/env bash\necho 0\n")
    machine.program("apt-get", '#!/usr/bin/env bash\necho "apt-get $*" >>"$SWITCHES/log"\n')
    code, out, err = machine.run("--version", SECVM_PYTHON=str(machine.bin / "python3.13"))
    assert (code, out) == (0, "secvm 0.1.0\n"), err
    installs = [line for line in machine.log if line.startswith("apt-get install")]
    assert len(installs) == 1
    assert installs[0].endswith("-venv")


def test_python_that_can_make_no_environment_says_what_is_missing(machine: Machine) -> None:
    machine.switch("no-ensurepip")
    machine.switch("no-pip")
    code, out, err = machine.run("--version", SECVM_PYTHON=str(machine.bin / "python3.13"))
    assert (code, out) == (1, "")
    assert "apt-get install python3-venv" in err
    assert "Traceback" not in err


def test_machine_without_python_is_told_so(machine: Machine) -> None:
    bare = machine.bin.parent / "bare"
    bare.mkdir()
    for name in ("bash", "cksum", "dirname", "env", "readlink"):
        found = shutil.which(name)
        assert found
        (bare / name).symlink_to(found)
    code, out, err = machine.run("--version", PATH=str(bare))
    assert (code, out) == (1, "")
    assert "needs Python 3.11 or later" in err


def test_old_python_is_not_taken(machine: Machine) -> None:
    machine.program("old", "#!/usr/bin/env bash\nexit 1\n")
    code, _, err = machine.run("--version", SECVM_PYTHON=str(machine.bin / "old"))
    assert code == 1
    assert "needs Python 3.11 or later" in err
