"""Proof files and what witnesses are asked: one spelling, and entries that are where they are said to be."""

import pytest

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import MAX_NOTE_BYTES, NoteKey, NoteSignature
from secvm.crypto.signing import SigningKey
from secvm.errors import BadProofError, BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import (
    CosigningRequest,
    LogProof,
    read_cosignatures,
    read_size,
    write_cosignatures,
    write_size,
)

LOG = SigningKey(b"\1" * 32)
LOG_KEY = NoteKey("log.example/x", LOG.public)
ENTRIES = [b"entry %d" % i for i in range(11)]
TREE = Tree(map(leaf_hash, ENTRIES))
SIGNED = Checkpoint("log.example/x", 11, TREE.root()).sign(LOG)
GOOD = LogProof(6, TREE.inclusion_proof(6), SIGNED).to_bytes()

#: The example of c2sp.org/tlog-witness.
C2SP_ASKED = (
    "old 20852014\n"
    "PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n"
    "jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=\n"
    "5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=\n"
    "/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=\n"
    "\n"
    "example.com/behind-the-sofa\n"
    "20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    "\n"
    "\u2014 example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
)
C2SP_ANSWERED = (
    "\u2014 witness.example/w1 "
    "CMp+6LWBU0anHGH5aNDTJkH/gj79sG+T6+iP2ThYN5krrDJbR1HDnucjL39QsZTSvVjyQLrdk3DXDqI5G2HgLatVs0pWh6Up69HVOw==\n"
    "\u2014 witness.example/w2 "
    "AWui8Sk55XjYLOijihBjhqEH6nS1ndDymE0a+6idX7pLcnoB+dhnz0854aLZgrrKbYKA7nC3HNJhm/kWl7oJlqU3rXXvpysAdyP3wQ==\n"
)


def test_examples_of_the_specification_are_read_and_written_again() -> None:
    asked = CosigningRequest.from_bytes(C2SP_ASKED.encode())
    assert (asked.old, len(asked.path)) == (20_852_014, 4)
    assert asked.to_bytes().decode() == C2SP_ASKED
    answered = read_cosignatures(C2SP_ANSWERED.encode())
    assert [(line.name, len(line.data)) for line in answered] == [
        ("witness.example/w1", 72),
        ("witness.example/w2", 72),
    ]
    assert write_cosignatures(answered).decode() == C2SP_ANSWERED


def test_every_entry_can_be_shown() -> None:
    for index, entry in enumerate(ENTRIES):
        for size in range(index + 1, len(ENTRIES) + 1):
            signed = Checkpoint("log.example/x", size, TREE.root(size)).sign(LOG)
            proof = LogProof.from_bytes(LogProof(index, TREE.inclusion_proof(index, size), signed).to_bytes())
            assert proof.check(entry, log=LOG_KEY).checkpoint.size == size


def test_proof_shows_its_entry_at_its_index_of_its_log_and_nothing_else() -> None:
    proof = LogProof.from_bytes(GOOD)
    with pytest.raises(BadProofError):
        proof.check(ENTRIES[5], log=LOG_KEY)
    with pytest.raises(BadProofError):
        LogProof(5, proof.path, SIGNED).check(ENTRIES[6], log=LOG_KEY)
    with pytest.raises(MalformedMessageError):
        proof.check(ENTRIES[6], log=NoteKey("log.example/y", LOG.public))
    with pytest.raises(BadSignatureError):
        proof.check(ENTRIES[6], log=NoteKey("log.example/x", SigningKey(bytes(32)).public))


def test_more_hashes_than_any_tree_needs_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        LogProof(6, (bytes(32),) * 65, SIGNED).to_bytes()
    with pytest.raises(LocalProtocolError):
        CosigningRequest(6, (bytes(32),) * 64, SIGNED).to_bytes()
    assert CosigningRequest(6, (bytes(32),) * 63, SIGNED).to_bytes()


@pytest.mark.parametrize("data", [b"\xff", b"a\tb\n", bytes(2 * MAX_NOTE_BYTES + 1)])
def test_answers_that_are_no_lines_of_text_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_cosignatures(data)


def test_what_could_not_be_read_is_not_written() -> None:
    for wrong in (LogProof(-1, (), SIGNED), LogProof(0, (b"",), SIGNED), LogProof(0, (), b"no checkpoint")):
        with pytest.raises(LocalProtocolError):
            wrong.to_bytes()
    with pytest.raises(LocalProtocolError):
        write_cosignatures([NoteSignature("a b", bytes(4), bytes(72))])


def test_witness_tells_the_size_that_it_has_seen() -> None:
    assert write_size(12) == b"12\n"
    assert read_size(b"0\n") == 0
    for wrong in (b"", b"12", b"012\n", b"12\n\n", b"-1\n", b"x\n"):
        with pytest.raises(MalformedMessageError):
            read_size(wrong)
