"""A secret under a passphrase: it comes out with that one alone, whole, and a file cannot ask for gigabytes."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.locking import DEFAULT_COST, MAGIC, MOST_MEMORY_BYTES, Cost, KeptKey, is_kept, is_locked, lock, unlock
from secvm.errors import BadInputError, WrongPassphraseError

CHEAP = Cost(log2_n=10)
WORD = b"correct horse"
LOCKED = lock(b"the secret itself", WORD, lambda count: bytes(range(count)), CHEAP)


@settings(max_examples=25, deadline=None)  # each is two scrypts
@given(secret=st.binary(max_size=200), word=st.binary(min_size=1, max_size=100))
def test_what_is_locked_comes_out_with_its_passphrase(secret: bytes, word: bytes) -> None:
    locked = lock(secret, word, os.urandom, CHEAP)
    assert is_locked(locked)
    assert not is_locked(secret)
    assert unlock(locked, word) == secret
    with pytest.raises(WrongPassphraseError):
        unlock(locked, word + b"!")


@settings(deadline=None)
@given(place=st.integers(len(MAGIC), len(LOCKED) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(place: int, bit: int) -> None:
    changed = bytearray(LOCKED)
    changed[place] ^= 1 << bit
    # A number of the cost may become a larger one: refused before any work, or worked on and not opened.
    with pytest.raises(BadInputError):
        unlock(bytes(changed), WORD)


@pytest.mark.parametrize(
    "cost", [(9, 8, 1), (21, 1, 1), (20, 3, 1), (18, 8, 3), (17, 0, 1), (17, 8, 0), (10, 17, 1), (10, 8, 17)]
)
def test_a_file_cannot_ask_for_more_than_is_done_for_anybody(cost: tuple[int, int, int]) -> None:
    with pytest.raises(BadInputError, match="more work"):
        unlock(MAGIC + bytes(cost) + LOCKED[len(MAGIC) + 3 :], WORD)


def test_the_default_is_worth_its_name_and_within_bounds() -> None:
    assert 2**26 <= 128 * DEFAULT_COST.r << DEFAULT_COST.log2_n <= MOST_MEMORY_BYTES
    assert unlock(lock(b"s" * 32, WORD, os.urandom), WORD) == b"s" * 32


@pytest.mark.parametrize("word", [b"", b"x" * 1025])
def test_a_passphrase_has_some_bytes_and_not_too_many(word: bytes) -> None:
    with pytest.raises(BadInputError, match="a passphrase has"):
        lock(b"secret", word, os.urandom, CHEAP)
    with pytest.raises(BadInputError, match="a passphrase has"):
        unlock(LOCKED, word)


def test_two_locks_of_one_secret_share_nothing() -> None:
    one, other = (lock(b"secret", WORD, os.urandom, CHEAP) for _ in range(2))
    assert one[len(MAGIC) + 3 :] != other[len(MAGIC) + 3 :]


# ── what a device keeps ──────────────────────────────────────────────────────────────────────────────────────────────

KEY = KeptKey(bytes(range(32)))


@given(content=st.binary(max_size=300), place=st.binary(max_size=20))
def test_what_is_kept_comes_out_at_its_place_alone(content: bytes, place: bytes) -> None:
    kept = KEY.lock(content, place, os.urandom)
    assert is_kept(kept)
    assert KEY.unlock(kept, place) == content
    for key, where in ((KEY, place + b"!"), (KeptKey(bytes(32)), place)):
        with pytest.raises(BadInputError, match="does not belong"):
            key.unlock(kept, where)


def test_a_kept_key_does_not_print_itself_and_has_its_length() -> None:
    assert repr(KEY) == "KeptKey(...)"
    with pytest.raises(BadInputError, match="32 bytes"):
        KeptKey(b"short")
