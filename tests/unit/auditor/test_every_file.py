"""Each public file is changed, cut, lengthened and taken away in turn: an audit finds it, or it cannot matter."""

import random
import re
from collections.abc import Callable

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.errors import BadInputError
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.unit.auditor.histories import audited, history

#: Which change of which file cannot matter, and why.
HARMLESS = {
    ("lengthened", r".*/beacon/\d+"): "JSON with a blank behind it says the same, and its output is verified",
    ("lengthened", r"/v1/experiments"): "JSON with a blank behind it says the same",
    ("flipped", r"/v1/experiments"): "unsigned; a standing that is no word of ours is told, and is no fault",
    ("flipped elsewhere", r"/v1/experiments"): "the same",
}


def flipped(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


CHANGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flipped": flipped,
    "flipped elsewhere": flipped,
    "cut": lambda data, dice: data[: dice.randrange(len(data))],
    "lengthened": lambda data, _: data + b"\n",
    "taken away": lambda _data, _dice: None,
    "another's": lambda data, dice: dice.randbytes(len(data)),
}


def outgrown(made: PublicHistory, path: str) -> bool:
    """Whether this is a tile of a size that the log has outgrown: no reader of its newest checkpoint asks for it."""
    return path.startswith(made.log_place) and "/tile/" in path and not path.endswith(f".p/{made.log.tree.size}")


def find(made: PublicHistory, files: dict[str, bytes]) -> bool:
    try:
        return not audit_files(GivenFiles(files), now=made.now).ok
    except BadInputError:
        # There is no coordinator any more: also an answer.
        return True


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", [1, 2])
def test_change_of_any_file_is_found_or_cannot_matter(seed: int, change: str) -> None:
    made = history(seed, end=seed == 1, rounds=2, beacons=2)
    dice = random.Random(f"{seed} {change}")
    missed = []
    for path, data in made.files.items():
        changed = CHANGES[change](data, dice)
        files = {name: content for name, content in made.files.items() if name != path}
        if changed is not None:
            files[path] = changed
        harmless = any(kind == change and re.fullmatch(pattern, path) for kind, pattern in HARMLESS)
        if not find(made, files) and not harmless and not outgrown(made, path):
            missed.append(path)
    assert missed == []


def test_list_that_names_another_title_is_found() -> None:
    made = history()
    files = {**made.files, "/v1/experiments": made.files["/v1/experiments"].replace(b"Which words", b"Whose words")}
    assert "another title" in audited(made, files).faults[0].sentence


@pytest.mark.parametrize("standing", ["finished", "stopped"])
def test_list_that_calls_a_running_experiment_over_is_told(standing: str) -> None:
    made = history()
    files = {**made.files, "/v1/experiments": made.files["/v1/experiments"].replace(b"running", standing.encode())}
    assert any(standing in warning for warning in audited(made, files).warnings)


def test_signature_of_a_stranger_beside_the_right_ones_changes_nothing() -> None:
    made = history()
    checkpoint = f"{made.place}/checkpoint"
    stranger = "— stranger.example " + "AAAAAA" * 12 + "\n"
    report = audited(made, {**made.files, checkpoint: made.files[checkpoint] + stranger.encode()})
    assert report.ok
