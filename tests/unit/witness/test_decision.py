"""What a witness answers, as a table; and that whatever it is asked, in whatever order, it tells one history."""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.merkle import EMPTY_ROOT
from secvm.crypto.notes import Note, NoteKey, sign_note
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from secvm.witness.decision import (
    CosigningQuestion,
    Growth,
    KnownLog,
    RefusalReason,
    Refuse,
    decide,
    read_question,
)
from secvm.witness.store import MAX_FORKS, WitnessStore
from tests.unit.witness.worlds import (
    COMMON,
    FACES,
    LOG,
    LOG_NAME,
    LOGS,
    MOST,
    ORIGIN,
    OTHER,
    OTHER_NAMES,
    are_a_chain,
    checkpoint,
    question,
    request,
)

# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [LOG_NAME, OTHER_NAMES[0], OTHER_NAMES[-1]])
def test_the_origin_of_a_known_log_is_known(name: str) -> None:
    origin = f"{name}/secvm/v2"
    asked = read_question(request("a", 3, 7, origin=origin), LOGS)
    assert isinstance(asked, CosigningQuestion)
    assert (asked.log, asked.old, asked.checkpoint) == (origin, 3, checkpoint("a", 7, origin))


@pytest.mark.parametrize(
    "origin",
    [
        LOG_NAME,
        f"{LOG_NAME}/secvm/v1",
        f"{LOG_NAME}/secvm/v2/",
        f"{LOG_NAME}/secvm/v2/{'a' * 64}",
        f"{LOG_NAME}/secvm/v1/directory",
        "coordinator.example/secvm/v2",
        f"x{ORIGIN}",
        f"{ORIGIN}/secvm/v2",
    ],
)
def test_other_origins_are_not(origin: str) -> None:
    assert read_question(request("a", 3, 7, origin=origin), LOGS) == Refuse(RefusalReason.UNKNOWN_LOG)


def test_what_the_log_did_not_sign_is_refused() -> None:
    assert read_question(request("a", 3, 7, key=OTHER), LOGS) == Refuse(RefusalReason.BAD_SIGNATURE)
    text = checkpoint("a", 7).to_text()
    elsewhere = Note(text, (sign_note(text, name="somebody.else", key=LOG),)).to_bytes()
    assert read_question(CosigningRequest(0, (), elsewhere).to_bytes(), LOGS) == Refuse(RefusalReason.BAD_SIGNATURE)


def test_lines_of_others_are_passed_over_and_not_kept() -> None:
    own = checkpoint("a", 7).sign(LOG)
    crowded = Note.from_bytes(own)
    for number in range(60):
        crowded = crowded.signed_by(sign_note(crowded.text, name=f"stranger{number}", key=OTHER))
    asked = read_question(CosigningRequest(0, (), crowded.to_bytes()).to_bytes(), LOGS)
    assert isinstance(asked, CosigningQuestion)
    assert asked.note == own


def extended(*lines: str, key: SigningKey = LOG) -> bytes:
    """A first request whose checkpoint has further lines."""
    text = checkpoint("a", 7).to_text() + "".join(f"{line}\n" for line in lines)
    return b"old 0\n\n" + Note(text, (sign_note(text, name=ORIGIN, key=key),)).to_bytes()


def test_further_lines_of_a_checkpoint_are_taken_and_are_signed_with_it() -> None:
    asked = read_question(extended("one more", "and another"), LOGS)
    assert isinstance(asked, CosigningQuestion)
    assert asked.checkpoint == checkpoint("a", 7)
    assert asked.text.endswith("\none more\nand another\n")
    assert decide(None, asked) == Growth.FIRST
    # Nobody agrees on what they say: other lines are no other tree.
    assert decide(checkpoint("a", 7), replace(asked, old=7)) == Growth.RENEWED
    assert read_question(extended("one more", key=OTHER), LOGS) == Refuse(RefusalReason.BAD_SIGNATURE)
    for empty in (("",), ("a", ""), ("", "a")):
        assert read_question(extended(*empty), LOGS) == Refuse(RefusalReason.MALFORMED)


