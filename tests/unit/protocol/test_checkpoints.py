"""Checkpoints: one spelling, the log's signature, and a quorum that counts each witness once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.merkle import EMPTY_ROOT, MAX_SIZE, Tree
from secvm.crypto.notes import Note, NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey
from secvm.errors import (
    BadProofError,
    BadSignatureError,
    LocalProtocolError,
    StaleCheckpointError,
)
from secvm.protocol.log.checkpoints import (
    MAX_AHEAD_S,
    Checkpoint,
    Quorum,
    SignedCheckpoint,
    check_enough,
    check_growth,
    read_checkpoint,
)

LOG, STRANGER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
WITNESSES = [SigningKey(bytes([i]) * 32) for i in (11, 12, 13)]
ORIGIN = "log.example/secvm/v1/0"
LOG_KEY = NoteKey(ORIGIN, LOG.public)
KEYS = [NoteKey(f"w{i}.example", key.public, SignatureKind.COSIGNATURE) for i, key in enumerate(WITNESSES)]
NOW_S = 1_767_225_600
CHECKPOINT = Checkpoint(ORIGIN, 7, bytes(range(32)))

#: The example of c2sp.org/tlog-checkpoint with the cosignature of c2sp.org/tlog-cosignature.
C2SP = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "\u2014 example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "\u2014 witness.example.com/w1 "
    "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)


def test_example_of_the_specification_is_read_and_written_again() -> None:
    note = Note.from_bytes(C2SP.encode())
    checkpoint = Checkpoint.from_text(note.text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20_852_163)
    assert checkpoint.root.hex() == "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62"
    assert checkpoint.to_text() == note.text
    log, witness = note.signatures
    assert (log.key_id.hex(), len(log.data)) == ("033de0ae", 64)
    assert (witness.key_id.hex(), int.from_bytes(witness.data[:8], "big"), len(witness.data)) == (
        "8d66cf3f",
        1_679_315_147,
        72,
    )


@given(origin=st.text(max_size=20), size=st.integers(-1, MAX_SIZE + 1), root=st.binary(min_size=31, max_size=33))
def test_what_is_written_is_read_again(origin: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin, size, root)
    good = bool(origin) and "\n" not in origin and 0 <= size <= MAX_SIZE and len(root) == 32
    if not good:
        with pytest.raises(LocalProtocolError):
            checkpoint.to_text()
        return
    assert Checkpoint.from_text(checkpoint.to_text()) == checkpoint


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_signed_checkpoint_is_believed_and_stays_the_same_bytes() -> None:
    data = CHECKPOINT.sign(LOG)
    signed = read_checkpoint(data, log=LOG_KEY)
    assert signed.checkpoint == CHECKPOINT
    assert signed.data == data


def test_key_of_the_wrong_kind_is_a_fault_of_ours() -> None:
    signed = read_checkpoint(CHECKPOINT.sign(LOG), log=LOG_KEY)
    with pytest.raises(LocalProtocolError):
        read_checkpoint(CHECKPOINT.sign(LOG), log=NoteKey(ORIGIN, LOG.public, SignatureKind.COSIGNATURE))
    with pytest.raises(LocalProtocolError):
        signed.times([LOG_KEY])


# ── the quorum ───────────────────────────────────────────────────────────────────────────────────────────────────────


def cosigned(*times: int | None, by: list[SigningKey] = WITNESSES) -> SignedCheckpoint:
    """Cosigned by each witness at its time, counted from now."""
    signed = read_checkpoint(CHECKPOINT.sign(LOG), log=LOG_KEY)
    lines = [
        CHECKPOINT.cosign(key, name=named.name, time_s=NOW_S + time)
        for key, named, time in zip(by, KEYS, times, strict=False)
        if time is not None
    ]
    return signed.cosigned(*lines)


def quorum(signed: SignedCheckpoint, needed: int = 2, witnesses: list[NoteKey] = KEYS) -> dict[NoteKey, int]:
    enough = Quorum(needed, tuple(dict.fromkeys(witness.key for witness in witnesses)))
    return check_enough(signed.times(witnesses), enough, now=1000 * NOW_S, freshness_s=3600)


def test_enough_fresh_cosignatures_are_a_quorum() -> None:
    assert quorum(cosigned(0, None, -3600)) == {KEYS[0]: NOW_S, KEYS[2]: NOW_S - 3600}
    assert quorum(cosigned(MAX_AHEAD_S, -1, -5000)) == {KEYS[0]: NOW_S + MAX_AHEAD_S, KEYS[1]: NOW_S - 1}


@pytest.mark.parametrize(("edge_ms", "beyond_ms"), [(3_600_000, 1), (-1000 * MAX_AHEAD_S, -1)])
def test_freshness_holds_to_the_very_millisecond(edge_ms: int, beyond_ms: int) -> None:
    times, enough = cosigned(0, 0).times(KEYS), Quorum(2, tuple(key.key for key in KEYS))
    at = 1000 * NOW_S + edge_ms
    assert check_enough(times, enough, now=at, freshness_s=3600) == times
    with pytest.raises(StaleCheckpointError):
        check_enough(times, enough, now=at + beyond_ms, freshness_s=3600)


def test_one_key_under_two_names_is_one_witness() -> None:
    twin = NoteKey("twin.example", WITNESSES[0].public, SignatureKind.COSIGNATURE)
    signed = cosigned(0).cosigned(CHECKPOINT.cosign(WITNESSES[0], name=twin.name, time_s=NOW_S))
    with pytest.raises(BadSignatureError):
        quorum(signed, witnesses=[KEYS[0], twin, KEYS[1]])


# ── growth ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(first=st.integers(0, 20), second=st.integers(0, 20))
def test_checkpoints_of_a_growing_log_are_consistent(first: int, second: int) -> None:
    tree = Tree(bytes([i]) * 32 for i in range(20))
    old, new = (Checkpoint(ORIGIN, size, tree.root(size)) for size in (first, second))
    if first > second:
        with pytest.raises(BadProofError):
            check_growth(old, new, ())
        return
    check_growth(old, new, tree.consistency_proof(first, second))
    with pytest.raises(BadProofError):
        check_growth(old, new, (*tree.consistency_proof(first, second), EMPTY_ROOT))


def test_logs_are_not_compared_with_each_other() -> None:
    with pytest.raises(LocalProtocolError):
        check_growth(CHECKPOINT, Checkpoint("other", 7, bytes(range(32))), ())
