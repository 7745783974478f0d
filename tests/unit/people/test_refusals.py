"""Bad files: one sentence, the line's number or the path, and never what the line holds."""

from __future__ import annotations

import gzip
import traceback
from pathlib import Path

import pytest

from secvm.errors import BadInputError, BadPeopleFileError
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.people.reader import read_people, read_split, read_vocabulary
from secvm.people.source import MAX_BLANK_BYTES, iter_people
from secvm_lab.rigs.slow_reading import read_slowly

BINNING = HashBinning(n_bins=100, salt=b"salt")

#: What a line holds, that no error may show: SECRET, and the number 424242.
BAD_JSON = {
    b'{"label": "SECRET", "features": ["SECRET"': "not valid JSON",
    b'{"label": "SECRET", "features": ["SECRET"]} x': "not valid JSON",
    b'{"label": "SECRET", "features": ["SECRET\\ud800"]}': "not valid JSON",
    b'{"label": "SECRET", "features": {"SECRET": NaN}}': "not valid JSON",
    b'{"label": "SECRET", "features": {"SECRET": 007}}': "not valid JSON",
    b'{"label": 424242-1, "features": {"SECRET": 7}}': "not valid JSON",
    b'{"label": "SECRET", "features": ["SECRET\xff"]}': "not valid UTF-8",
    b'{"label": "SECRET", "features": ["SECRET\xed\xa0\x80"]}': "not valid UTF-8",
    b'["SECRET"]': "not a JSON object",
    b"424242": "not a JSON object",
    b'{"features": ["SECRET"]}': "label is missing",
    b'{"label": null, "features": ["SECRET"]}': "string or a number",
    b'{"label": true, "features": ["SECRET"]}': "string or a number",
    b'{"label": ["SECRET"], "features": ["SECRET"]}': "string or a number",
    b'{"label": "SECRET"}': "features are missing",
    b'{"label": "SECRET", "features": "SECRET"}': "list of strings or an object",
    b'{"label": "SECRET", "features": null}': "list of strings or an object",
    b'{"label": "SECRET", "features": ["SECRET", 424242]}': "not a string",
    b'{"label": "SECRET", "features": {"SECRET": 424242.5}}': "not an integer",
    b'{"label": "SECRET", "features": {"SECRET": "424242"}}': "not an integer",
    b'{"label": "SECRET", "features": {"SECRET": true}}': "not an integer",
    b'{"label": "SECRET", "features": {"SECRET": null}}': "not an integer",
    b'{"label": "SECRET", "features": {"SECRET": 1e999}}': "not",
    b'{"label": "SECRET", "features": {"SECRET": 4194304}}': "lies beyond 4194303",
    b'{"label": "SECRET", "features": {"SECRET": -99999999999999999999}}': "lies beyond",
    b'{"label": "SECRET", "features": {"SECRET": 4000000, "424242": 424242}}': "units or more",
}
BAD_SVMLIGHT = {
    b"SECRET 1:1": "label is not a number",
    b"nan 1:1": "label is not a number",
    b"1e999 1:1": "label is not a number",
    b"424242:1 424243:1": "label is missing",
    b"1 qid:424242 1:1": "qid",
    b"1 424242": "index:value",
    b"1 0424242:1": "index",
    b"1 -424242:1": "index",
    b"1 SECRET:1": "index",
    b"1 424242:1 7:1 424242:1": "twice",
    b"1 7:424242.5": "not an integer",
    b"1 7:nan": "not an integer",
    b"1 7:SECRET": "not an integer",
    b"1 7:": "not an integer",
    b"1 7:42424242": "lies beyond",
}


def check(error: pytest.ExceptionInfo[BadPeopleFileError], sentence: str) -> None:
    """The error says the sentence and line 3, and neither it nor anything behind it shows the line."""
    assert sentence in str(error.value)
    assert error.value.line == 3
    assert ": line 3: " in str(error.value)
    assert error.value.line == 3
    assert "\n" not in str(error.value)
    # Of the traceback only the messages count: its source lines are this project's.
    chain = "".join(
        f"{link!r}{vars(link)}" for link in (error.value, error.value.__cause__, error.value.__context__) if link
    )
    assert "SECRET" not in chain
    assert "4242" not in chain
    assert error.value.__cause__ is None
    assert error.value.__context__ is None or error.value.__suppress_context__
    assert traceback.format_exception(error.value)


@pytest.mark.parametrize(("line", "sentence"), BAD_JSON.items())
@pytest.mark.parametrize("binning", [BINNING, None])
def test_a_bad_line_of_json_is_refused_in_one_sentence(
    tmp_path: Path, line: bytes, sentence: str, binning: HashBinning | None
) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b'{"label": 1, "features": {"a": 1}}\n\n' + line + b'\n{"label": 1, "features": ["b"]}\n')
    with pytest.raises(BadPeopleFileError) as error:
        read_people(path, binning)
    check(error, sentence)
    if "units" not in sentence:  # One person alone has no units to count.
        with pytest.raises(BadPeopleFileError) as error:
            list(iter_people(path))
        check(error, sentence)


@pytest.mark.parametrize(("line", "sentence"), BAD_SVMLIGHT.items())
def test_a_bad_line_of_svmlight_is_refused_in_one_sentence(tmp_path: Path, line: bytes, sentence: str) -> None:
    path = tmp_path / "people.svm"
    path.write_bytes(b"1 1:1 # a comment\n# another\n" + line + b"\n-1 2:1\n")
    with pytest.raises(BadPeopleFileError) as error:
        read_people(path, BINNING)
    check(error, sentence)
    with pytest.raises(BadPeopleFileError) as error:
        list(iter_people(path))
    check(error, sentence)


