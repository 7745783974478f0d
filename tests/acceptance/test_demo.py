"""``secvm demo`` on a small scale: real processes, real sockets, and nothing left behind."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

SMALL = ("--participants", "40", "--rounds", "3", "--seed", "5")


def start(folder: Path, *arguments: str, size: tuple[str, ...] = SMALL, **environment: str) -> subprocess.Popen[str]:
    """The program, with a folder of its own for temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "secvm.cli.main", "demo", *size, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Processes that were told of this folder, and temporary files in it."""
    found = [path.name for path in (folder / "temporary").iterdir()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command and int(entry.parent.name) != os.getpid():
            found.append(command.replace(b"\0", b" ").decode())
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str, str]:
    folder = tmp_path_factory.mktemp("demo")
    process = start(folder, "--format", "json")
    out, said = process.communicate(timeout=300)
    return folder, process.returncode, out, said


def test_the_summary_is_one_json_object_with_every_key(ran: tuple[Path, int, str, str]) -> None:
    folder, code, out, said = ran
    assert code == 0, said
    told = json.loads(out)
    assert out.count("\n") == 1
    assert told["participants"] == 40
    assert told["rounds"] == 3
    # A device misses a round now and then; all others send exactly B in each.
    assert told["packages_sent"] % told["budget"] == 0
    assert 0.7 * 40 * 3 * told["budget"] <= told["packages_sent"] <= 40 * 3 * told["budget"]
    assert told["packages_counted"] == told["packages_sent"]
    assert told["lost"] == told["counted_twice"] == 0
    assert told["bit_exact_with_offline"] is True
    assert told["seconds"] > 0
    assert 0.5 < told["central_accuracy"] < 1
    assert 0.3 < told["accuracy"] < 1
    for name in ("recall", "precision", "baseline"):
        assert list(told[name]) == ["north", "south"]
    assert math.isclose(sum(told["baseline"].values()), 1, abs_tol=2e-4)
    assert told["report"] == "report.html"
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/", told["page"])
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_progress_tells_rounds_packages_and_accuracy(ran: tuple[Path, int, str, str]) -> None:
    said = ran[3]
    assert said.index("the page is at http://127.0.0.1:") < said.index("round 1/3")
    assert "round 3/3" in said
    assert "accuracy 0." in said


def test_nothing_is_left_behind(ran: tuple[Path, int, str, str]) -> None:
    folder = ran[0]
    assert left_behind(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "temporary"]


def test_with_cover_nothing_is_lost_the_audit_finds_nothing_and_offline_has_the_same_bytes(tmp_path: Path) -> None:
    size = ("--participants", "24", "--rounds", "2", "--bins", "8", "--epsilon", "8", "--delta", "1e-3")
    process = start(tmp_path, "--format", "json", "--no-page", size=size)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    told = json.loads(out)
    assert told["page"] is None
    assert "the page is at" not in said
    assert told["lost"] == told["counted_twice"] == 0
    assert told["bit_exact_with_offline"] is True
    assert (told["audit"], told["steps_replayed"]) == ("ok", 2)
    privacy = told["privacy"]
    assert (privacy["kind"], privacy["epsilon"], privacy["delta"]) == ("cover", 8, 0.001)
    assert privacy["note"] == "plumbing, not protection"
    assert privacy["achieved"] <= 8
    # All that a device can send fits in B, and everybody sends it.
    assert told["budget"] > privacy["own"] + privacy["cover_mean"]
    assert told["packages_sent"] % told["budget"] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("Plumbing, not protection", f"at least {privacy['honest']} devices", "does not work together"):
        assert words in page
    assert "No formal guarantee" not in page
    assert left_behind(tmp_path) == []


def test_the_page_opens_in_a_browser_shows_what_was_learnt_and_stays_until_ctrl_c(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {tmp_path}/opened\n')
    browser.chmod(0o700)
    process = start(tmp_path, "--open", "--format", "json", BROWSER=f"{browser} %s")
    assert process.stderr is not None
    assert process.stdout is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("the page stays at "):
            break
    assert lines[-1].startswith("the page stays at "), lines
    told = json.loads(process.stdout.readline())
    assert lines[-1] == f"the page stays at {told['page']} until Ctrl-C\n"
    assert (tmp_path / "opened").read_text() == told["page"]
    assert (tmp_path / "report.html").exists()
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"{told['page']}api/now", timeout=60
    ) as page:
        (one,) = json.loads(page.read())["experiments"]
    assert (one["standing"], one["rounds_told"], one["problem"]) == ("finished", 3, None)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out, said) == (0, "", "")
    (tmp_path / "browser").unlink()
    (tmp_path / "opened").unlink()
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_interrupts_it_in_the_middle_leaves_nothing_behind(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    # Where a shell runs the suite in the background SIGINT is ignored here, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = start(tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 1/"):
            break
    process.send_signal(sent)
    out, said = process.communicate(timeout=120)
    assert process.returncode == code, said
    assert out == ""
    assert "Traceback" not in said
    assert left_behind(tmp_path) == []
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_the_readme_shows_what_the_whole_demonstration_prints(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)^```$", readme, flags=re.DOTALL | re.MULTILINE)[0]
    process = start(tmp_path, size=())
    out, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    # The last line has the seconds it took.
    assert out.splitlines()[:-1] == shown.splitlines()[:-1]
    assert out.splitlines()[-1].split()[:2] == ["report", "report.html"]
    sent = re.search(r"([0-9,]+) sent", out)
    assert sent is not None
    assert int(sent[1].replace(",", "")) >= 100_000
    accuracy, central = (float(found) for found in re.findall(r"^(?:accuracy|central) +([0-9.]+)", out, re.MULTILINE))
    assert abs(accuracy - central) <= 0.02
    assert left_behind(tmp_path) == []


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    process = start(tmp_path, "--hosts", "0")
    out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert said.splitlines()[0] == "secvm: --hosts must lie between 1 and 16"


def test_a_page_that_is_left_out_cannot_be_opened(tmp_path: Path) -> None:
    process = start(tmp_path, "--open", "--no-page")
    out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert said.splitlines()[0] == "secvm: --open opens the page, and --no-page leaves it out"
