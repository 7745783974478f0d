"""What stands at the other end of ``--coordinator`` may be anything; and what an experiment's specification becomes."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from secvm.auditor.files import MOST_JSON_BYTES
from secvm.cli.experiment import _vocabulary_bins
from secvm.cli.experiment.remote import Remote
from secvm.cli.main import run
from secvm.errors import BadInputError
from secvm.people.reader import read_vocabulary
from tests.unit.coordinator.test_new_experiment import put


class _Somebody(BaseHTTPRequestHandler):
    answer: tuple[int, bytes]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, content = self.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Somebody)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, b"not here"), "there is no coordinator at this URL"),
        ((200, b"<html>"), "not JSON"),
        ((200, b"{}"), "no list of experiments"),
        ((200, b'{"experiments":[{"digest":"00"}]}'), "no list of experiments"),
        ((200, b'{"experiments":["digest"]}'), "no list of experiments"),
        ((503, b"later"), "status 503"),
    ],
)
def test_server_that_is_no_coordinator_is_told_from_one_without_experiments(
    url: str,
    answer: tuple[int, bytes],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Somebody, "answer", answer, raising=False)
    assert run(["experiment", "list", "--coordinator", url]) == 2
    assert said in capsys.readouterr().err


def test_repro_titles_that_a_coordinator_lists_change_no_terminal(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = {"digest": "ab" * 32, "title": "tea\x1b]0;pwned\x07\x1b[31m", "standing": "running"}
    monkeypatch.setattr(_Somebody, "answer", (200, json.dumps({"experiments": [listed]}).encode()), raising=False)
    assert run(["experiment", "list", "--coordinator", url]) == 0
    assert capsys.readouterr().out == f"{'ab' * 32}  running   tea?]0;pwned??[31m\n"


def test_repro_what_a_server_says_in_its_refusal_changes_no_terminal(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Somebody, "answer", (503, b'{"detail":"later \\u001b[2J"}'), raising=False)
    assert run(["experiment", "list", "--coordinator", url]) == 2
    assert capsys.readouterr().err == "secvm: the coordinator refuses: later ?[2J\n"


def test_list_of_words_becomes_the_bins(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("rain\nkettle\nsea\n")
    expected = {"bins": 3, "vocabulary": read_vocabulary(path).digest}
    assert _vocabulary_bins({}, path) == expected
    assert _vocabulary_bins({"bins": 3, "hashes": 1}, path) == {**expected, "hashes": 1}
    for other in ({"bins": 4}, {"vocabulary": "0" * 64}, "three"):
        with pytest.raises(BadInputError, match="different bins"):
            _vocabulary_bins(other, path)


def test_repro_a_key_file_of_two_lines_is_not_a_coordinator_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "admin.key"
    key.write_bytes(b"340cdc2bbf2c0bea7834308613e87c6d\nkey\n")
    key.chmod(0o600)
    there = ["--coordinator", "http://127.0.0.1:1", "--admin-key-file", str(key)]
    assert run(["experiment", "pause", "3fa9", *there]) == 2
    assert "holds no admin key" in capsys.readouterr().err


def key_file(folder: Path) -> Path:
    path = folder / "admin.key"
    path.write_bytes(b"340cdc2bbf2c0bea7834308613e87c6d\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("host", ["coordinator.example", "127.example", "localhost.example", "127.0.0.1@else.example"])
def test_repro_the_admin_key_travels_in_clear_to_no_other_machine(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody is asked, neither for the key nor for an answer.
    monkeypatch.setattr("secvm.cli.experiment.remote._read_key", None)
    there = ["--coordinator", f"http://{host}", "--admin-key-file", str(key_file(tmp_path))]
    assert run(["experiment", "pause", "3fa9", *there]) == 2
    said = capsys.readouterr().err
    assert "in clear" in said
    assert "https://" in said


def test_admin_key_may_go_to_this_machine_and_through_tls(tmp_path: Path) -> None:
    for url in ("http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1", "https://coordinator.example"):
        Remote(url, key_file(tmp_path))


@pytest.mark.parametrize("command", [["pause", "3f"], ["show", "3f"], ["new"]])
@pytest.mark.parametrize("answer", [b"{}", b'{"digest":7,"rounds":[7],"title":"t","privacy":0,"standing":"s"}'])
def test_repro_an_answer_of_another_shape_is_one_sentence(
    url: str,
    command: list[str],
    answer: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Somebody, "answer", (200, answer), raising=False)
    monkeypatch.setattr(Remote, "find", lambda _self, _name: "3f")
    if command == ["new"]:
        specification = tmp_path / "asked.json"
        specification.write_text(json.dumps(put("title", "A question")))
        command = ["new", str(specification)]
    keys = [] if command[0] == "show" else ["--admin-key-file", str(key_file(tmp_path))]
    assert run(["experiment", *command, "--coordinator", url, *keys]) == 2
    assert "not what this version of secvm expects" in capsys.readouterr().err


def test_repro_a_coordinator_cannot_fill_the_memory(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Somebody, "answer", (200, b'{"experiments":[]}' + b" " * 100), raising=False)
    with pytest.raises(BadInputError, match="more than the 50 bytes"):
        Remote(url).fetch("/v1/experiments", most=50)
    assert MOST_JSON_BYTES == 2**26
    monkeypatch.setattr(_Somebody, "answer", (200, bytes(MOST_JSON_BYTES + 1)), raising=False)
    assert run(["experiment", "list", "--coordinator", url]) == 2
    assert f"more than the {MOST_JSON_BYTES} bytes" in capsys.readouterr().err
