import gzip
import sys
from importlib import metadata
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.participant.sources import registry
from secvm.participant.sources.port import Options, Source
from secvm.participant.sources.registry import find_source, import_from, list_sources
from secvm.participant.storage.vault import Vault


def read(source: str, file: Path | None, **given: str) -> dict[str, int]:
    return find_source(source).read(Options(home=Path("/nowhere"), now=0, path=file, given=given))


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8", newline="")
    return file


def test_one_person_of_a_people_file(tmp_path: Path) -> None:
    lines = '{"label": "a", "features": ["quokka", "quokka"]}\n\n{"features": {"numbat": 3, "gone": 0}}\n'
    file = written(tmp_path, "people.jsonl", lines)
    assert read("people", file, line="1") == {"quokka": 2}
    assert read("people", file, line="3") == {"numbat": 3}
    packed = tmp_path / "people.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    assert read("people", packed, line="3") == {"numbat": 3}
    assert read("people", written(tmp_path, "one.svm", "1 7:2 9:-1\n")) == {"7": 2, "9": -1}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (None, "the file holds several people; say which one is meant"),
        ("2", "line 2 of the file holds nobody"),
        ("9", "line 9 of the file holds nobody"),
        ("0", "line must be a whole number, 1 or more"),
    ],
)
def test_person_that_is_not_there_is_one_sentence(line: str | None, sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path, "people.jsonl", '{"features": ["a"]}\n\n{"features": ["b"]}\n')
    with pytest.raises(BadInputError) as caught:
        read("people", file, **({} if line is None else {"line": line}))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("Quokka\nnumbat\r\n\nQuokka\n", {}, {"Quokka": 2, "numbat": 1}),
        ("quokka,3\nnumbat, 1\nquokka,-1\n", {}, {"quokka": 2, "numbat": 1}),
        ("word,n\nquokka,3\n", {"header": "yes"}, {"quokka": 3}),
        ("n,word\n3,quokka\n", {"column": "word", "count": "n"}, {"quokka": 3}),
        ("n,word\n3,quokka\n", {"column": "word"}, {"quokka": 1}),
        ("3,quokka,x\n", {"column": "2", "count": "1"}, {"quokka": 3}),
        ('"two\nlines, and a comma"\n', {}, {"two\nlines, and a comma": 1}),
        ("A quokka\nquokka quokka!\n", {"split": "yes"}, {"quokka": 2}),
        ("\ufeffquokka\n", {}, {"quokka": 1}),
    ],
)
def test_words_of_a_table(text: str, given: dict[str, str], expected: dict[str, int], tmp_path: Path) -> None:
    assert read("csv", written(tmp_path, "words.csv", text), **given) == expected


@pytest.mark.parametrize(
    ("text", "given", "sentence"),
    [
        ("word,count\nsecret,3\n", {}, "line 1: the count is not a whole number"),
        ("secret,3\nsecret,many\n", {}, "line 2: the count is not a whole number"),
        ("secret," + "9" * 5000 + "\n", {}, "line 1: the count lies beyond 4194303"),
        ("secret\n", {"column": "2"}, "line 1: the row has no such column"),
        ("a,b\n", {"column": "secret"}, "the file's header names no such column"),
        ('"secret\n', {}, "line 1: the row is no valid CSV"),
        ("x" * 200_000, {}, "line 1: the row is no valid CSV"),
        ("secret\n", {"colum": "1"}, "this source has no option 'colum'"),
    ],
)
def test_bad_tables_are_one_sentence(text: str, given: dict[str, str], sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path, "words.csv", text)
    with pytest.raises(BadInputError) as caught:
        read("csv", file, **given)
    assert str(caught.value).removeprefix(f"{file}: ") == sentence


def test_words_of_json_lines(tmp_path: Path) -> None:
    file = written(tmp_path, "words.jsonl", '"Quokka one"\n["numbat", "numbat"]\n\n{"Quokka one": 2, "gone": 0}\n')
    assert {word: n for word, n in read("jsonl", file).items() if n} == {"Quokka one": 3, "numbat": 2}
    assert read("jsonl", written(tmp_path, "titles.jsonl", '"Quokka! quokka"\n"a quokka"\n'), split="yes") == {
        "quokka": 2
    }


