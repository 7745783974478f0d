"""Settings are read strictly, and what is wrong is said without saying what stands there."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.runtime.settings import (
    Listen,
    Settings,
    StorePart,
    parse_settings,
    read_settings,
    read_toml,
    settings_text,
    usual_port,
)


class Inner(Settings):
    period_s: int
    token: Path | None = None
    ports: tuple[int, ...] = ()


class Outer(Settings):
    name: str
    rate: float = 1.0
    mode: Literal["forward", "interval"] = "forward"
    epochs: Inner
    peers: tuple[Inner, ...] = ()

    @pydantic.field_validator("rate")
    @classmethod
    def _positive(cls, rate: float) -> float:
        if rate <= 0:
            raise ValueError("should be positive")
        return rate


GOOD = 'name = "n"\nrate = 2\n[epochs]\nperiod_s = 60\ntoken = "a/b"\nports = [1, 2]\n'


def refusal(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(BadInputError) as caught:
        read_settings(path, Outer)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_settings_come_out_with_their_types(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(GOOD)
    found = read_settings(tmp_path / "s.toml", Outer)
    assert found == Outer(name="n", rate=2, epochs=Inner(period_s=60, token=tmp_path / "a/b", ports=(1, 2)))
    with pytest.raises(pydantic.ValidationError):
        found.name = "other"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hidden = 1\n" + GOOD, "hidden is not a setting"),
        (GOOD + "hidden = 1\n", "epochs.hidden is not a setting"),
        (GOOD + "[[peers]]\nperiod_s = 1\nhidden = 3\n", "peers.0.hidden is not a setting"),
        (GOOD + "[hidden]\n", "hidden is not a setting"),
        (GOOD + '"se cret" = 1\n', "epochs.(not a key) is not a setting"),
        ('name = "n"\n', "epochs is missing"),
        ('name = "n"\n[epochs]\n', "epochs.period_s is missing"),
        (GOOD.replace("60", '"60"'), "epochs.period_s should be a valid integer"),
        (GOOD.replace("60", "60.0"), "epochs.period_s should be a valid integer"),
        (GOOD.replace("60", "true"), "epochs.period_s should be a valid integer"),
        (GOOD.replace("60", "1979-05-27"), "epochs.period_s should be a valid integer"),
        (GOOD.replace('"n"', "7"), "name should be a valid string"),
        (GOOD.replace("[1, 2]", '[1, "secret"]'), "epochs.ports.1 should be a valid integer"),
        (GOOD.replace("rate = 2", "rate = nan"), "rate should be a finite number"),
        (GOOD.replace("rate = 2", "rate = -1"), "rate should be positive"),
        (GOOD.replace("rate = 2", 'mode = "secret"'), "mode should be 'forward' or 'interval'"),
        (GOOD.replace("rate = 2", 'rate = "sec'), "cannot be read as TOML (at line 2, column 12)"),
        ("secret", "cannot be read as TOML (at end of document)"),
        (b'name = "\xff"', "cannot be read as TOML: not UTF-8"),
        ("a = " + "[" * 100_000, "cannot be read as TOML"),
        ("a = 1" + "0" * 5000, "cannot be read as TOML"),
        ("a.b = 1\na = 'secret'", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    message = refusal(tmp_path / "s.toml", text)
    assert sentence in message
    assert "secret" not in message


def test_repro_an_unknown_key_went_untold_where_many_were_missing() -> None:
    class Many(Settings):
        a: int
        b: int
        c: int
        d: int
        e: int

    with pytest.raises(BadInputError, match="the file: f is not a setting; a is missing; b is missing"):
        parse_settings('{"f": 1}', Many, "the file")


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(BadInputError, match="cannot read the settings"):
            read_settings(path, Outer)


@given(value=st.text(st.characters(categories=["L", "N"]), min_size=8))
def test_no_value_is_ever_quoted(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.getbasetemp() / "quoted.toml"
    for text in (
        GOOD.replace("60", f'"{value}"'),
        GOOD.replace('"n"', f'["{value}"]'),
        GOOD.replace("[1, 2]", f'{{a = "{value}"}}'),
        GOOD.replace("rate = 2", f'mode = "{value}"'),
        GOOD.replace('"n"', f"{value}é"),
    ):
        assert value not in refusal(path, text)


class Served(Settings):
    listen: Annotated[Listen, usual_port(8480)] = Listen(port=8480)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Listen(host="127.0.0.1", port=8480)),
        ('[listen]\nhost = "::1"\n', Listen(host="::1", port=8480)),
        ("[listen]\nport = 0\n", Listen(host="127.0.0.1", port=0)),
    ],
)
def test_a_party_listens_on_its_usual_port_unless_told_otherwise(tmp_path: Path, text: str, expected: Listen) -> None:
    (tmp_path / "s.toml").write_text(text)
    assert read_settings(tmp_path / "s.toml", Served).listen == expected


def test_what_is_no_place_to_listen_is_refused_by_name(tmp_path: Path) -> None:
    for text in ("[listen]\nport = 65536\n", 'listen = "8480"\n', "[listen]\nports = 1\n"):
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(BadInputError, match="listen"):
            read_settings(tmp_path / "s.toml", Served)


def test_tables_that_are_written_are_read_again(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "first": {"name": 'ü "quoted" \\ \U0001f600', "count": 3, "share": 0.5, "on": True, "of": ["a", "b"]},
        "rows": [{"path": tmp_path}, {}],
        "empty": {},
        "first.rows": [{"n": 1}],
    }
    path = tmp_path / "written.toml"
    path.write_text(settings_text(tables), encoding="utf-8")
    assert read_toml(path) == {
        "first": {**tables["first"], "rows": [{"n": 1}]},
        "rows": [{"path": str(tmp_path)}, {}],
        "empty": {},
    }


def test_every_path_is_relative_to_the_folder_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Inner(Settings):
        key: Path | None = None
        either: int | Path = 1

    class Whole(Settings):
        inner: Inner
        many: tuple[Inner, ...] = ()
        absolute: Path = Path("/dev/shm/default")

    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir("/")
    (tmp_path / "party").mkdir()
    (tmp_path / "party/s.toml").write_text(
        '[inner]\nkey = "state/key"\neither = "../log.policy"\n[[many]]\nkey = "~/key"\n[[many]]\nkey = "/etc/key"\n'
    )
    read = read_settings(tmp_path / "party/s.toml", Whole)
    assert (read.inner.key, read.inner.either) == (tmp_path / "party/state/key", tmp_path / "party/../log.policy")
    assert [inner.key for inner in read.many] == [Path("/home/somebody/key"), Path("/etc/key")]
    assert read.many[0].either == 1
    assert read.absolute == Path("/dev/shm/default")


def test_the_home_of_somebody_unknown_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('path = "~nobody-of-that-name/x"\n')
    with pytest.raises(BadInputError, match="begins with ~"):
        read_settings(tmp_path / "s.toml", StorePart)
