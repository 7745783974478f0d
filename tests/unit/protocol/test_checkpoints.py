"""Checkpoints: one spelling, the log's signature, and a quorum that counts each witness once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.merkle import EMPTY_ROOT, MAX_SIZE, Tree
from secvm.crypto.notes import Note, NoteKey, NoteSignature, SignatureKind, sign_note
from secvm.crypto.signing import SigningKey
from secvm.errors import (
    BadProofError,
    BadSignatureError,
    LocalProtocolError,
    MalformedMessageError,
    StaleCheckpointError,
)
from secvm.protocol.log.checkpoints import (
    MAX_AHEAD_S,
    MAX_ORIGIN_BYTES,
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


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["a", "0", "12", "01", "+1", "A" * 43 + "=", ""])).map("\n".join)
)
def test_any_text_is_refused_or_the_same_checkpoint_again(text: str) -> None:
    try:
        checkpoint = Checkpoint.from_text(text)
    except MalformedMessageError:
        return
    assert checkpoint.to_text() == text


ROOT = "A" * 43 + "="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        f"a\n1\n{ROOT}",
        f"\n1\n{ROOT}\n",
        f"a\n1\n{ROOT}\nextension\n",
        f"a\n1\n{ROOT}\n\n",
        f"a\n01\n{ROOT}\n",
        f"a\n-1\n{ROOT}\n",
        f"a\n+1\n{ROOT}\n",
        f"a\n 1\n{ROOT}\n",
        f"a\n1_0\n{ROOT}\n",
        f"a\n\u0661\n{ROOT}\n",
        f"a\n{MAX_SIZE + 1}\n{ROOT}\n",
        f"a\n\n{ROOT}\n",
        "a\n1\n" + "A" * 42 + "==\n",
        "a\n1\n" + "A" * 42 + "B=\n",
        "a\n1\n" + "A" * 43 + "\n",
        "a\n1\n" + "_" * 43 + "=\n",
        f"{'a' * (MAX_ORIGIN_BYTES + 1)}\n1\n{ROOT}\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(MalformedMessageError):
        Checkpoint.from_text(text)


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_signed_checkpoint_is_believed_and_stays_the_same_bytes() -> None:
    data = CHECKPOINT.sign(LOG)
    signed = read_checkpoint(data, log=LOG_KEY)
    assert signed.checkpoint == CHECKPOINT
    assert signed.data == data


def test_checkpoint_of_another_log_is_refused_though_the_key_is_the_same() -> None:
    data = Checkpoint("log.example/secvm/v1/1", 7, bytes(32)).sign(LOG)
    with pytest.raises(MalformedMessageError):
        read_checkpoint(data, log=LOG_KEY)


def test_strangers_signature_is_not_the_logs() -> None:
    with pytest.raises(BadSignatureError):
        read_checkpoint(CHECKPOINT.sign(STRANGER), log=LOG_KEY)
    text = CHECKPOINT.to_text()
    with pytest.raises(BadSignatureError):
        read_checkpoint(Note(text, (sign_note(text, name="x", key=LOG),)).to_bytes(), log=LOG_KEY)


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


@pytest.mark.parametrize("times", [(), (0,), (None, 0), (None, None, -9999)])
def test_too_few_witnesses_are_none(times: tuple[int | None, ...]) -> None:
    with pytest.raises(BadSignatureError):
        quorum(cosigned(*times))


@pytest.mark.parametrize("times", [(0, -3601), (-3601, -3601, 0), (MAX_AHEAD_S + 1, 0), (2**40, -(NOW_S), 0)])
def test_old_cosignatures_and_those_of_the_future_do_not_count(times: tuple[int, ...]) -> None:
    with pytest.raises(StaleCheckpointError):
        quorum(cosigned(*times))


def test_one_witness_is_not_counted_twice() -> None:
    line = CHECKPOINT.cosign(WITNESSES[0], name=KEYS[0].name, time_s=NOW_S)
    earlier = CHECKPOINT.cosign(WITNESSES[0], name=KEYS[0].name, time_s=NOW_S - 1)
    once = cosigned(0)
    for signed in (
        once.cosigned(earlier),
        SignedCheckpoint(CHECKPOINT, Note(once.note.text, (*once.note.signatures, line, line))),
    ):
        with pytest.raises(BadSignatureError):
            quorum(signed)
        with pytest.raises(BadSignatureError):
            quorum(signed, witnesses=[KEYS[0], KEYS[0], KEYS[1]])


def test_one_key_under_two_names_is_one_witness() -> None:
    twin = NoteKey("twin.example", WITNESSES[0].public, SignatureKind.COSIGNATURE)
    signed = cosigned(0).cosigned(CHECKPOINT.cosign(WITNESSES[0], name=twin.name, time_s=NOW_S))
    with pytest.raises(BadSignatureError):
        quorum(signed, witnesses=[KEYS[0], twin, KEYS[1]])


def test_cosignatures_of_strangers_are_passed_over() -> None:
    lines = [CHECKPOINT.cosign(STRANGER, name=name, time_s=NOW_S) for name in (KEYS[1].name, "elsewhere.example")]
    with pytest.raises(BadSignatureError):
        quorum(cosigned(0).cosigned(*lines))
    assert quorum(cosigned(0, 0).cosigned(*lines))


def test_wrong_cosignature_of_a_known_witness_spoils_the_quorum() -> None:
    wrong = NoteSignature(KEYS[2].name, KEYS[2].key_id, bytes(72))
    with pytest.raises(BadSignatureError):
        quorum(cosigned(0, 0).cosigned(wrong))


def test_cosignature_of_another_checkpoint_is_worth_nothing() -> None:
    other = Checkpoint(ORIGIN, 8, bytes(32)).cosign(WITNESSES[1], name=KEYS[1].name, time_s=NOW_S)
    with pytest.raises(BadSignatureError):
        quorum(cosigned(0).cosigned(other))


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
