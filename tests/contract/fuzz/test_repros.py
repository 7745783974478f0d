"""What fuzzing has found, kept for ever, each under what happened."""

import sqlite3
import struct
from pathlib import Path

import pytest

from secvm.cli.experiment import _specification
from secvm.cli.experiment.remote import _json
from secvm.errors import BadInputError, MalformedMessageError, StoreError
from secvm.participant.storage.state import FILE, DeviceState, _read_vector
from secvm.participant.storage.vault import Vault
from secvm.protocol.canonical import decode_document, encode_document
from secvm.protocol.trust.trusted_rounds import Trusted
from secvm.witness.store import WitnessStore
from secvm_lab.fuzz.registry import TARGETS

DEEP = b"[" * 100_000


def test_repro_a_tree_that_does_not_fit_its_size_was_called_our_own_fault() -> None:
    (good,) = TARGETS["trusted"].seeds()
    content = decode_document(good, max_bytes=2**20)
    with pytest.raises(MalformedMessageError):
        Trusted.from_parts(encode_document(content | {"size": content["size"] + 1}), b"")


@pytest.mark.parametrize("data", [b"", bytes(7), struct.pack("<2q", 8, 1)])
def test_repro_a_cut_off_vector_ended_in_a_traceback(data: bytes) -> None:
    with pytest.raises(StoreError):
        _read_vector(data)


@pytest.mark.parametrize(("column", "value"), [("status", "no such"), ("cohort", "NO_SUCH")])
def test_repro_a_record_of_no_known_kind_ended_in_a_traceback(tmp_path: Path, column: str, value: str) -> None:
    tmp_path.chmod(0o700)
    (data,) = TARGETS["state-file"].seeds()
    (tmp_path / FILE).write_bytes(data)
    db = sqlite3.connect(tmp_path / FILE)
    with db:
        db.execute(f"UPDATE experiment SET {column} = ?", (value,))
    db.close()
    state = DeviceState(tmp_path)
    with pytest.raises(StoreError):
        state.records()
    state.close()


def damaged(name: str, old: bytes, new: bytes) -> bytes:
    (data,) = TARGETS[name].seeds()
    assert old in data
    return data.replace(old, new)


def test_repro_words_of_sqlite_that_are_no_text_ended_in_a_traceback_with_bytes_of_the_file(tmp_path: Path) -> None:
    """SQLite's message quotes the damaged schema, and Python cannot read it as text."""
    tmp_path.chmod(0o700)
    (tmp_path / "vault.db").write_bytes(damaged("vault-file", b"WITHOUT ROWID", b"WITHOUT\xe4ROWID"))
    with pytest.raises(BadInputError):
        Vault(tmp_path)
    (tmp_path / FILE).write_bytes(damaged("state-file", b"WITHOUT ROWID", b"WITHOUT\xe4ROWID"))
    with pytest.raises(BadInputError):
        DeviceState(tmp_path)
    (tmp_path / "witness.db").write_bytes(damaged("witness-store-file", b"CREATE TABLE", b"CREATE TABL\xe4"))
    with pytest.raises(BadInputError):
        WitnessStore(tmp_path / "witness.db")


def test_repro_a_damaged_file_for_which_sqlite_says_it_has_no_memory_ended_in_a_traceback(tmp_path: Path) -> None:
    # The size of the schema's page, in its tree: SQLite takes it for a demand of memory.
    data = (Path(__file__).parent / "no-memory.vault").read_bytes()
    tmp_path.chmod(0o700)
    (tmp_path / "vault.db").write_bytes(data)
    with pytest.raises(BadInputError):
        Vault(tmp_path)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_repro_a_deep_specification_ended_in_a_traceback(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"deep{suffix}"
    path.write_bytes(DEEP if suffix == ".json" else b"a = " + DEEP)
    with pytest.raises(BadInputError, match=r"is no|cannot be read as"):
        _specification(path)


def test_repro_a_deep_answer_of_a_coordinator_ended_in_a_traceback() -> None:
    with pytest.raises(BadInputError, match="not JSON"):
        _json(DEEP)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"received":4', b'"received":"4"'), (b'{"garbage":1}', b"[]"), (b'"kinds":[[1', b'"kinds":[[-1'), (b"{", DEEP)],
)
def test_repro_a_shard_that_counts_what_is_no_number_was_taken(old: bytes, new: bytes) -> None:
    (good,) = TARGETS["shard"].seeds()
    assert old in good
    with pytest.raises(MalformedMessageError):
        TARGETS["shard"].decode(good.replace(old, new, 1))