def test_a_log_may_sign_under_another_name_than_its_origin() -> None:
    logs = {ORIGIN: KnownLog(ORIGIN, NoteKey("key.example", LOG.public))}
    text = checkpoint("a", 7).to_text()
    signed = Note(text, (sign_note(text, name="key.example", key=LOG),)).to_bytes()
    asked = read_question(CosigningRequest(0, (), signed).to_bytes(), logs)
    assert isinstance(asked, CosigningQuestion)
    assert (asked.log, asked.note) == ("key.example", signed)
    assert read_question(request("a", 0, 7), logs) == Refuse(RefusalReason.BAD_SIGNATURE)


@given(data=st.data())
def test_a_changed_request_is_refused_or_says_the_same_of_the_log(data: st.DataObject) -> None:
    whole = bytearray(request("a", 3, 7))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    asked = read_question(bytes(whole), LOGS)
    # Size of before and proof are not signed; what the log says is.
    assert isinstance(asked, Refuse) or asked.checkpoint == checkpoint("a", 7)


# ── what follows ─────────────────────────────────────────────────────────────────────────────────────────────────────


seen = checkpoint


@pytest.mark.parametrize(
    ("before", "asked", "answer"),
    [
        (None, question("a", 0, 7), Growth.FIRST),
        (None, question("a", 0, 0), Growth.FIRST),
        (None, question("a", 3, 7), Refuse(RefusalReason.OTHER_SIZE, 0)),
        (seen("a", 0), question("a", 0, 7), Growth.GROWN),
        (seen("a", 3), question("a", 3, 7), Growth.GROWN),
        (seen("a", COMMON), question("b", COMMON, 7), Growth.GROWN),
        (seen("a", 7), question("a", 7, 7), Growth.RENEWED),
        (seen("a", 7), question("a", 3, 7), Refuse(RefusalReason.OTHER_SIZE, 7)),
        (seen("a", 7), question("a", 3, 5), Refuse(RefusalReason.OTHER_SIZE, 7)),
        (seen("a", 7), question("a", 0, 7), Refuse(RefusalReason.OTHER_SIZE, 7)),
        (seen("a", 7), question("a", 9, 8), Refuse(RefusalReason.SHRINKS)),
        (seen("a", 7), question("a", 7, 6), Refuse(RefusalReason.SHRINKS)),
        (seen("a", 7), question("b", 7, 7), Refuse(RefusalReason.FORK, fork=True)),
        # A fork is one, whatever else is wrong with the request and is answered.
        (seen("a", 7), question("b", 3, 7), Refuse(RefusalReason.OTHER_SIZE, 7, fork=True)),
        (seen("a", 7), question("b", 9, 7), Refuse(RefusalReason.SHRINKS, fork=True)),
        (seen("a", 7), question("b", 7, 9), Refuse(RefusalReason.BAD_PROOF)),
    ],
)
def test_decisions(before: Checkpoint | None, asked: CosigningQuestion, answer: Growth | Refuse) -> None:
    assert decide(before, asked) == answer


def test_proofs_where_none_is_needed_are_refused() -> None:
    for before, old, size in ((None, 0, 7), (seen("a", 7), 7, 7)):
        signed = checkpoint("a", size).sign(LOG)
        asked = read_question(CosigningRequest(old, (bytes(32),), signed).to_bytes(), LOGS)
        assert isinstance(asked, CosigningQuestion)
        assert decide(before, asked) == Refuse(RefusalReason.BAD_PROOF)


def test_an_empty_tree_has_one_root() -> None:
    signed = Checkpoint(ORIGIN, 0, bytes(32)).sign(LOG)
    asked = read_question(CosigningRequest(0, (), signed).to_bytes(), LOGS)
    assert isinstance(asked, CosigningQuestion)
    assert decide(None, asked) == Refuse(RefusalReason.BAD_PROOF)
    assert decide(Checkpoint(ORIGIN, 0, EMPTY_ROOT), asked) == Refuse(RefusalReason.FORK, fork=True)


