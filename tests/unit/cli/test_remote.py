"""What stands at the other end of ``--coordinator`` may be anything; and what an experiment's specification becomes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.auditor.files import MOST_JSON_BYTES
from secvm.cli.experiment import _vocabulary_bins
from secvm.cli.experiment.remote import Remote
from secvm.errors import BadInputError
from secvm.people.reader import read_vocabulary
from tests.program import Program
from tests.serving import Server, serving
from tests.unit.coordinator.test_new_experiment import put


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def listed(secvm: Program, server: Server, status: int, content: bytes) -> str:
    """What is said where the list of experiments is answered so."""
    server.answer = lambda _path: (status, {}, content)
    return secvm.refused("experiment list --coordinator", server.url)


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (404, b"not here", "there is no coordinator at this URL"),
        (200, b"<html>", "not JSON"),
        (200, b"{}", "no list of experiments"),
        (200, b'{"experiments":[{"digest":"00"}]}', "no list of experiments"),
        (200, b'{"experiments":["digest"]}', "no list of experiments"),
        (503, b"later", "status 503"),
    ],
)
def test_server_that_is_no_coordinator_is_told_from_one_without_experiments(
    server: Server, secvm: Program, status: int, content: bytes, said: str
) -> None:
    assert said in listed(secvm, server, status, content)


def test_repro_titles_that_a_coordinator_lists_change_no_terminal(server: Server, secvm: Program) -> None:
    one = {"digest": "ab" * 32, "title": "tea\x1b]0;pwned\x07\x1b[31m", "standing": "running"}
    server.serve({"/v1/experiments": json.dumps({"experiments": [one]}).encode()})
    assert secvm("experiment list --coordinator", server.url) == 0
    assert secvm.out == f"{'ab' * 32}  running   tea?]0;pwned??[31m\n"


def test_repro_what_a_server_says_in_its_refusal_changes_no_terminal(server: Server, secvm: Program) -> None:
    said = listed(secvm, server, 503, b'{"detail":"later \\u001b[2J"}')
    assert said == "secvm: the coordinator refuses: later ?[2J\n"


def test_list_of_words_becomes_the_bins(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("rain\nkettle\nsea\n")
    expected = {"bins": 3, "vocabulary": read_vocabulary(path).digest}
    assert _vocabulary_bins({}, path) == expected
    assert _vocabulary_bins({"bins": 3, "hashes": 1}, path) == {**expected, "hashes": 1}
    for other in ({"bins": 4}, {"vocabulary": "0" * 64}, "three"):
        with pytest.raises(BadInputError, match="different bins"):
            _vocabulary_bins(other, path)


def key_file(folder: Path, more: str = "") -> Path:
    path = folder / "admin.key"
    path.write_text(f"340cdc2bbf2c0bea7834308613e87c6d\n{more}")
    path.chmod(0o600)
    return path


def test_repro_a_key_file_of_two_lines_is_not_a_coordinator_that_does_not_answer(
    tmp_path: Path, secvm: Program
) -> None:
    there = ("--coordinator http://127.0.0.1:1 --admin-key-file", key_file(tmp_path, "key\n"))
    assert "holds no admin key" in secvm.refused("experiment pause 3fa9", *there)


@pytest.mark.parametrize("host", ["coordinator.example", "127.example", "localhost.example", "127.0.0.1@else.example"])
def test_repro_the_admin_key_travels_in_clear_to_no_other_machine(
    host: str, tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody is asked, neither for the key nor for an answer.
    monkeypatch.setattr("secvm.cli.experiment.remote._read_key", None)
    there = (f"--coordinator http://{host} --admin-key-file", key_file(tmp_path))
    said = secvm.refused("experiment pause 3fa9", *there)
    assert "in clear" in said
    assert "https://" in said


def test_admin_key_may_go_to_this_machine_and_through_tls(tmp_path: Path) -> None:
    for url in ("http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1", "https://coordinator.example"):
        Remote(url, key_file(tmp_path))


@pytest.mark.parametrize("command", ["pause 3f", "show 3f", "new"])
@pytest.mark.parametrize("answer", [b"{}", b'{"digest":7,"rounds":[7],"title":"t","privacy":0,"standing":"s"}'])
def test_repro_an_answer_of_another_shape_is_one_sentence(
    server: Server, command: str, answer: bytes, tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda _path: (200, {}, answer)
    monkeypatch.setattr(Remote, "find", lambda _self, _name: "3f")
    specification = tmp_path / "asked.json"
    specification.write_text(json.dumps(put("title", "A question")))
    asked = [specification] if command == "new" else []
    keys = [] if command == "show 3f" else ["--admin-key-file", key_file(tmp_path)]
    assert secvm(f"experiment {command}", *asked, "--coordinator", server.url, *keys) == 2
    # What is shown is signed, and no envelope is none.
    wrong = "these bytes are not an envelope" if command == "show 3f" else "not what this version of secvm expects"
    assert wrong in secvm.err


def test_repro_a_coordinator_cannot_fill_the_memory(server: Server, secvm: Program) -> None:
    server.serve({"/v1/experiments": b'{"experiments":[]}' + b" " * 100})
    with pytest.raises(BadInputError, match="more than the 50 bytes"):
        Remote(server.url).fetch("/v1/experiments", most=50)
    assert MOST_JSON_BYTES == 2**26
    assert f"more than the {MOST_JSON_BYTES} bytes" in listed(secvm, server, 200, bytes(MOST_JSON_BYTES + 1))
