"""The quick reader equals the readable one: rows, labels, vocabulary and errors, for any people, however written."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadPeopleFileError
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning
from secvm.people.person import People
from secvm.people.reader import read_people
from secvm.people.source import iter_people
from secvm_lab.rigs.slow_reading import read_slowly

ONE_HASH = HashBinning(n_bins=7, salt=b"salt")
MANY_BINS = HashBinning(n_bins=1 << 20, salt=b"salt")
THREE_HASHES = HashBinning(n_bins=50, salt=b"salt", n_hashes=3)
VOCABULARY = VocabularyBinning(("b", "a", "é", "7", "12", "quite a long word with blanks", "日本"))
BINNINGS: list[Binning | None] = [ONE_HASH, MANY_BINS, THREE_HASHES, VOCABULARY, None]

#: Few words, so that they come twice; any text, so that nothing is special.
WORDS = st.sampled_from(["a", "b", "é", "日本", "x" * 40, "7", "eight888", 'q"\\', "tab\t", "\u2028", "😀", ""])
FEATURES = WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.integers(-3, 12) | st.integers(-(2**22) + 1, 2**22 - 1) | st.sampled_from([3.0, -2.0, 0, 100])
LABELS = st.sampled_from(["f", "m", "é", 'q"', 1, -1, 1.0, 2.5, 0, "1", 1e300]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)
#: One folder for all examples, gone when the tests are: hypothesis knows no fixture for each example.
FOLDER = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

BLANKS = st.sampled_from(["", "", " ", "\t ", "\r"])


@st.composite
def json_lines(draw: st.DrawFn) -> str:
    """A person as some program might write it."""
    ascii_only = draw(st.booleans())

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    if draw(st.booleans()):
        inside = [text(word) for word in draw(st.lists(FEATURES, max_size=40))]
        opening, closing = "[", "]"
    else:
        pairs = draw(st.lists(st.tuples(FEATURES, VALUES), max_size=40))
        inside = [f"{text(word)}{draw(BLANKS)}:{draw(BLANKS)}{text(value)}" for word, value in pairs]
        opening, closing = "{", "}"
    comma = f"{draw(BLANKS)},{draw(BLANKS)}"
    members = [
        f'"label"{draw(BLANKS)}:{draw(BLANKS)}{text(draw(LABELS))}',
        f'"features":{draw(BLANKS)}{opening}{draw(BLANKS)}{comma.join(inside)}{draw(BLANKS)}{closing}',
    ]
    if draw(st.integers(0, 9)) == 0:
        members.append('"extra": [1, {"a": null}]')
    if draw(st.integers(0, 9)) == 0:
        members.insert(0, '"label": "earlier"')
    if draw(st.booleans()):
        members.reverse()
    return draw(BLANKS) + "{" + draw(BLANKS) + comma.join(members) + draw(BLANKS) + "}" + draw(BLANKS)


@st.composite
def svmlight_lines(draw: st.DrawFn) -> str:
    """A person in svmlight, sorted or not."""
    label = draw(st.sampled_from(["+1", "-1", "1", "2.50", "0", "1e2"]))
    indices = draw(st.lists(st.integers(0, 30) | st.integers(0, 10**18 - 1), unique=True, max_size=20))
    if draw(st.booleans()):
        indices.sort()
    values = st.integers(-3, 12).map(str) | st.sampled_from(["3.0", "+4", "1e2", "007", "-0"])
    pairs = [f"{index}:{draw(values)}" for index in indices]
    comment = draw(st.sampled_from(["", "# 1:2", " # note"]))
    return draw(st.sampled_from([" ", "  ", "\t"])).join([label, *pairs]) + draw(BLANKS) + comment


def outcome(read: Callable[[], People]) -> object:
    """What reading gives, as something to compare: the table, or the error's sentence."""
    try:
        people = read()
    except BadPeopleFileError as error:
        return str(error)
    rows = people.rows
    assert rows.bins.dtype == rows.values.dtype == people.label_codes.dtype == np.int32
    return (
        rows.indptr.tolist(),
        rows.bins.tolist(),
        rows.values.tolist(),
        rows.n_bins,
        people.label_names,
        people.label_codes.tolist(),
        people.binning,
        people.n_features,
    )


def both(
    path: Path,
    binning: Binning | None,
    *,
    presence: bool = False,
    count_features: bool = False,
    labels_required: bool = True,
    block_bytes: int = 1 << 18,
) -> tuple[object, object]:
    """The outcomes of the quick and of the readable reader."""

    def quickly() -> People:
        return read_people(
            path,
            binning,
            presence=presence,
            count_features=count_features,
            labels_required=labels_required,
            _block_bytes=block_bytes,
        )

    def slowly() -> People:
        return read_slowly(
            path,
            binning,
            presence=presence,
            count_features=count_features,
            labels_required=labels_required,
        )

    return outcome(quickly), outcome(slowly)