# ── one history ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def new_store() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        WitnessStore.create(path)
        yield path


SIZES = st.integers(0, MOST)
ASKED = st.tuples(st.sampled_from("ab"), SIZES, SIZES, st.sampled_from([None, "proof", "stale"]))


@settings(max_examples=60)
@given(groups=st.lists(st.lists(ASKED, max_size=6) | st.none(), max_size=12))
def test_whatever_is_asked_what_is_cosigned_is_one_history(
    groups: list[list[tuple[str, int, int, str | None]] | None],
) -> None:
    """A group is decided in one transaction; None is a restart."""
    found: list[Checkpoint] = []
    with new_store() as path:
        store = WitnessStore(path)
        for group in groups:
            if group is None:
                store.close()
                store = WitnessStore(path)
                continue
            asked = []
            for face, old, size, spoiled in group:
                # Most often from where the witness stands, else nothing would ever grow.
                at = found[-1].size if found and spoiled != "stale" else old
                one = question(face, at, size)
                path_ = (*one.path, bytes(32)) if spoiled == "proof" else one.path
                asked.append(CosigningQuestion(one.log, one.old, path_, one.checkpoint, one.note))
            for one, decision in zip(asked, store.answer(asked, time_s=0), strict=True):
                if isinstance(decision, Growth):
                    assert not found or one.checkpoint.size >= found[-1].size
                    found.append(one.checkpoint)
            if found:
                assert [one for one, _ in store.seen()] == [found[-1]]
        store.close()
    assert are_a_chain(found)


@settings(max_examples=10)
@given(old=st.integers(0, COMMON), sizes=st.tuples(SIZES, SIZES).filter(lambda pair: min(pair) > COMMON))
def test_of_two_threads_that_would_fork_the_log_one_is_refused(old: int, sizes: tuple[int, int]) -> None:
    with new_store() as path, contextlib.closing(WitnessStore(path)) as store:
        if old:
            store.answer([question("a", 0, old)], time_s=0)
        together = threading.Barrier(8)
        found: list[Checkpoint] = []

        def submit(face: str, size: int) -> None:
            asked = question(face, old, size)
            together.wait()
            (decision,) = store.answer([asked], time_s=0)
            if isinstance(decision, Growth):
                found.append(asked.checkpoint)

        threads = [threading.Thread(target=submit, args=("ab"[i % 2], sizes[i % 2])) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 1
        assert [one for one, _ in store.seen()] == found


def test_evidence_is_kept_as_it_came_first_and_not_without_end() -> None:
    with new_store() as path, contextlib.closing(WitnessStore(path)) as store:
        good = question("a", 0, 7)
        store.answer([good], time_s=5)
        refused = [Checkpoint(ORIGIN, 7, bytes([face]) * 32).sign(LOG) for face in range(MAX_FORKS + 3)]
        # Each at once again, and all of them later.
        twice = [signed for signed in refused for _ in range(2)]
        for time_s, signed in enumerate([*twice, *refused], start=6):
            asked = read_question(CosigningRequest(7, (), signed).to_bytes(), LOGS)
            assert isinstance(asked, CosigningQuestion)
            assert store.answer([asked], time_s=time_s) == [Refuse(RefusalReason.FORK, fork=True)]
        forks = store.forks()
        assert [fork.refused for fork in forks] == refused[:MAX_FORKS]
        assert {fork.cosigned for fork in forks} == {good.note}
        assert [fork.time_s for fork in forks] == list(range(6, 6 + 2 * MAX_FORKS, 2))
        assert store.seen() == [(good.checkpoint, 5)]


def test_the_faces_fork_where_they_should() -> None:
    same = [FACES["a"].root(size) == FACES["b"].root(size) for size in range(MOST + 1)]
    assert same == [size <= COMMON for size in range(MOST + 1)]
    assert not are_a_chain([checkpoint("a", 7), checkpoint("b", 8)])
