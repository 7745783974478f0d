"""Where an audit reads: folder, HTTP and memory give the same report; a server can neither fill it nor hold it up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import AUDIT_S, FolderFiles, GivenFiles, WebFiles
from secvm.errors import BadInputError, MalformedMessageError
from secvm.runtime.clock import SystemClock
from secvm.testing.clock import ManualClock
from tests.serving import Answer, Server, serving
from tests.unit.auditor.histories import history, lay_out


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({}) as running:
        yield running


@pytest.mark.parametrize("honest", [True, False])
def test_folder_http_and_memory_give_the_same_report(server: Server, tmp_path: Path, *, honest: bool) -> None:
    made = history(rounds=2)
    files = dict(made.files)
    if not honest:
        del files[f"{made.place}/manifest/1"]
    server.serve(files)
    readers = (
        GivenFiles(files),
        FolderFiles(lay_out(files, tmp_path)),
        WebFiles(server.url + "/", SystemClock()),
    )
    given, folder, web = (audit_files(reader, now=made.now).to_content() for reader in readers)
    assert given == folder == web
    assert given["audit"] == ("ok" if honest else "failed")


def test_file_longer_than_it_may_be_is_refused_however_it_is_served(server: Server, tmp_path: Path) -> None:
    files = {"/v1/blob/x": b"y" * 101}
    server.answer = lambda path: (200, {}, files[path])
    for reader in (GivenFiles(files), FolderFiles(lay_out(files, tmp_path)), WebFiles(server.url, SystemClock())):
        with pytest.raises(MalformedMessageError, match="longer"):
            reader.get("/v1/blob/x", most=100)
        assert reader.get("/v1/blob/x", most=101) == b"y" * 101


def test_all_answers_together_have_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.auditor.files.TOTAL_BYTES", 100)
    server.answer = lambda _: (200, {}, b"y" * 60)
    files = WebFiles(server.url, SystemClock())
    assert files.get("/a", most=100) == b"y" * 60
    with pytest.raises(BadInputError, match="more than an audit may read"):
        files.get("/b", most=100)


def test_audit_has_a_limit_of_time(server: Server) -> None:
    server.answer = lambda _: (200, {}, b"")
    clock = ManualClock(0)
    files = WebFiles(server.url, clock)
    assert files.get("/a", most=1) == b""
    clock.advance(int(1000 * AUDIT_S) + 1)
    with pytest.raises(BadInputError, match="longer than it may"):
        files.get("/b", most=1)


def test_answer_that_is_cut_off_is_asked_for_again(server: Server) -> None:
    served: list[int] = []

    def answer(_: str) -> Answer:
        served.append(1)
        return 200, {"content-length": "5"}, b"whole" if len(served) > 1 else b"wh"

    server.answer = answer
    assert WebFiles(server.url, SystemClock()).get("/a", most=10) == b"whole"


def test_server_that_fails_once_is_asked_again_and_one_that_always_fails_is_not_reached(server: Server) -> None:
    server.answer = lambda _: (503 if len(server.asked) == 1 else 200, {}, b"x")
    assert WebFiles(server.url, SystemClock()).get("/a", most=1) == b"x"
    server.answer = lambda _: (500, {}, b"")
    with pytest.raises(BadInputError, match="status 500"):
        WebFiles(server.url, SystemClock()).get("/a", most=1)


def test_folder_that_is_no_public_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no folder"):
        FolderFiles(tmp_path / "nowhere")
    with pytest.raises(BadInputError, match="no public folder"):
        FolderFiles(tmp_path)


def test_path_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    files = FolderFiles(lay_out({"/v1/keys": b"k"}, tmp_path))
    for path in ("/v1/../../etc/passwd", "/v1/./keys", "/v1//keys"):
        with pytest.raises(MalformedMessageError):
            files.get(path, most=10)


def test_server_that_is_no_coordinator_is_told_from_one_at_fault(server: Server) -> None:
    with pytest.raises(BadInputError, match="no coordinator here"):
        audit_files(WebFiles(server.url, SystemClock()), now=0)
    server.answer = lambda _: (200, {}, b"<html>")
    assert not audit_files(WebFiles(server.url, SystemClock()), now=0).ok
