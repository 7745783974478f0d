"""Signed notes: known answers of others, one spelling, and signatures that are worth nothing."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.notes import (
    MAX_NOTE_BYTES,
    MAX_NOTE_SIGNATURES,
    MAX_TIME_S,
    Note,
    NoteKey,
    NoteSignature,
    SignatureKind,
    cosign_note,
    is_key_name,
    read_signature_lines,
    sign_note,
    signed_text,
)
from secvm.crypto.signing import SigningKey, VerifyKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError

KEY, OTHER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
TEXT = "a text\n\nof three lines\n"

#: Key and note with which the Go library for signed notes tests itself.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_LINE = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)

#: A cosignature of a checkpoint of Google's binary transparency log, of January 2025, by a witness of that log.
SEEN_KEY = base64.b64decode("pTPPKyRu6Q3PoMkeY+/sNni0biF4vnVTYRHbVNA31mY=")
SEEN_TEXT = (
    "developers.google.com/android/binary_transparency/google1p/0\n5\nxqaCEZhTGZUuKNA7MpSyxe1WXiiESB2p+crAyzM+Vxo=\n"
)
SEEN_SIGNATURE = base64.b64decode(
    "AAAAAGeTKgu4eA3kqUhRSllX2G6XCwVyCpXm/ULJ4iEFlZ2R84lPSKazUuptjKA7kwSX3UIaFrmw/v0rns/uUgavPtC3Hx4H"
)
SEEN_AT = 1_737_697_803

#: The example of c2sp.org/signed-note.
C2SP_NOTE = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned \u00e8 subito sera.\n\n"
    "\u2014 quasimodo.example/salvatore "
    "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
)


def test_note_of_the_go_library_byte_for_byte() -> None:
    key = NoteKey.from_text(GO_KEY)
    assert (key.name, key.kind, key.key_id.hex()) == ("PeterNeumann", SignatureKind.PLAIN, "c74f20a3")
    assert key.to_text() == GO_KEY
    assert key.key == SigningKey(GO_SEED).public
    note = Note(GO_TEXT, (sign_note(GO_TEXT, name="PeterNeumann", key=SigningKey(GO_SEED)),))
    assert note.to_bytes().decode() == f"{GO_TEXT}\n{GO_LINE}"
    assert key.check(Note.from_bytes(note.to_bytes())) is None


def test_cosignature_that_a_stranger_made_verifies() -> None:
    key = NoteKey("witness", VerifyKey(SEEN_KEY), SignatureKind.COSIGNATURE)
    assert key.check(Note(SEEN_TEXT, (NoteSignature("witness", key.key_id, SEEN_SIGNATURE),))) == SEEN_AT


def test_message_of_the_example_of_cosignatures() -> None:
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert signed_text(text, 1_679_315_147).decode() == f"cosignature/v1\ntime 1679315147\n{text}"


def test_example_of_the_specification_is_read() -> None:
    note = Note.from_bytes(C2SP_NOTE.encode())
    assert note.text.endswith("sole:\n\ned \u00e8 subito sera.\n")
    assert [(made.name, len(made.data)) for made in note.signatures] == [("quasimodo.example/salvatore", 64)]
    assert note.to_bytes().decode() == C2SP_NOTE


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cosignature_tells_its_time_and_the_latest_of_several_counts() -> None:
    lines = [cosign_note(TEXT, name="w", key=KEY, time_s=time_s) for time_s in (7, 9, 8)]
    key = NoteKey("w", KEY.public, SignatureKind.COSIGNATURE)
    assert key.check(Note(TEXT, tuple(lines))) == 9
    assert key.check(Note(TEXT, (cosign_note(TEXT, name="w", key=KEY, time_s=0),))) == 0
    assert key.check(Note(TEXT, (cosign_note(TEXT, name="w", key=KEY, time_s=MAX_TIME_S),))) == MAX_TIME_S


def test_time_of_a_cosignature_is_signed() -> None:
    line = cosign_note(TEXT, name="w", key=KEY, time_s=7)
    later = NoteSignature(line.name, line.key_id, (8).to_bytes(8, "big") + line.data[8:])
    with pytest.raises(BadSignatureError):
        NoteKey("w", KEY.public, SignatureKind.COSIGNATURE).check(Note(TEXT, (later,)))


def test_signature_of_one_kind_is_none_of_the_other() -> None:
    plain, witness = NoteKey("w", KEY.public), NoteKey("w", KEY.public, SignatureKind.COSIGNATURE)
    assert plain.key_id != witness.key_id
    signed, cosigned = sign_note(TEXT, name="w", key=KEY), cosign_note(TEXT, name="w", key=KEY, time_s=7)
    for key, line in ((plain, cosigned), (witness, signed)):
        with pytest.raises(BadSignatureError):
            key.check(Note(TEXT, (line,)))
        # Not even under the other's id.
        with pytest.raises(BadSignatureError):
            key.check(Note(TEXT, (NoteSignature("w", key.key_id, line.data),)))


def test_wrong_signature_in_the_name_of_a_known_key_spoils_the_note() -> None:
    key, good = NoteKey("a", KEY.public), sign_note(TEXT, name="a", key=KEY)
    wrong = NoteSignature("a", key.key_id, bytes(64))
    for lines in ((good, wrong), (wrong, good), (wrong,)):
        with pytest.raises(BadSignatureError):
            key.check(Note(TEXT, lines))


def test_signatures_of_others_are_passed_over_even_if_they_share_name_or_id() -> None:
    key = NoteKey("a", KEY.public)
    same_name, same_id = sign_note(TEXT, name="a", key=OTHER), NoteSignature("b", key.key_id, bytes(64))
    key.check(Note(TEXT, (same_name, same_id, sign_note(TEXT, name="a", key=KEY))))
    with pytest.raises(BadSignatureError):
        key.check(Note(TEXT, (same_name, same_id)))


def test_signature_is_of_this_text() -> None:
    line = sign_note(TEXT, name="a", key=KEY)
    with pytest.raises(BadSignatureError):
        NoteKey("a", KEY.public).check(Note(TEXT + "more\n", (line,)))


def test_key_that_is_no_point_signs_nothing() -> None:
    key = NoteKey("a", VerifyKey(b"\x02" + bytes(31)))
    with pytest.raises(BadSignatureError):
        key.check(Note(TEXT, (NoteSignature("a", key.key_id, bytes(64)),)))


def test_further_signatures_are_put_below_and_none_twice() -> None:
    first, second = sign_note(TEXT, name="a", key=KEY), sign_note(TEXT, name="b", key=OTHER)
    note = Note(TEXT, (first,)).signed_by(second, first, second)
    assert note.signatures == (first, second)


# ── one spelling ─────────────────────────────────────────────────────────────────────────────────────────────────────

LINE = sign_note(TEXT, name="a", key=KEY).to_line()


@pytest.mark.parametrize(
    "data",
    [
        "",
        "\n",
        "text\n",
        "text\n\n",
        f"text\n{LINE}",
        f"text\n\n{LINE}\n",
        f"text\n\n{LINE[:-1]}",
        f"text\n\n{LINE}x\n",
        f"te\txt\n\n{LINE}",
        f"te\rxt\n\n{LINE}",
        f"te\0xt\n\n{LINE}",
        f"text\n\n{LINE.replace(chr(0x2014), '-')}",
        f"text\n\n{LINE.replace(' a ', '  ')}",
        f"text\n\n{LINE.replace(' a ', ' ')}",
        f"text\n\n{LINE.replace(' a ', ' a+b ')}",
        f"text\n\n{LINE.replace(' a ', ' a' + chr(0xA0) + 'b ')}",
        f"text\n\n{LINE.replace(' a ', ' a' + chr(0x2028) + 'b ')}",
        f"text\n\n{LINE.replace(' a ', ' a b ')}",
        f"text\n\n{LINE[:-2]}\n",
        f"text\n\n{LINE[:-1]} \n",
        f"text\n\n{LINE[:-1]}=\n",
        "text\n\n\u2014 a AAAAAA==\n",
        "text\n\n\u2014 a AAAAAAB=\n",
        "text\n\n\u2014 a \n",
        f"text\n\n{LINE * (MAX_NOTE_SIGNATURES + 1)}",
        f"{'x' * MAX_NOTE_BYTES}\n\n{LINE}",
    ],
)
def test_what_is_no_note_is_refused(data: str) -> None:
    with pytest.raises(MalformedMessageError):
        Note.from_bytes(data.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(MalformedMessageError):
        Note.from_bytes(b"\xff\n\n" + LINE.encode())


def test_as_many_signatures_as_allowed_are_read() -> None:
    assert len(read_signature_lines(LINE * MAX_NOTE_SIGNATURES)) == MAX_NOTE_SIGNATURES


@pytest.mark.parametrize("text", ["", "no line feed", "a\tb\n", "\ud800\n"])
def test_what_could_not_be_read_is_not_written(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        Note(text, (NoteSignature("a", bytes(4), bytes(64)),)).to_bytes()


def test_note_without_signature_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        Note(TEXT, ()).to_bytes()
    for wrong in (
        NoteSignature("a b", bytes(4), b"1"),
        NoteSignature("a", b"", b"1"),
        NoteSignature("a", bytes(4), b""),
    ):
        with pytest.raises(LocalProtocolError):
            wrong.to_line()
    for time_s in (-1, MAX_TIME_S + 1):
        with pytest.raises(LocalProtocolError):
            cosign_note(TEXT, name="w", key=KEY, time_s=time_s)


# ── keys as text ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=12), st.sampled_from(SignatureKind))
def test_keys_come_back_from_their_text(name: str, kind: SignatureKind) -> None:
    if not is_key_name(name):
        with pytest.raises(LocalProtocolError):
            NoteKey(name, KEY.public, kind)
        return
    key = NoteKey(name, KEY.public, kind)
    assert NoteKey.from_text(key.to_text()) == key


def test_no_part_of_a_key_and_no_changed_one_is_a_key() -> None:
    for start in range(len(GO_KEY)):
        for end in range(start, len(GO_KEY) + 1):
            if GO_KEY[start:end] != GO_KEY:
                refuse(GO_KEY[start:end])
    for at, letter in enumerate(GO_KEY):
        refuse(GO_KEY[:at] + chr(ord(letter) + 1) + GO_KEY[at + 1 :])
    # Too long, and of an unknown kind, each with its right id.
    refuse("PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==")
    refuse("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")


def refuse(text: str) -> None:
    with pytest.raises(MalformedMessageError):
        NoteKey.from_text(text)
