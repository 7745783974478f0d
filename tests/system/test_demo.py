"""``secvm demo`` on a small scale: real processes, real sockets, and nothing left behind."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Program
from tests.system.parties import PROGRAM

PLAIN = "--plain --participants 16 --rounds 2 --seed 5"
SMALL = "--participants 24 --rounds 2 --bins 8 --epsilon 8 --delta 1e-3 --seed 5"


def start(folder: Path, *arguments: str, size: str = PLAIN, **environment: str) -> subprocess.Popen[str]:
    """The program, with a folder of its own for temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir()
    return subprocess.Popen(
        [*PROGRAM, "demo", *size.split(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        start_new_session=True,
    )


def finish(folder: Path, process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a demonstration said that came to a good end and left nothing behind."""
    out, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    assert left_behind(folder) == []
    return out, said


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


@dataclass(frozen=True)
class Ran:
    """A demonstration that is over: its folder, its summary, and what it said meanwhile."""

    folder: Path
    told: dict[str, Any]
    said: str


def test_a_small_demonstration_with_a_guarantee_and_its_page(tmp_path: Path) -> None:
    """One run, looked at from all sides. The README's demo and plain ones are run in the deep tier."""
    out, said = finish(tmp_path, start(tmp_path, "--format", "json", size=SMALL))
    assert out.count("\n") == 1
    ran = Ran(tmp_path, json.loads(out), said)
    summary_is_one_json_object_with_every_key(ran)
    progress_tells_rounds_packages_and_accuracy(ran)
    nothing_is_left_behind(ran)
    audit_finds_nothing_and_offline_has_the_same_bytes(ran)
    attack_is_played_and_stands_beside_what_is_allowed(ran)


def summary_is_one_json_object_with_every_key(ran: Ran) -> None:
    told = ran.told
    assert told["participants"] == 24
    assert told["rounds"] == 2
    # A device misses a round now and then; all others send exactly B in each.
    assert told["packages_sent"] % told["budget"] == 0
    assert 0.7 * 24 * 2 * told["budget"] <= told["packages_sent"] <= 24 * 2 * told["budget"]
    assert told["packages_counted"] == told["packages_sent"]
    assert told["lost"] == told["counted_twice"] == 0
    assert told["seconds"] > 0
    assert 0.5 < told["central_accuracy"] < 1
    assert 0.2 < told["accuracy"] < 1
    for name in ("recall", "precision", "baseline"):
        assert list(told[name]) == ["north", "south"]
    assert math.isclose(sum(told["baseline"].values()), 1, abs_tol=2e-4)
    assert told["report"] == "report.html"
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/", told["page"])
    assert (ran.folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def progress_tells_rounds_packages_and_accuracy(ran: Ran) -> None:
    said = ran.said
    assert said.index("the page is at http://127.0.0.1:") < said.index("round 1/2")
    assert "round 2/2" in said
    assert "accuracy 0." in said


def nothing_is_left_behind(ran: Ran) -> None:
    assert sorted(path.name for path in ran.folder.iterdir()) == ["report.html", "temporary"]


def audit_finds_nothing_and_offline_has_the_same_bytes(ran: Ran) -> None:
    told = ran.told
    assert told["bit_exact_with_offline"] is True
    # Of so few people noise may leave nobody in a round, which is then opened and not stepped.
    assert told["audit"] == "ok"
    assert told["steps_replayed"] <= 2
    # Every package that the mixing relay handed on, in both rounds: people's, and both relays' cover.
    assert told["recounted"] == told["packages_sent"] + 2 * 2 * told["privacy"]["cover_packages"]
    privacy = told["privacy"]
    assert (privacy["kind"], privacy["epsilon"], privacy["delta"]) == ("relays", 8, 0.001)
    assert privacy["achieved"] <= 8
    # A participation package, a person's features and the bias, and the canary.
    assert told["budget"] == 2 + 12 + 1
    assert privacy["cover_packages"] % privacy["parts"] == 0


def attack_is_played_and_stands_beside_what_is_allowed(ran: Ran) -> None:
    told = ran.told
    assert (told["guarantee"], told["epsilon"], told["delta"]) == ("formal", 8, 0.001)
    low, high = told["attack_auc_interval"]
    assert low <= told["attack_auc"] <= high
    assert (high - low) / 2 <= 0.02
    assert low <= told["attack_auc_allowed"] < told["attack_auc_plain"] == 1
    assert 0.5 < told["plain_accuracy"] < 1
    page = (ran.folder / "report.html").read_text(encoding="utf-8")
    for words in ("as long as one of two relays is honest", "the mixing relay", "The label attack"):
        assert words in page
    assert "No formal guarantee" not in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--hosts 0", "--hosts must lie between 1 and 16"),
        ("--open --no-page", "--open opens the page, and --no-page leaves it out"),
        ("--plain --epsilon 1", "--plain has no guarantee, and --epsilon asks for one: leave one of them out"),
    ],
)
def test_bad_input_is_one_sentence(arguments: str, sentence: str, secvm: Program) -> None:
    assert secvm.refused("demo", arguments).splitlines()[0] == f"secvm: {sentence}"
