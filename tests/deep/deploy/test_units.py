"""The units of deploy/: systemd understands every line, and what they start runs with the shipped settings."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deep.deploy.nginx import DEPLOY, replaced
from tests.system.parties import party

UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
EACH = pytest.mark.parametrize("unit", UNITS)
#: What a party says once it listens; the operator's page says it to a person.
READY = '"event":"listening"|the page is at'
PROGRAM = r"^ExecStart=\S+/bin/secvm "


@EACH
def test_systemd_understands_every_line(unit: str, tmp_path: Path) -> None:
    """Substituted: the program, by one that is there."""
    text = (DEPLOY / unit).read_text(encoding="utf-8")
    (tmp_path / unit).write_text(replaced(text, {PROGRAM: f"ExecStart={sys.executable} "}), encoding="utf-8")
    # A device's is a user's service. One of many is looked at by its name.
    whose = ["--user"] if unit == "secvm-participant.service" else ["--system"]
    named = tmp_path / unit.replace("@.", "@node-1.")
    done = subprocess.run(
        [shutil.which("systemd-analyze") or "systemd-analyze", *whose, "--man=no", "verify", str(named)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # A key that systemd does not know is a warning, and no more.
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def secvm(*words: str) -> None:
    with party(*words) as done:
        assert done.end() == 0, done.said


def keys_of_a_coordinator(settings: Path) -> None:
    text = settings.read_text(encoding="utf-8")
    settings.unlink()
    secvm("coordinator", "init", str(settings.parent))
    settings.write_text(text, encoding="utf-8")


def keys_of_a_relay(settings: Path) -> None:
    token = settings.parent / "relay.token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-relay\n", encoding="utf-8")
    secvm("relay", "key", "--out", str(settings.parent / "relay.key"))


def keys_of_a_witness(settings: Path) -> None:
    secvm("witness", "key", "--config", str(settings))


#: What the how-to has people do before a party starts.
KEYS: dict[str, Callable[[Path], None]] = {
    "coordinator": keys_of_a_coordinator,
    "relay": keys_of_a_relay,
    "witness": keys_of_a_witness,
}


def here(text: str, folder: Path) -> str:
    """The text with a folder of the test's in place of the system's, and a port on which no coordinator is."""
    places = {"%i": "node-1", "%h": "/home/me", "127.0.0.1:8750": "127.0.0.1:9"}
    folders = dict.fromkeys(("/etc/secvm", "/var/lib", "/home/me"), str(folder))
    for shipped, ours in {**places, **folders}.items():
        text = text.replace(shipped, ours)
    return text


@EACH
def test_what_the_unit_starts_runs_with_the_shipped_settings_and_ends_in_order(unit: str, tmp_path: Path) -> None:
    """Substituted besides: its own port, by a free one; a device tells its state, so that it is seen to run."""
    started = re.search(r"^ExecStart=(.*)$", (DEPLOY / unit).read_text(encoding="utf-8"), re.MULTILINE)
    assert started is not None
    _program, name, *words = shlex.split(here(started[1], tmp_path))
    settings = Path(words[-1])
    for folder in (settings.parent, tmp_path / f"secvm-{name}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = {r"^#port = .*$": "port = 0"}
    if name == "participant":
        port = {r"^#\[status\]\n#listen = .*$": '[status]\nlisten = "127.0.0.1:0"'}
    text = here((DEPLOY / settings.name).read_text(encoding="utf-8"), tmp_path)
    settings.write_text(replaced(text, port), encoding="utf-8")
    KEYS.get(name, lambda _settings: None)(settings)
    with party(name, *words) as running:
        running.shows(READY)
        running.stop()
