"""Batches: roots, pieces, files in order, and nothing left where something was destroyed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.protocol.relays import batches as pieces
from secvm.protocol.relays.batches import capsule_root, capsules_in_piece, piece_count
from secvm.relay.batches import capsule_file
from secvm.relay.batches.capsule_file import CapsuleFile
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.database import destroy_database


def capsule(number: int, size: int = 128) -> bytes:
    return hashlib.shake_256(b"capsule %d" % number).digest(size)


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def traces(whole: bytes, data: bytes) -> bool:
    return any(whole[at : at + 16] in data for at in range(0, len(whole) - 15, 16))


@given(st.integers(0, 2**33))
def test_pieces_of_a_batch_have_all_its_capsules(capsules: int) -> None:
    last = piece_count(capsules)
    assert capsules_in_piece(last, capsules) == capsules_in_piece(-1, capsules) == 0
    full = max(0, last - 1)
    assert full * pieces.PIECE_CAPSULES + (capsules_in_piece(last - 1, capsules) if last else 0) == capsules


def test_a_file_gives_its_capsules_in_order_of_digests_whole_and_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capsule_file, "PIECE_CAPSULES", 7)
    monkeypatch.setattr(capsule_file, "_READ_AT_ONCE", 5)
    file = CapsuleFile(tmp_path / "a.capsules")
    expected = sorted((capsule(number) for number in range(40)), key=lambda one: hashlib.sha256(one).digest())
    assert file.add(map(capsule, range(25)), "first") == 0
    assert file.add(map(capsule, range(20, 40)), "second") == 5
    # A step that was done is done.
    assert file.add(map(capsule, range(90, 99)), "second") == 5
    assert [file.piece(index) for index in range(6)] == [b"".join(expected[at : at + 7]) for at in range(0, 40, 7)]
    assert file.piece(6) == b""
    assert file.root() == capsule_root(sorted(hashlib.sha256(one).digest() for one in expected))
    assert file.count() == 40
    file.close()


def test_a_destroyed_file_leaves_nothing_in_its_folder(tmp_path: Path) -> None:
    file = CapsuleFile(tmp_path / "a.capsules")
    for start in range(0, 600, 100):
        file.add(map(capsule, range(start, start + 100)), f"step {start}")
    there = everything(tmp_path)
    assert all(traces(capsule(number), there) for number in range(600))
    kept = (tmp_path / "a.capsules").open("rb")
    file.close()
    destroy_database(file.path)
    # Also whoever still has the file open reads nothing.
    assert not any(kept.read())
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_keeps_what_came_first(tmp_path: Path) -> None:
    ledger = RoundLedger(tmp_path / "ledger.db")
    label, other = bytes(32), b"\1" * 32
    assert ledger.keep_commitment("e" * 64, 1, b"one") == b"one"
    assert ledger.keep_commitment("e" * 64, 1, b"two") == b"one"
    assert ledger.unnamed() == [("e" * 64, 1)]
    assert ledger.keep_label(label, "e" * 64, 1, [b"seed hash", b"key"], b"manifest")
    assert ledger.keep_label(label, "e" * 64, 1, [b"seed hash", b"key"], b"manifest")
    assert not ledger.keep_label(other, "e" * 64, 1, [b"another"], b"second manifest")
    assert not ledger.keep_label(other, "e" * 64, 2, [b"seed hash"], b"a count seed again")
    assert not ledger.keep_label(other, "f" * 64, 2, [b"key", b"new"], b"a key again")
    assert ledger.unnamed() == []
    assert ledger.mark(label, "batch", b"r")
    assert not ledger.mark(label, "batch", b"s")
    assert ledger.keep_paper(label, "entry_count", b"c") == b"c"
    assert ledger.keep_paper(label, "entry_count", b"d") == b"c"
    ledger.note(label, "handed-on")
    ledger.close()
    ledger = RoundLedger(tmp_path / "ledger.db")
    assert ledger.labels() == [(label, "e" * 64, 1, b"manifest")]
    assert ledger.marked(label, "batch") == b"r"
    assert ledger.paper(label, "mix_count") is None
    assert ledger.is_done(label, "handed-on")
    assert not ledger.is_done(label, "forgotten")
    with pytest.raises(BadInputError, match="in use"):
        RoundLedger(tmp_path / "ledger.db")
    ledger.close()
