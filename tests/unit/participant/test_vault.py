import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.rows import MAX_UNITS
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Provenance, Vault
from secvm.people.person import MAX_VALUE

FEATURES = st.dictionaries(st.text(), st.integers(-1000, 1000), max_size=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "device"


#: What a device keeps in files of its person's own: how it is opened, the file, and what is said of foreign files.
KEPT = pytest.mark.parametrize(
    ("kind", "name", "foreign"),
    [
        (Vault, "vault.db", ("the file is no vault", "the file is a database, but no vault")),
        (DeviceState, "state.sqlite", ("this is no state of a device", "this is no state of a device")),
    ],
    ids=["vault", "state"],
)


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


@settings(max_examples=25)  # each makes a vault on disk
@given(first=FEATURES, second=FEATURES, other=FEATURES)
def test_put_replaces_a_source_and_all_sources_add_up(
    first: dict[str, int], second: dict[str, int], other: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Vault(tmp_path_factory.mktemp("vault")) as vault:
        vault.put("a", first)
        vault.put("b", other)
        vault.put("a", second)
        assert vault.features("a").value == {name: value for name, value in second.items() if value}
        sums = {name: second.get(name, 0) + other.get(name, 0) for name in {**second, **other}}
        assert vault.features().value == {name: value for name, value in sums.items() if value}


def test_features_are_counted_and_forgotten_by_source(folder: Path) -> None:
    with Vault(folder) as vault:
        assert vault.summary() == {}
        vault.put("firefox", {"a": 5, "b": 1, "absent": 0})
        vault.put("csv", {"a": 1})
        assert vault.summary() == {"csv": 1, "firefox": 2}
        vault.forget("firefox")
        vault.forget("never-there")
    with Vault(folder) as vault:
        assert (vault.summary(), vault.answered()) == ({"csv": 1}, [])


def test_vault_of_the_first_version_is_brought_up_to_date(folder: Path) -> None:
    with Vault(folder) as vault:
        vault.put("csv", {"a": 1})
    with closing(sqlite3.connect(folder / "vault.db")) as db:
        db.executescript("DROP TABLE readings; DROP TABLE excluded; PRAGMA user_version = 1")
    with Vault(folder) as vault:
        assert (vault.summary(), vault.readings(), vault.excluded()) == ({"csv": 1}, {}, frozenset())


def test_repro_word_with_a_star_excludes_no_other_host(folder: Path) -> None:
    with Vault(folder) as vault:
        vault.put("csv", {"host:a.example:8443": 1, "*": 1, "c[at": 1})
        assert vault.exclude(["*", "c[at"]) == 2
        assert vault.summary() == {"csv": 1}


def test_what_is_excluded_goes_with_all_hosts_below_and_nothing_else(folder: Path) -> None:
    kept = {"host:notbank.example": 1, "host:bank.example.org": 2, "bank": 3}
    gone = {"host:bank.example": 1, "host:bank.example:8443": 1, "host:a.bank.example": 1, "host:a.bank.example:1": 1}
    with Vault(folder) as vault:
        vault.put("history", kept | gone | {"money": 1})
        vault.put("diary", {"money": 1})
        assert vault.exclude(["bank.example", "money"]) == len(gone) + 2
        assert vault.features().value == kept
        vault.include(["money"])
        assert vault.excluded() == {"bank.example"}


def test_how_a_source_was_read_goes_with_it(folder: Path) -> None:
    with Vault(folder) as vault:
        vault.put("history", {"a": 1}, Provenance("history-titles", 5, 30))
        assert vault.readings() == {"history": Provenance("history-titles", 5, 30)}
        vault.put("history", {"a": 1})
        assert vault.readings() == {}


@KEPT
def test_folder_and_files_are_the_persons_alone(
    folder: Path, kind: type[Vault | DeviceState], name: str, foreign: tuple[str, str]
) -> None:
    before = os.umask(0)
    try:
        with closing(kind(folder)) as opened:
            opened.forget("anything")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {name: 0o600, f"{name}-wal": 0o600, f"{name}-shm": 0o600}
    (folder / name).chmod(0o644)
    kind(folder).close()
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, "opened to others, and closed again"


@KEPT
def test_what_is_not_the_persons_own_is_refused_and_left_alone(
    folder: Path, kind: type[Vault | DeviceState], name: str, foreign: tuple[str, str]
) -> None:
    folder.mkdir()
    folder.chmod(0o750)
    with pytest.raises(BadInputError, match="others may look into this folder"):
        kind(folder)
    assert list(folder.iterdir()) == []
    folder.chmod(0o700)
    file = folder / name
    file.write_bytes(b"a letter to my aunt, long enough to be no header of a database " * 40)
    with pytest.raises(BadInputError, match=foreign[0]):
        kind(folder)
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE letters (text)")
    before = file.read_bytes()
    with pytest.raises(BadInputError, match=foreign[1]):
        kind(folder)
    assert file.read_bytes() == before
    file.unlink()
    kind(folder).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 7")
    before = file.read_bytes()
    with pytest.raises(BadInputError, match="another version"):
        kind(folder)
    assert file.read_bytes() == before


@pytest.mark.parametrize("all_at_once", [True, False], ids=["everything", "one source"])
def test_forgotten_features_are_in_no_file(folder: Path, all_at_once: bool) -> None:
    words = {f"quokka{i}": 1 for i in range(3000)}
    with Vault(folder) as vault:
        vault.put("firefox", words)
        vault.set_label("sex", "wombat-label")
        assert b"quokka" in everything_in(folder)
        vault.forget(None if all_at_once else "firefox")
        assert vault.features().value == {}
        assert (vault.label("sex") is None) == all_at_once
        while_open = everything_in(folder)
    for content in (while_open, everything_in(folder)):
        assert b"quokka" not in content
        assert (b"wombat-label" in content) == (not all_at_once)


def test_replaced_features_and_labels_are_in_no_file(folder: Path) -> None:
    with Vault(folder) as vault:
        vault.put("firefox", {f"quokka{i}": 1 for i in range(3000)})
        vault.put("firefox", {"numbat": 1})
        vault.set_label("sex", "wombat-label")
        vault.set_label("sex", "bilby-label")
        vault.set_label("age", "potoroo-label")
        vault.forget_label("age")
        content = everything_in(folder)
    assert b"numbat" in content
    assert b"bilby-label" in content
    assert [word for word in (b"quokka", b"wombat-label", b"potoroo-label") if word in content] == []


def test_forget_says_when_a_reader_keeps_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.runtime.disk.sqlite_file._PATIENCE_S", 0.0)
    with Vault(folder) as vault, closing(sqlite3.connect(folder / "vault.db", isolation_level=None)) as reader:
        vault.put("csv", {"quokka": 1})
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM features").fetchone()
        with pytest.raises(BadInputError, match="another program reads it"):
            vault.forget()
        reader.execute("COMMIT")
        vault.forget()
        assert b"quokka" not in everything_in(folder)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ({"secret": MAX_VALUE + 1}, f"a feature's value lies beyond {MAX_VALUE}"),
        ({"secret": -MAX_VALUE - 1}, f"a feature's value lies beyond {MAX_VALUE}"),
        ({"secret": True}, "a feature's value is not an integer"),
        ({"secret": 1.0}, "a feature's value is not an integer"),
        ({b"secret": 1}, "a feature is not text"),
        ({"secret\ud800": 1}, "a feature is no valid Unicode text"),
        (
            {f"secret{i}": MAX_VALUE for i in range(MAX_UNITS // MAX_VALUE + 1)},
            f"a person has {MAX_UNITS} units or more, too many to count exactly",
        ),
    ],
)
def test_bad_features_are_one_sentence_and_change_nothing(
    folder: Path, features: dict[str, int], sentence: str
) -> None:
    with Vault(folder) as vault:
        vault.put("csv", {"before": 1})
        with pytest.raises(BadInputError) as caught:
            vault.put("csv", {"good": 1, **features})
        assert str(caught.value) == sentence
        assert vault.features().value == {"before": 1}


@pytest.mark.parametrize("text", ["", "a\nb", "half \ud800", "x" * 1001])
def test_bad_names_and_labels_are_refused_without_their_content(folder: Path, text: str) -> None:
    with Vault(folder) as vault:
        with pytest.raises(BadInputError, match=r"^a label must be printable text of 1 to 1000 bytes$"):
            vault.set_label("sex", text)
        with pytest.raises(BadInputError, match=r"^the name of a label must be printable text"):
            vault.set_label(text, "a")
        with pytest.raises(BadInputError, match=r"^the name of a source must be printable text"):
            vault.put(text, {})
        assert vault.label(text) is None


def test_place_that_cannot_be_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="the vault cannot be opened"):
        Vault(tmp_path / "file" / "device")


def test_two_openers_share_one_vault(folder: Path) -> None:
    with Vault(folder) as first, Vault(folder) as second:
        first.put("csv", {"a": 1})
        second.put("jsonl", {"b": 1})
        assert first.features().value == second.features().value == {"a": 1, "b": 1}