@pytest.mark.parametrize("line", ["secret", "3", '["secret", 3]', '{"secret": 1.5}', '{"secret": true}', "null"])
def test_bad_json_lines_are_one_sentence(line: str, tmp_path: Path) -> None:
    file = written(tmp_path, "words.jsonl", f'"good"\n{line}\n')
    with pytest.raises(BadInputError, match="line 2: the line is") as caught:
        read("jsonl", file)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("source", ["people", "csv", "jsonl"])
def test_file_that_is_no_utf8_or_not_there_is_one_sentence(source: str, tmp_path: Path) -> None:
    file = tmp_path / "words"
    with pytest.raises(BadInputError, match="no such file"):
        read(source, file)
    file.write_bytes(b'{"secret\xff\n')
    with pytest.raises(BadInputError, match="line 1: ") as caught:
        read(source, file)
    assert "secret" not in str(caught.value)
    with pytest.raises(BadInputError, match="needs the path of a file"):
        read(source, None)


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Diary:
    name = "diary"
    about = "Words of a diary."

    def read(self, options: Options) -> dict[str, int]:
        match options.text("mood"):
            case "gone":
                return {}
            case "broken":
                raise KeyError("a secret of the diary")
            case "strange":
                return {"secret": 10**9}
        return {"quokka": 1, "absent": 0}


def plug_in(monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    entries = metadata.EntryPoints(metadata.EntryPoint(name, value, registry.GROUP) for name, value in targets.items())
    monkeypatch.setattr(metadata, "entry_points", entries.select)


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setitem(sys.modules, "a_diary", sys.modules[__name__])
    plug_in(monkeypatch, diary="a_diary:Diary", history="a_diary:Diary", lost="no_such_module:x", none="a_diary:GROUPS")
    return find_source("diary")


def test_plug_in_is_listed_and_found_beside_the_built_in_ones(diary: Source) -> None:
    sources = list_sources()
    assert list(sources) == [
        "history-titles",
        "history-hosts",
        "history",
        "people",
        "csv",
        "jsonl",
        "diary",
        "lost",
        "none",
    ]
    assert sources["diary"] == "Words of a diary."
    assert sources["lost"] == sources["none"] == "A plug-in that cannot be loaded."
    assert "browser" in sources["history"], "a plug-in does not take a built-in source's place"


def test_import_keeps_what_a_source_gives(diary: Source, tmp_path: Path) -> None:
    options = Options(home=tmp_path, now=0)
    with Vault(tmp_path / "device") as vault:
        assert import_from(diary, options, vault) == 1
        assert import_from(diary, options, vault, keep_as="old diary") == 1
        assert vault.summary() == {"diary": 1, "old diary": 1}


@pytest.mark.parametrize(
    ("mood", "sentence"),
    [
        ("gone", "the source gave no features; the vault is as it was"),
        ("broken", "the source 'diary' failed (KeyError)"),
        ("strange", "a feature's value lies beyond 4194303"),
    ],
)
def test_source_that_fails_leaves_the_vault_as_it_was(mood: str, sentence: str, diary: Source, tmp_path: Path) -> None:
    with Vault(tmp_path / "device") as vault:
        vault.put("diary", {"before": 1})
        with pytest.raises(BadInputError) as caught:
            import_from(diary, Options(home=tmp_path, now=0, given={"mood": mood}), vault)
        assert str(caught.value) == sentence
        assert vault.features().value == {"before": 1}


def test_source_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, lost="no_such_module:x", strange="os:sep")
    with pytest.raises(BadInputError, match="there is no source 'netscape'"):
        find_source("netscape")
    with pytest.raises(BadInputError, match=r"leads to no source: that has name, about and read\(options\)"):
        find_source("strange")
    with pytest.raises(BadInputError, match=r"the plug-in of the source 'lost' cannot be loaded \(ModuleNotFoundError"):
        find_source("lost")
