"""News of a round: written and read, and made of a coordinator's files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.protocol.log.entries import ending_entry, experiment_entry
from secvm.protocol.relays.news import News, make_news, news_path, read_news_path
from secvm_lab.rigs.histories.relayed_history import RelayedHistory
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import known_log_terms

OTHER = "d" * 64
part = st.binary(max_size=40)


@given(part, part, part, part, st.integers(0, 2**64 - 1), st.lists(part, max_size=5).map(tuple))
def test_news_are_read_as_they_were_written(
    manifest: bytes, opening: bytes, tally: bytes, checkpoint: bytes, first: int, lines: tuple[bytes, ...]
) -> None:
    news = News(manifest, opening, tally, checkpoint, first if lines else 0, lines)
    data = news.to_bytes()
    assert News.from_bytes(data) == news
    with pytest.raises(MalformedMessageError):
        News.from_bytes(data + b"\0")
    with pytest.raises(MalformedMessageError):
        News.from_bytes(data[:-1])


@given(st.integers(0, 20), st.integers(0, 6), st.integers(0, 30), st.integers(0, 30))
def test_lines_are_given_only_where_all_are_there(first: int, count: int, since: int, size: int) -> None:
    log = [bytes([number]) for number in range(40)]
    news = News(b"m", first_line=first, lines=tuple(log[first : first + count]))
    found = news.lines_between(since, size)
    assert found in (None, tuple(log[since:size]))
    assert (found is not None) == (first <= since <= size == first + count)


def played(rounds: int) -> RelayedHistory:
    history = RelayedHistory(relayed_document(log=known_log_terms()))
    for _ in range(rounds):
        history.announce()
        history.conclude()
    history.announce()
    return history


def test_news_have_all_that_leads_to_the_next_round() -> None:
    history = played(2)
    # Lines of other experiments before and after.
    for entry in (experiment_entry(OTHER), ending_entry(OTHER, OTHER)):
        history.log.append(entry)
    history.log.show(history.files, [history.document.digest])
    place, files = f"/v1/experiment/{history.document.digest}", history.files
    news = make_news(files.get, history.document.digest, 3)
    assert news is not None
    assert news.manifest == files[f"{place}/manifest/3"]
    assert news.opening == files[f"{place}/opening/2"]
    tally = history.rounds[1].opening.tally
    assert tally is None or news.tally == files[f"/v1/blob/{tally}"]
    assert news.checkpoint == files[f"{place}/checkpoint"]
    # After the experiment and the manifest of round 2.
    assert news.first_line == 4
    assert [line.split()[0] for line in news.lines] == [
        b"secvm-v2-opening",
        b"secvm-v2-manifest",
        b"secvm-v2-experiment",
        b"secvm-v2-ending",
    ]
    assert News.from_bytes(news.to_bytes()) == news


def test_an_opening_comes_before_the_next_manifest_without_its_tally() -> None:
    history = played(2)
    manifest = history.files[f"/v1/experiment/{history.document.digest}/manifest/3"]
    assert make_news(history.files.get, history.document.digest, 4) == News(manifest)
    history.conclude()
    news = make_news(history.files.get, history.document.digest, 4)
    assert news is not None
    assert news.opening == history.files[f"/v1/experiment/{history.document.digest}/opening/3"]
    assert (news.manifest, news.tally, len(news.lines)) == (manifest, b"", 1)


@pytest.mark.parametrize("expected", [1, 2, 4, 9])
def test_whoever_expects_another_round_gets_the_newest_manifest_alone(expected: int) -> None:
    history = played(2)
    manifest = history.files[f"/v1/experiment/{history.document.digest}/manifest/3"]
    assert make_news(history.files.get, history.document.digest, expected) == News(manifest)


def test_before_the_first_round_there_are_none_and_its_own_have_no_lines() -> None:
    history = RelayedHistory(relayed_document(log=known_log_terms()))
    digest = history.document.digest
    assert make_news(history.files.get, digest, 1) is None
    history.announce()
    news = make_news(history.files.get, digest, 1)
    assert news is not None
    assert (news.opening, news.tally, news.lines) == (b"", b"", ())
    assert news.checkpoint


def test_files_that_are_not_what_they_should_be_are_left_to_the_device() -> None:
    history = played(1)
    digest = history.document.digest
    place = f"/v1/experiment/{digest}"
    for name in ("opening/1", "checkpoint"):
        files = {**history.files, f"{place}/{name}": b"x"}
        assert make_news(files.get, digest, 2) == News(files[f"{place}/manifest/2"])
    files = {**history.files, f"{place}/manifest/latest": b"x"}
    assert make_news(files.get, digest, 2) == News(b"x")


def test_in_a_log_that_has_grown_by_more_than_two_tiles_lines_are_left_out() -> None:
    history = played(1)
    for number in range(600):
        history.log.append(experiment_entry(f"{number:064x}"))
    history.log.show(history.files, [history.document.digest])
    news = make_news(history.files.get, history.document.digest, 2)
    assert news is not None
    assert news.opening
    assert news.checkpoint
    assert (news.first_line, news.lines) == (0, ())


def test_paths() -> None:
    assert read_news_path(news_path(OTHER, 7)) == (OTHER, 7)
    for below in (f"{OTHER}/news/07", f"{OTHER}/news/0", "x/news/1", f"{OTHER}/news/"):
        assert read_news_path(f"/v1/experiment/{below}") is None
