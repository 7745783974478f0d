"""Canonical documents: one content, one spelling."""

import json
import unicodedata
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import (
    MAX_INTEGER,
    Fields,
    check_digest,
    decode_document,
    digest_of,
    encode_document,
    escaped,
    first_unprintable,
    plain,
    ratio_text,
)

KEYS = st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
LEAVES = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXT
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
CONTENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def depth(value: object) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + max(map(depth, inner), default=-1)


@given(CONTENTS.filter(lambda content: depth(content) < 8))
def test_content_comes_back_and_its_bytes_are_the_only_ones(content: dict[str, Any]) -> None:
    data = encode_document(content)
    assert decode_document(data, max_bytes=len(data)) == content
    assert encode_document(decode_document(data, max_bytes=len(data))) == data
    # Any other spelling of the same content is refused.
    for other in (json.dumps(content), json.dumps(content, indent=1), data.decode() + "\n", " " + data.decode()):
        if other.encode() != data:
            with pytest.raises(MalformedMessageError):
                decode_document(other.encode(), max_bytes=10**6)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'"a"',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-0}',
        b'{"a":01}',
        b'{"a":9007199254740992}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"b":1,"a":1}',
        b'{"A":1}',
        b'{"":1}',
        '{"ä":1}'.encode(),
        b'{"a": 1}',
        b'{"a":1}\n',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\x01"}',
        b'{"a":"' + b"\xed\xa0\x80" + b'"}',
        b'{"a":' + b"[" * 9 + b"]" * 9 + b"}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"{'a':1}",
    ],
)
def test_what_is_not_canonical_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_document(data, max_bytes=10**6)


def test_long_documents_are_refused_before_they_are_read() -> None:
    data = encode_document({"a": "x" * 100})
    with pytest.raises(MalformedMessageError):
        decode_document(data, max_bytes=len(data) - 1)


@pytest.mark.parametrize(
    "content", [{"a": 1.5}, {"a": 2**53}, {"A": 1}, {1: 1}, {"a": b"x"}, {"a": "\ud800"}, {"a": (1,)}]
)
def test_what_cannot_be_said_is_not_written(content: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_document(content)


def test_digest_is_that_of_the_bytes_as_served() -> None:
    assert digest_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert check_digest(b"abc", digest_of(b"abc")) == b"abc"
    with pytest.raises(MalformedMessageError):
        check_digest(b"abd", digest_of(b"abc"))


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("take", "good", "bad"),
    [
        (lambda f: f.text("x", longest=3), ["", "abc", "ä"], ["abcd", "ää", 1, None, ["a"]]),
        (lambda f: f.integer("x", 1, 3), [1, 3], [0, 4, True, "1", None]),
        (lambda f: f.flag("x"), [True, False], [0, 1, None, "true"]),
        (
            lambda f: f.ratio("x"),
            ["0", "-1/2", "12"],
            ["2/4", "1/1", "-0", "+1", "1/0", "0/3", ".5", "1e3", 1, "9" * 81],
        ),
        (lambda f: f.digest("x"), ["0" * 64], ["0" * 63, "0" * 66, "A" * 64, 0]),
        (lambda f: f.hexadecimal("x", shortest=0, longest=2), ["", "ff", "00aa"], ["0", "FF", "gg", "000000", None]),
        (
            lambda f: f.base64("x", longest=3),
            ["", "AAA=", "abcd"],
            ["AAB=", "AAA", "AA A=", "AAAAAAAA", "-_==", 1, "ä"],
        ),
        (lambda f: f.items("x", shortest=1, longest=2), [[1], [1, 2]], [[], [1, 2, 3], {}, "ab"]),
        (lambda f: f.counts("x", longest=2), [[], [0, 5]], [[-1], [True], ["1"], [0, 0, 0]]),
        (lambda f: f.inner("x").done(), [{}], [[], {"y": 1}, None]),
        (lambda f: f.null("x"), [None], [0, "", False, {}]),
        (lambda f: f.constant("x", "y"), ["y"], ["z", None, 1]),
    ],
)
def test_fields_take_what_fits_and_refuse_the_rest(take: Any, good: list[object], bad: list[object]) -> None:
    for value in good:
        fields = Fields({"x": value}, "the test")
        take(fields)
        fields.done()
    for value in bad:
        with pytest.raises(MalformedMessageError):
            take(Fields({"x": value}, "the test"))
    with pytest.raises(MalformedMessageError):
        take(Fields({}, "the test"))


def test_left_over_fields_are_refused() -> None:
    fields = Fields({"x": 1, "y": 1}, "the test")
    fields.integer("x", 0)
    with pytest.raises(MalformedMessageError):
        fields.done()


def test_rationals_of_too_many_digits_are_not_written() -> None:
    assert ratio_text(Fraction(-3, 6)) == "-1/2"
    with pytest.raises(LocalProtocolError):
        ratio_text(Fraction(1, 10**80))


# ── which characters texts may hold ──────────────────────────────────────────────────────────────────────────────────

#: Characters that Unicode calls formatting and that documents may hold: signs that are seen (Arabic numbers, Syriac,
#: Kaithi), joiners of hieroglyphs, and the two joiners without a shape that languages and emoji need.
SEEN = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
JOINERS = {0x200C, 0x200D}


def test_every_control_and_format_character_is_on_the_list_or_has_a_reason() -> None:
    unseen = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    # Behind these planes are the one of tags and those of private use, which are refused whole.
    allowed = {code for code in range(0x40000) if first_unprintable(chr(code)) is None}
    # Which of them an older Unicode knows depends on Python.
    assert {code for code in allowed if unicodedata.category(chr(code)) in unseen} <= SEEN | JOINERS
    assert allowed >= SEEN | JOINERS
    assert all(first_unprintable(chr(code)) == 0 for code in (0xE0000, 0xE0100, 0xEFFFF, 0xF0000, 0x10FFFF))


def test_texts_of_many_languages_are_printable() -> None:
    for text in (
        "",
        "Größe?",
        "می\u200cخواهم",
        "👩\u200d🚀 ❤\ufe0f",
        "日本語\u3000です",
        "שלום",
        "e\u0301",
    ):
        assert first_unprintable(text) is None
        assert plain(text) == text


def test_the_first_that_is_not_printable_is_found_by_its_place() -> None:
    assert first_unprintable("tea\x1b[31m\x07") == 3
    assert first_unprintable("one\ntwo") == 3
    assert first_unprintable("\U000e0041") == 0


def test_plain_text_keeps_its_lines_and_nothing_that_moves_a_cursor() -> None:
    assert plain("a\x1b[2J\x9b1m\rb\n\u202ec\t\ud800") == "a?[2J?1m?b\n?c??"


def test_escaped_json_has_the_same_values() -> None:
    values = ["a\u009b2J", "\u202e\u2028", "\U000e0041", "\x7f", "é👩\u200d🚀"]
    text = escaped(json.dumps(values, ensure_ascii=False))
    assert json.loads(text) == values
    assert first_unprintable(text) is None