def write(name: str, text: str | bytes) -> Path:
    """A file for one example."""
    path = Path(tempfile.mkdtemp(dir=FOLDER.name)) / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(json_lines() | st.sampled_from(["", " \t"]), min_size=1, max_size=6),
    binning=st.sampled_from(BINNINGS),
    presence=st.booleans(),
    count_features=st.booleans(),
    block_bytes=st.integers(1, 300) | st.just(1 << 18),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_json_read_quickly_equals_json_read_slowly(
    lines: list[str],
    binning: Binning | None,
    presence: bool,
    count_features: bool,
    block_bytes: int,
    line_end: str,
) -> None:
    path = write("people.jsonl", line_end.join(lines))
    quick, slow = both(path, binning, block_bytes=block_bytes, presence=presence, count_features=count_features)
    assert quick == slow


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(svmlight_lines() | st.sampled_from(["", "# only a comment"]), min_size=1, max_size=6),
    binning=st.sampled_from(BINNINGS),
    presence=st.booleans(),
    labels_required=st.booleans(),
    block_bytes=st.integers(1, 100),
)
def test_svmlight_read_quickly_equals_svmlight_read_slowly(
    lines: list[str],
    binning: Binning | None,
    presence: bool,
    labels_required: bool,
    block_bytes: int,
) -> None:
    path = write("people.svm", "\n".join(lines))
    quick, slow = both(path, binning, block_bytes=block_bytes, presence=presence, labels_required=labels_required)
    assert quick == slow


@settings(max_examples=200, deadline=None)
@given(
    line=json_lines().map(str.encode),
    where=st.integers(0, 10**6),
    bite=st.binary(max_size=3),
    binning=st.sampled_from([MANY_BINS, VOCABULARY, None]),
)
def test_a_line_with_some_bytes_changed_gives_the_same_people_or_the_same_error(
    line: bytes, where: int, bite: bytes, binning: Binning | None
) -> None:
    where %= len(line) + 1
    path = write("people.jsonl", b'{"label":1,"features":{"a":1}}\n' + line[:where] + bite + line[where + len(bite) :])
    quick, slow = both(path, binning)
    assert quick == slow


@settings(max_examples=60, deadline=None)
@given(
    line=svmlight_lines().map(str.encode),
    where=st.integers(0, 10**6),
    bite=st.binary(max_size=2) | st.sampled_from([b":", b" ", b"0", b"9", b"#", b"."]),
    labels_required=st.booleans(),
)
def test_a_line_of_svmlight_with_some_bytes_changed_gives_the_same_people_or_the_same_error(
    line: bytes,
    where: int,
    bite: bytes,
    labels_required: bool,
) -> None:
    where %= len(line) + 1
    path = write("people.svm", b"1 3:1\n" + line[:where] + bite + line[where + len(bite) :])
    quick, slow = both(path, MANY_BINS, labels_required=labels_required)
    assert quick == slow


PLAIN = (
    '{"label": "f", "features": {"red": 3, "caf\\u00e9": 1, "blue": -2}}\n'
    "\n"
    '{"features": ["red", "red", "blue", "日本"], "label": "m"}\r\n'
    '{"label": "f", "features": []}'
)


@pytest.mark.parametrize("binning", [MANY_BINS, None])
def test_block_boundaries_at_every_size_change_nothing(binning: Binning | None) -> None:
    path = write("people.jsonl", PLAIN)
    whole, _ = both(path, binning)
    for block_bytes in range(1, len(PLAIN) + 10):
        assert both(path, binning, block_bytes=block_bytes)[0] == whole


@pytest.mark.parametrize("name", ["people.jsonl", "people.jsonl.gz", "people", "people.txt.gz", "mislabelled.GZ"])
def test_name_and_compression_do_not_change_the_people(name: str) -> None:
    path = write(name, PLAIN)
    assert outcome(lambda: read_people(path, None)) == outcome(lambda: read_people(write("p.json", PLAIN), None))


def test_unhashed_bins_are_words_in_byte_order_whatever_the_order_of_people() -> None:
    people = read_people(write("people.jsonl", PLAIN), None)
    assert people.binning == VocabularyBinning(("blue", "café", "red", "日本"))
    assert people.rows.bins.tolist() == [0, 1, 2, 0, 2, 3]
    assert people.rows.values.tolist() == [-2, 1, 3, 1, 2, 1]
    assert people.rows.indptr.tolist() == [0, 3, 6, 6]
    assert people.n_features == 4
    backwards = read_people(write("people.jsonl", "\n".join(PLAIN.split("\n")[::-1])), None)
    assert backwards.binning == people.binning


def test_a_byte_order_mark_is_skipped() -> None:
    marked = write("people.jsonl", b"\xef\xbb\xbf" + PLAIN.encode())
    assert outcome(lambda: read_people(marked, None)) == outcome(lambda: read_people(write("p.jsonl", PLAIN), None))
    assert len(read_people(write("people.svm", b"\xef\xbb\xbf1 1:1\n"), None)) == 1


