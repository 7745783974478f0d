"""Public files: whole or not at all, rebuilt when missing, cached as long as they cannot change."""

import asyncio
from pathlib import Path

import pytest

from secvm.coordinator.publisher import Publisher, blob_path, experiment_path, manifest_path, opening_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.errors import StoreError
from secvm.learning import aggregate
from secvm.protocol.canonical import digest_of
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.relays.news import News, news_path
from secvm.runtime.http.messages import Heads
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm_lab.rigs.histories.relayed_history import RelayedHistory
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import known_log_terms
from tests.unit.coordinator.rounds import add, experiment, files

D = "ab" * 32


def ask(publisher: Publisher, path: str, method: str = "GET", **headers: str) -> HttpResponse:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return publisher.handle(HttpRequest(method, path, "", fields, b"", "somebody"))


def stocked(folder: Path | None = None) -> tuple[Publisher, str]:
    """A publisher whose store has an experiment, and the digest of a blob that is not public yet."""
    store, of = MemoryStore(), experiment()
    add(store, of)
    return Publisher(store, folder), digest_of(aggregate.start(of.experiment).to_bytes())


def test_what_was_put_is_answered_at_once_and_lies_in_the_folder_after_a_flush(tmp_path: Path) -> None:
    publisher, blob = stocked(tmp_path)
    publisher.put(experiment_path(D), b"experiment", lasting=True)
    publisher.put(manifest_path(D, 1), b"first", lasting=True)
    publisher.put(manifest_path(D, None), b"first")
    publisher.put_json("/v1/experiments", b"{}")
    publisher.put_keys(b"keys")
    publisher.put_blob(blob)
    assert publisher.public("/v1/keys") == (b"keys", "application/ohttp-keys")
    assert files(tmp_path) == {}
    asyncio.run(publisher.flush())
    data = publisher.public(blob_path(blob))
    assert data is not None
    assert files(tmp_path) == {
        f"v1/experiment/{D}/index": b"experiment",
        f"v1/experiment/{D}/manifest/1": b"first",
        f"v1/experiment/{D}/manifest/latest": b"first",
        "v1/experiments": b"{}",
        "v1/keys": b"keys",
        f"v1/blob/{blob}": data[0],
    }