@pytest.mark.parametrize(
    "line", [b'{"label": 1, "features": {"SECRET": -1}}', b'{"label": 1, "features": {"a\\n": -1}}']
)
def test_negative_values_are_refused_as_presence(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b"\n\n" + line)
    with pytest.raises(BadPeopleFileError) as error:
        read_people(path, BINNING, presence=True)
    check(error, "negative")


def test_a_line_break_in_a_feature_is_refused_only_where_features_are_words(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b'\n\n{"label": 1, "features": ["SECRET\\n"]}')
    with pytest.raises(BadPeopleFileError) as error:
        read_people(path, None)
    check(error, "line break")
    assert len(read_people(path, BINNING).rows.bins) == 1
    assert len(read_people(path, VocabularyBinning(("a",))).rows.bins) == 0


def test_too_many_units_are_refused_by_both_readers_alike(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b'{"label": 1, "features": {"a": 4194303}}')
    for binning in (BINNING, None, VocabularyBinning(("a",))):
        with pytest.raises(BadPeopleFileError, match="line 1: the person has 4194303 units or more"):
            read_people(path, binning)
        with pytest.raises(BadPeopleFileError, match="line 1: the person has 4194303"):
            read_slowly(path, binning)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
@pytest.mark.parametrize("name", ["people.jsonl", "people.svm", "people"])
def test_a_file_without_people_is_refused_with_its_path(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadPeopleFileError, match="holds no people") as error:
        read_people(path, BINNING)
    assert str(path) in str(error.value)
    with pytest.raises(BadPeopleFileError, match="holds no people"):
        list(iter_people(path))


def test_a_file_without_features_has_no_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b'{"label": 1, "features": []}')
    assert len(read_people(path, BINNING)) == 1
    with pytest.raises(BadPeopleFileError, match="nobody in the file has a feature"):
        read_people(path, None)


def test_missing_files_and_directories_are_refused_with_their_path(tmp_path: Path) -> None:
    for path, sentence in ((tmp_path / "none.jsonl", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(BadPeopleFileError, match=sentence) as error:
            read_people(path, BINNING)
        assert str(path) in str(error.value)
        assert error.value.__context__ is None or error.value.__suppress_context__


def test_a_file_that_may_not_be_read_is_refused_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by chmod: the tests may run as root, who may read everything.
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "people.jsonl"
    path.touch()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadPeopleFileError, match="may not be read"):
        read_people(path, BINNING)


def test_broken_gzip_is_refused_with_its_path(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"label": 1, "features": ["a", "b", "c"]}\n' * 1000)
    path = tmp_path / "people.jsonl.gz"
    for content, sentence in (
        (whole[: len(whole) // 2], "cut off"),
        (whole[:-4], "cut off"),
        (whole[:20] + b"\0\0\0\0" + whole[24:], "broken"),
        (whole[:-8] + b"\0" * 8, "broken"),
        (whole + b"left over", "broken"),
        (b"\x1f\x8b", "cut off"),
    ):
        path.write_bytes(content)
        with pytest.raises(BadPeopleFileError, match=sentence) as error:
            read_people(path, BINNING)
        assert str(path) in str(error.value)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.people.source.MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "people.jsonl"
    path.write_bytes(b'{"label": 1, "features": [' + b" " * (3 << 20))
    with pytest.raises(BadPeopleFileError, match="longer than 1 MiB"):
        read_people(path, BINNING)


def test_a_vocabulary_is_its_lines_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("zebra\r\n\n\u00e9t\u00e9\n two words".encode())
    assert read_vocabulary(path).words == ("zebra", "\u00e9t\u00e9", " two words")
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert read_vocabulary(path).words == ("a", "b")
    for content, sentence in (
        (b"SECRET\nb\nSECRET\n", "line 3: .* twice"),
        (b"a\nb\n\xff\n", "line 3: .* UTF-8"),
        (b"", "no words"),
    ):
        path.write_bytes(content)
        with pytest.raises(BadPeopleFileError, match=sentence) as error:
            read_vocabulary(path)
        assert "SECRET" not in str(error.value)


def test_a_split_has_one_word_for_each_person(tmp_path: Path) -> None:
    path = tmp_path / "split.txt"
    path.write_text("train\ntest\r\ntrain\n")
    assert read_split(path, 3).tolist() == [True, False, True]
    with pytest.raises(BadInputError, match="3 lines for 4 people"):
        read_split(path, 4)
    path.write_text("train\nSECRET\n")
    with pytest.raises(BadInputError, match="line 2 is neither train nor test") as error:
        read_split(path, 2)
    assert "SECRET" not in str(error.value)


def test_repro_a_file_of_blanks_is_given_up_after_a_mebibyte(tmp_path: Path) -> None:
    path = tmp_path / "blank.gz"
    path.write_bytes(gzip.compress(b" " * (MAX_BLANK_BYTES + 2**16)))
    with pytest.raises(BadPeopleFileError, match="nothing but blanks in the first 1 MiB") as caught:
        read_people(path, BINNING)
    assert caught.value.next_step


def test_blank_lines_before_the_first_person_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "people"
    path.write_bytes(b"\n" * 20_000 + b'{"label": "SECRET"}\n')
    with pytest.raises(BadPeopleFileError, match="line 20001"):
        read_people(path, BINNING)
    path.write_bytes(b" " * (MAX_BLANK_BYTES - 2**12) + b'{"label": "a", "features": ["b"]}\n')
    assert len(read_people(path, BINNING)) == 1