def test_many_words_make_the_table_grow() -> None:
    lines = [
        json.dumps({"label": k % 3, "features": [f"w{j}" for j in range(k, k + 900)]}) for k in range(0, 9000, 450)
    ]
    quick, slow = both(write("people.jsonl", "\n".join(lines)), None)
    assert quick == slow


def test_long_rows_and_many_equal_words_sort_alike() -> None:
    words = [f"w{j % 700}" for j in range(3000)]
    values = {f"v{j}": 1 - 2 * (j % 2) for j in range(3000)}
    lines = [json.dumps({"label": "a", "features": words}), json.dumps({"label": "a", "features": ["same"] * 5000})]
    path = write("people.jsonl", "\n".join([*lines, json.dumps({"label": "a", "features": values})]))
    for binning in (ONE_HASH, THREE_HASHES, VocabularyBinning(tuple(f"w{j}" for j in range(300))), None):
        for presence in (False, True):
            quick, slow = both(path, binning, presence=presence)
            assert quick == slow


def test_a_feature_taken_back_by_a_later_zero_leaves_no_word() -> None:
    people = read_people(write("p.jsonl", '{"label":1,"features":{"gone":1,"kept":2,"gone":0}}'), None)
    assert people.binning == VocabularyBinning(("kept",))
    assert people.n_features == 1


def test_labels_are_sorted_as_numbers_where_all_are_numbers() -> None:
    lines = "\n".join(f'{{"label": {label}, "features": ["a"]}}' for label in ("10", '"9"', "-1.0", "2.5"))
    people = read_people(write("p.jsonl", lines), ONE_HASH)
    assert people.label_names == ("-1", "2.5", "9", "10")
    assert people.numeric_labels().tolist() == [10.0, 9.0, -1.0, 2.5]
    assert people.label_texts == ["10", "9", "-1", "2.5"]


def test_labels_that_are_not_numbers_refuse_regression() -> None:
    with pytest.raises(BadPeopleFileError, match="not a number"):
        read_people(write("p.jsonl", PLAIN), ONE_HASH).numeric_labels()


def test_labels_may_be_missing_where_they_are_not_required() -> None:
    path = write("p.jsonl", '{"features":["a"]}\n{"features":["a"],"label":null}\n{"label":"x","features":{}}')
    people = read_people(path, ONE_HASH, labels_required=False)
    assert people.label_codes.tolist() == [-1, -1, 0]
    with pytest.raises(BadPeopleFileError, match="line 1: the label is missing"):
        read_people(path, ONE_HASH)
    with pytest.raises(BadPeopleFileError, match="every person"):
        people.numeric_labels()
    svm = read_people(write("p.svm", "3:1 4:2\n1 3:1"), ONE_HASH, labels_required=False)
    assert svm.label_codes.tolist() == [-1, 0]


def test_features_are_counted_on_request() -> None:
    path = write("p.jsonl", PLAIN)
    assert read_people(path, ONE_HASH).n_features is None
    assert read_people(path, ONE_HASH, count_features=True).n_features == 4


def test_without_numba_the_same_people_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("p.jsonl", PLAIN)
    expected = outcome(lambda: read_people(path, None))
    monkeypatch.setattr("secvm.learning._kernels.dispatch.find_spec", lambda _name: None)
    assert outcome(lambda: read_people(path, None)) == expected


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize(
    "odd",
    [
        '{"label":"a","features":["nul\\u0000inside","x"]}',
        '{"label":"a","features":{"nul\\u0000inside":2,"":1,"x":0}}',
        '{"label":"a","features":{"x":true}}',
        '{"label":"a","features":{"x":4194304}}',
        '{"label":"a","features":{"x":36893488147419103232}}',
        '{"label":"a","features":["x",7]}',
        '{"label":"a","features":"text"}',
        '{"label":true,"features":["x"]}',
        '["label","features"]',
        json.dumps({"label": "a", "features": {f"w{j}": 4_000_000 for j in range(3)}}),
    ],
)
def test_of_two_faults_the_first_is_told_of_and_odd_people_are_read_alike(binning: Binning | None, odd: str) -> None:
    usual = '{"label":"b","features":["x","y","x"]}\n{"label":"b","features":{"x":3,"z":1}}'
    too_many = json.dumps({"label": "b", "features": {f"w{j}": -4_000_000 for j in range(3)}})
    for lines in ([usual, odd, usual], [usual, too_many, usual, odd], [usual, odd, too_many, "no JSON"]):
        quick, slow = both(write("people.jsonl", "\n".join(lines)), binning)
        assert quick == slow


def test_progress_ends_at_the_size_of_the_file() -> None:
    path = write("p.jsonl.gz", PLAIN)
    seen: list[tuple[int, int]] = []
    read_people(path, ONE_HASH, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_people_do_not_print_themselves() -> None:
    path = write("p.jsonl", PLAIN)
    for secret in (read_people(path, None), next(iter_people(path))):
        assert "red" not in repr(secret)
        assert "'f'" not in repr(secret)