def test_a_file_that_is_old_or_missing_is_written_and_another_is_left_alone(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        publisher, blob = stocked(tmp_path)
        publisher.put("/v1/keys", content)
        publisher.put("/v1/experiments", b"same")
        publisher.put_blob(blob)
        asyncio.run(publisher.flush())
        (tmp_path / "v1/blob" / blob).unlink(missing_ok=content == b"one")
    assert (tmp_path / "v1/keys").read_bytes() == b"two"
    before = (tmp_path / "v1/experiments").stat().st_ino
    publisher, blob = stocked(tmp_path)
    publisher.put("/v1/experiments", b"same")
    publisher.put_blob(blob)
    asyncio.run(publisher.flush())
    assert (tmp_path / "v1/experiments").stat().st_ino == before
    assert digest_of((tmp_path / "v1/blob" / blob).read_bytes()) == blob


class Away(MemoryStore):
    """A store that does not answer once."""

    def __init__(self) -> None:
        super().__init__()
        self.away = True

    def blob(self, digest: str) -> bytes:
        if self.away:
            self.away = False
            raise StoreError("the database does not answer")
        return super().blob(digest)


def test_repro_what_could_not_be_written_to_the_folder_is_written_the_next_time(tmp_path: Path) -> None:
    store, of = Away(), experiment()
    add(store, of)
    publisher, blob = Publisher(store, tmp_path), digest_of(aggregate.start(of.experiment).to_bytes())
    publisher.put_blob(blob)
    publisher.put("/v1/keys", b"keys")
    publisher.write("/v1/log/tile", b"tile")
    with pytest.raises(StoreError):
        asyncio.run(publisher.flush())
    # Its node lives on, and whoever puts the same again is told that it is there.
    publisher.put_blob(blob)
    publisher.put("/v1/keys", b"keys")
    asyncio.run(publisher.flush())
    assert files(tmp_path) == {f"v1/blob/{blob}": store.blob(blob), "v1/keys": b"keys", "v1/log/tile": b"tile"}


def test_blobs_that_no_document_names_stay_in_the_store() -> None:
    publisher, blob = stocked()
    assert publisher.public(blob_path(blob)) is None
    assert ask(publisher, blob_path(blob)).status == 404
    publisher.put_blob(blob)
    assert ask(publisher, blob_path(blob)).status == 200


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/blob/", "/v1/blob/../keys", "/v1/keys/", "/v1/experiment/", ""])
def test_other_paths_hold_nothing(path: str) -> None:
    publisher, _ = stocked()
    publisher.put("/v1/keys", b"keys")
    assert ask(publisher, path).status == 404


def test_what_can_never_change_may_be_kept_for_ever_and_the_rest_for_seconds() -> None:
    publisher, blob = stocked()
    publisher.put(manifest_path(D, 1), b"first", lasting=True)
    publisher.put(manifest_path(D, None), b"first")
    publisher.put_blob(blob)
    for path, kept in (
        (manifest_path(D, 1), "public, max-age=31536000, immutable"),
        (blob_path(blob), "public, max-age=31536000, immutable"),
        (manifest_path(D, None), "public, max-age=5"),
    ):
        assert dict(ask(publisher, path).headers)["cache-control"] == kept


def test_who_has_it_already_is_told_so() -> None:
    publisher, blob = stocked()
    publisher.put_json("/v1/experiments", b"{}")
    tag = dict(ask(publisher, "/v1/experiments").headers)["etag"]
    again = ask(publisher, "/v1/experiments", if_none_match=f'"other", W/{tag}')
    assert (again.status, again.body) == (304, b"")
    publisher.put_json("/v1/experiments", b"{ }")
    assert ask(publisher, "/v1/experiments", if_none_match=tag).status == 200
    publisher.put_blob(blob)
    assert ask(publisher, blob_path(blob), if_none_match=f'"{blob}"').status == 304


def test_repro_head_tells_the_length_that_get_has() -> None:
    publisher, blob = stocked()
    publisher.put("/v1/keys", b"keys")
    publisher.put_blob(blob)
    heads = Heads(None)
    for path in ("/v1/keys", blob_path(blob), "/v1/nothing"):
        head, content = heads.answer(ask(publisher, path), keep_alive=True, head_only=False)
        assert f"content-length: {len(content)}\r\n".encode() in head
        assert heads.answer(ask(publisher, path, "HEAD"), keep_alive=True, head_only=True) == (head, b"")


def test_only_reading_has_a_meaning() -> None:
    publisher, _ = stocked()
    publisher.put("/v1/keys", b"keys")
    assert ask(publisher, "/v1/keys", "POST").status == 405


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "v1/blob").mkdir(parents=True)
    (tmp_path / "v1/blob/.ab.1.tmp").write_bytes(b"hal")
    stocked(tmp_path)
    assert files(tmp_path) == {}


def test_news_are_answered_of_what_is_shown_now_and_are_no_file(tmp_path: Path) -> None:
    history = RelayedHistory(relayed_document(log=known_log_terms()))
    digest = history.document.digest
    publisher = Publisher(MemoryStore(), tmp_path)

    def answered(number: int) -> News | None:
        for path, data in history.files.items():
            if not path.startswith("/v1/blob/"):
                publisher.put(path, data)
        found = publisher.public(news_path(digest, number))
        return None if found is None else News.from_bytes(found[0])

    assert answered(1) is None
    history.announce()
    first = answered(1)
    assert first is not None
    assert first.manifest == history.files[manifest_path(digest, 1)]
    history.conclude()
    opened = answered(2)
    assert opened is not None
    assert (opened.manifest, opened.opening) == (first.manifest, history.files[opening_path(digest, 1)])
    history.announce()
    second = answered(2)
    assert second is not None
    assert second.manifest == history.files[manifest_path(digest, 2)]
    # The checkpoint is renewed; what was made before is not given again.
    history.log.append(experiment_entry(D))
    history.log.show(history.files, [digest])
    renewed = answered(2)
    assert renewed is not None
    assert renewed.checkpoint == history.files[f"{experiment_path(digest)}/checkpoint"] != second.checkpoint
    assert renewed.lines[: len(second.lines)] == second.lines != renewed.lines
    asyncio.run(publisher.flush())
    assert not any("/news/" in path for path in files(tmp_path))
