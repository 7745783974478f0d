"""Files with columns: what a column holds, which one is the label, and what is refused without showing a cell."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadPeopleFileError
from secvm.people.columns import has_columns, read_columns
from secvm.people.reader import read_people

TABLE = """,age,city,joined,member,zip,buys
0,31,"Rome, north",2021-03-04,True,007,1.0
1,,Oslo,,false,123,0

2,4.5e1,"Be
rn",2022-12-31,FALSE,04,1
"""


def write(folder: Path, text: str | bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_are_what_all_of_their_cells_are(tmp_path: Path) -> None:
    people = read_columns(write(tmp_path, TABLE), "buys")
    assert people.labels == ["1", "0", "1"]
    assert list(people.frame) == ["age", "city", "joined", "member", "zip"]
    assert people.frame["age"].tolist()[::2] == [31, 45]
    assert np.isnan(people.frame["age"][1])
    assert people.frame["city"] == ["Rome, north", "Oslo", "Be\nrn"]
    assert people.frame["joined"].astype(str).tolist() == ["2021-03-04", "NaT", "2022-12-31"]
    assert people.frame["member"] == [True, False, False]
    assert people.frame["zip"] == ["007", "123", "04"]
    assert "Rome" not in repr(people)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_separator_compression_and_mark_change_nothing(tmp_path: Path, separator: str) -> None:
    plain = "age,city,buys\r\n1,Rome,yes\r\n2,,no\r\n"
    other = gzip.compress(b"\xef\xbb\xbf" + plain.replace(",", separator).encode())
    first = read_columns(write(tmp_path, plain), "buys")
    second = read_columns(write(tmp_path, other, "people.csv.gz"), "buys")
    assert second.labels == first.labels == ["yes", "no"]
    assert second.frame["age"].tolist() == first.frame["age"].tolist() == [1, 2]
    assert second.frame["city"] == first.frame["city"] == ["Rome", None]


def test_columns_that_are_wanted_as_text_stay_it(tmp_path: Path) -> None:
    assert read_columns(write(tmp_path, "zip\n1.0\n"), None, labels_required=False, texts=["zip"]).frame["zip"] == [
        "1.0"
    ]


def test_days_that_do_not_exist_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "day,label\n2021-02-31,a\n")
    assert read_columns(path, "label").frame["day"] == ["2021-02-31"]


def test_who_is_only_predicted_needs_no_label(tmp_path: Path) -> None:
    path = write(tmp_path, "age\n3\n")
    assert read_columns(path, "buys", labels_required=False).labels == [None]
    assert read_columns(path, None, labels_required=False).frame["age"].tolist() == [3]


REFUSED: dict[str, tuple[str | bytes, str | None, str, str]] = {
    "a person as the names": ("31,SECRET,yes\n32,Rome,no\n", "buys", "there is no column 'buys'", ""),
    "no label named": ("age,buys\n1,yes\n", None, "nobody says which one is the label", "one of age, buys"),
    "another label": ("age,buys\n1,yes\n", "bought", "there is no column 'bought'", "There are age, buys."),
    "label missing": ("age,buys\n1,yes\n2,\n", "buys", "line 3: column 'buys' has no label", ""),
    "cells missing": ("age,buys\n1,yes\nSECRET\n", "buys", "line 3: 1 cells, and there are 2 columns", ""),
    "quote left open": ('age,buys\n1,yes\n"SECRET,no\n', "buys", "line 3: this is no CSV", ""),
    "broken quote among the names": ('"age"SECRET,buys\n1,yes\n', "buys", "line 1: this is no CSV", ""),
    "one name twice": ("age,age,buys\n1,2,yes\n", "buys", "line 1: columns 1 and 2 have one name", "Rename"),
    "nobody": ("age,buys\n\n", "buys", "holds no people", ""),
    "nothing": ("", "buys", "line 1: the names of the columns are missing", ""),
    "not UTF-8": (b"age,buys\nSECRET\xff,yes\n", "buys", "line 2: the line is not valid UTF-8", ""),
}


@pytest.mark.parametrize("bad", REFUSED)
def test_what_is_no_table_is_refused_by_its_line(tmp_path: Path, bad: str) -> None:
    content, label, sentence, next_step = REFUSED[bad]
    with pytest.raises(BadPeopleFileError) as caught:
        read_columns(write(tmp_path, content), label)
    assert str(caught.value).startswith(str(tmp_path))
    assert sentence in str(caught.value)
    assert next_step in (caught.value.next_step or "")
    assert "SECRET" not in f"{caught.value}{caught.value.next_step}" + repr(caught.value.__context__)


def test_names_say_what_has_columns() -> None:
    assert all(map(has_columns, ["a.csv", "a.CSV.gz", "a.tsv", "b.parquet"]))
    assert not any(map(has_columns, ["a.jsonl", "a.svm.gz", "csv", "a.gz"]))


def test_repro_a_table_by_another_name_says_what_it_is_taken_for(tmp_path: Path) -> None:
    with pytest.raises(BadPeopleFileError) as caught:
        read_people(write(tmp_path, "age,buys\n1,yes\n", "people.txt"), None)
    assert str(caught.value) == (
        f"{tmp_path / 'people.txt'}: line 1: the label is not a number; as it begins with no {{, the file is taken for "
        "svmlight"
    )
    assert caught.value.next_step == "If it has columns, name it .csv; if it has JSON lines, .jsonl."


def test_repro_bytes_that_are_only_called_gzip_are_told_so(tmp_path: Path) -> None:
    for name, read in (
        ("p.jsonl.gz", lambda path: read_people(path, None)),
        ("p.csv.gz", lambda path: read_columns(path, "a")),
    ):
        with pytest.raises(BadPeopleFileError, match=r"is called \.gz, and is no gzip file$"):
            read(write(tmp_path, bytes(range(128, 256)), name))


def test_repro_a_label_too_large_for_a_number_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("label,a\n1e999,2\n1.0,3\n,4\n")
    assert read_columns(path, label="label", labels_required=False).labels == ["1e999", "1.0", None]
