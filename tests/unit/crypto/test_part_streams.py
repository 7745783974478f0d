"""Streams of a part: the construction written out once more, any place of them, and that nothing is shared."""

import hashlib
from itertools import islice

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.part_streams import MAX_ATTEMPT, PartStream, StreamName, part_key, seals
from secvm.errors import LocalProtocolError

SEED, LABEL, ROOT = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
KEY = part_key(SEED, label=LABEL, root=ROOT, attempt=0)
NAMES: tuple[StreamName, ...] = ("train", "participation", "test", "seals")


def by_blocks(key: bytes, name: str, blocks: int) -> bytes:
    """The keystream block by block, each counter encrypted on its own."""
    stream = hashlib.blake2b(name.encode(), digest_size=32, key=key, person=b"secvm-v2-stream\0").digest()
    cipher = Cipher(AES(stream), ECB()).encryptor()
    return b"".join(cipher.update(i.to_bytes(16, "big")) for i in range(blocks))


def test_the_part_key_is_keyed_blake2_of_label_root_and_attempt() -> None:
    made = hashlib.blake2b(LABEL + ROOT + b"\7\1\0\0", digest_size=32, key=SEED, person=b"secvm-v2-part\0\0\0")
    assert part_key(SEED, label=LABEL, root=ROOT, attempt=263) == made.digest()


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_the_counter_encrypted_under_a_key_of_its_name(name: StreamName) -> None:
    expected = by_blocks(KEY, name, 20)
    assert PartStream(KEY, name).take(320) == expected
    words = [int.from_bytes(expected[at : at + 8], "little") for at in range(0, 320, 8)]
    assert list(islice(PartStream(KEY, name).words(), 40)) == words


@given(st.integers(0, 300), st.lists(st.integers(0, 100), max_size=4))
def test_any_place_can_be_read_and_pieces_follow_each_other(start: int, sizes: list[int]) -> None:
    whole = PartStream(KEY, "train").take(start + sum(sizes))
    stream = PartStream(KEY, "train", start=start)
    assert b"".join(stream.take(size) for size in sizes) == whole[start:]


@given(st.integers(0, 50), st.integers(0, 20))
def test_each_package_has_its_own_64_bytes_of_seals(first: int, count: int) -> None:
    assert seals(KEY, first, count) == PartStream(KEY, "seals").take(64 * (first + count))[64 * first :]


def test_words_go_on_over_the_end_of_a_piece() -> None:
    data = PartStream(KEY, "test").take(3 * 4096)
    words = list(islice(PartStream(KEY, "test").words(), 3 * 512))
    assert b"".join(word.to_bytes(8, "little") for word in words) == data


def test_seed_label_root_attempt_and_name_each_give_another_stream() -> None:
    keys = [
        KEY,
        part_key(ROOT, label=LABEL, root=ROOT, attempt=0),
        part_key(SEED, label=ROOT, root=ROOT, attempt=0),
        part_key(SEED, label=LABEL, root=LABEL, attempt=0),
        part_key(SEED, label=LABEL, root=ROOT, attempt=1),
    ]
    assert len({PartStream(key, name).take(16) for key in keys for name in NAMES}) == len(keys) * len(NAMES)


@pytest.mark.parametrize(
    "change", [{"seed": SEED[1:]}, {"label": b""}, {"root": bytes(33)}, {"attempt": -1}, {"attempt": MAX_ATTEMPT + 1}]
)
def test_what_is_no_part_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        part_key(**({"seed": SEED, "label": LABEL, "root": ROOT, "attempt": 0} | change))  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        PartStream(KEY, "seals", start=-1)


def test_a_stream_does_not_print_its_key() -> None:
    assert repr(PartStream(KEY, "train")) == "PartStream(...)"
