"""What stands at the other end of ``--coordinator`` may be anything; and what an experiment's specification becomes."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from secvm.cli.experiment import _vocabulary_bins
from secvm.cli.main import run
from secvm.errors import BadInputError
from secvm.people.reader import read_vocabulary


class _Somebody(BaseHTTPRequestHandler):
    answer: tuple[int, bytes]

    def do_GET(self) -> None:
        status, content = self.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Somebody)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, b"not here"), "there is no coordinator at this URL"),
        ((200, b"<html>"), "no JSON"),
        ((200, b"{}"), "no list of experiments"),
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
