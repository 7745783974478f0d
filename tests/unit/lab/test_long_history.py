"""A long history is served as a coordinator's files are, and grows by a round at a time."""

from __future__ import annotations

import http.client
import json

import pytest

from secvm.protocol.documents.experiment import read_published
from secvm_lab.rigs.histories.long_history import LABELS, LongHistory


@pytest.fixture(scope="module")
def history() -> LongHistory:
    return LongHistory(rounds=40, further=3)


def get(url: str, path: str, tag: str = "") -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers={"if-none-match": tag} if tag else {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("etag", "")
    finally:
        connection.close()


def test_the_experiment_is_signed_and_the_status_is_its_own(history: LongHistory) -> None:
    digest = history.document.digest
    with history.served() as (_, url):
        listed = json.loads(get(url, "/v1/experiments")[1])["experiments"]
        assert [one["digest"] for one in listed] == [digest]
        document = read_published(get(url, f"/v1/experiment/{digest}")[1], digest=digest)
        status = json.loads(get(url, history.status_path)[1])
    assert status["experiment"] == document.digest
    assert tuple(status["labels"]) == LABELS
    assert [one["number"] for one in status["rounds"]] == list(range(1, history.told + 2))
    assert status["rounds"][-1]["state"] == "open"
    assert all(one["state"] in ("published", "abandoned") for one in status["rounds"][:-1])
    assert status["leakage"]["rounds_told"] == history.told


def test_one_more_round_is_told_and_tags_say_so(history: LongHistory) -> None:
    with history.served() as (_, url):
        _, before, tag = get(url, history.status_path)
        assert get(url, history.status_path, tag)[:2] == (304, b"")
        told = history.tell_next()
        code, after, _ = get(url, history.status_path, tag)
        assert code == 200
        assert get(url, "/v1/nothing")[0] == 404
    old, new = json.loads(before)["rounds"], json.loads(after)["rounds"]
    assert new[: told - 1] == old[: told - 1]
    assert (old[told - 1]["state"], len(new)) == ("open", len(old) + 1)
