"""Which characters texts may hold: a fixed list, and what becomes of them where they are printed all the same."""

import json
import unicodedata

from secvm.protocol.canonical import escaped, first_unprintable, plain

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
