"""A log line has no place for what a person typed."""

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError
from secvm.runtime.logs import DIGESTS, FIELDS, FLAGS, NAMES, NUMBERS, Log


class Noon:
    def now(self) -> int:
        return 1_772_366_400_999

    async def sleep_until(self, at: int) -> None:
        raise NotImplementedError


def told(event: str, **fields: Any) -> dict[str, Any]:
    stream = io.StringIO()
    Log(stream, Noon(), "relay").tell(event, **fields)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert text.count("\n") == 1
    line = json.loads(text)
    assert isinstance(line, dict)
    return line


def test_a_line_says_when_who_what_and_numbers() -> None:
    assert told("batch-sent", count=3, ok=True, reason="full", experiment="ab" * 32) == {
        "time": "2026-03-01T12:00:00Z",
        "party": "relay",
        "event": "batch-sent",
        "count": 3,
        "ok": True,
        "reason": "full",
        "experiment": "ab" * 32,
    }


@given(text=st.text() | st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", fullmatch=True) | st.emails())
def test_free_text_has_no_place(text: str) -> None:
    line = told(text, **dict.fromkeys(sorted(FIELDS), text))
    for name in ["event", *sorted(FIELDS)]:
        value = line[name]
        assert value == "refused" or (
            (name == "event" or name in NAMES) and re.fullmatch("[a-z0-9-]{1,40}", value, re.ASCII)
        ) or (name in DIGESTS and re.fullmatch("[0-9a-f]{64}", value))  # fmt: skip


@given(name=st.text(), value=st.text() | st.integers() | st.none() | st.binary() | st.floats())
def test_a_field_that_is_not_on_the_list_is_left_out_with_its_name(name: str, value: object) -> None:
    if name in {*FIELDS, "event", "self"}:
        return
    assert told("e", **{name: value}) == {**told("e"), "fields": "refused"}


@given(value=st.none() | st.binary() | st.floats() | st.lists(st.integers()) | st.integers(min_value=2**53 + 1))
def test_values_of_other_kinds_are_refused(value: object) -> None:
    assert set(told("e", **dict.fromkeys(FIELDS, value)).values()) - set(told("e").values()) == {"refused"}


def test_each_field_takes_its_own_kind_only() -> None:
    for number in NUMBERS:
        assert told("e", **{number: "name"})[number] == told("e", **{number: True})[number] == "refused"
    for flag in FLAGS:
        assert told("e", **{flag: 1})[flag] == told("e", **{flag: "name"})[flag] == "refused"
    for name in NAMES:
        assert told("e", **{name: 1})[name] == told("e", **{name: "ab" * 32})[name] == "refused"
    for digest in DIGESTS:
        assert told("e", **{digest: 1})[digest] == told("e", **{digest: "name"})[digest] == "refused"


def test_a_closed_stream_stops_nobody() -> None:
    stream = io.StringIO()
    log = Log(stream, Noon())
    stream.close()
    log.tell("e")


def test_a_party_has_a_short_name() -> None:
    with pytest.raises(LocalProtocolError):
        Log(io.StringIO(), Noon(), "A person's relay")
