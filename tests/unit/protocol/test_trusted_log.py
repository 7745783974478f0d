"""The log as a device believes it: every line of every experiment, and of its own exactly what was served."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.merkle import Frontier
from secvm.errors import (
    BadProofError,
    BadSignatureError,
    CheatingError,
    MalformedMessageError,
    RemoteProtocolError,
    StaleCheckpointError,
    StaleRoundError,
)
from secvm.protocol.canonical import Fields
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.entries import (
    MAX_LOG_ENTRIES,
    Document,
    Entry,
    ending_entry,
    experiment_entry,
    manifest_entry,
    opening_entry,
)
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.trust.trusted_log import Appended, Checking, SeenLog, TrustedLog
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from tests.seeds import seed_for
from tests.unit.protocol.helpers import LOG, START, WITNESSES, log_terms

MINE, OTHER, THIRD = (f"{i:02x}" * 32 for i in (1, 2, 3))
TERMS = log_terms()


def digest(of: object) -> str:
    return random.Random(f"{of}").randbytes(32).hex()


@dataclass
class World:
    """A log, and one device that follows an experiment of it."""

    openings: bool = False
    log: WitnessedLog = field(default_factory=lambda: WitnessedLog(TERMS.log_key.name, LOG))
    #: What the device believes of the newest round.
    believed: list[Document] = field(default_factory=list)

    def __post_init__(self) -> None:
        experiment = SimpleNamespace(cover=() if self.openings else None)
        of: Any = SimpleNamespace(log=TERMS, digest=MINE, experiment=experiment)
        self.trusted = TrustedLog(
            of, b"envelope", policy=None, checking=Checking(), seen=SeenLog(), believed=lambda: self.believed
        )

    @property
    def seen(self) -> SeenLog:
        return self.trusted.seen

    def note(self, size: int | None = None, *, witnesses: int = 2, age_s: int = 0) -> bytes:
        signed = self.log.checkpoint(size)
        lines = [
            signed.checkpoint.cosign(key, name=f"w{i}.example", time_s=START // 1000 - age_s)
            for i, key in enumerate(WITNESSES[:witnesses])
        ]
        return signed.cosigned(*lines).data

    def new_lines(self) -> list[bytes]:
        return self.log.entries[self.seen.frontier.size :]

    def look(self, *served: Entry) -> SeenLog:
        told = [Document(entry, entry.to_bytes()) for entry in served]
        return self.trusted.grow(self.note(), self.new_lines(), told)

    def believe(self, *served: Entry) -> None:
        self.trusted.seen = self.look(*served)


def world(*entries: Entry, openings: bool = False) -> World:
    made = World(openings)
    for entry in entries:
        made.log.append(entry)
    return made


def convicted(caught: pytest.ExceptionInfo[CheatingError]) -> Evidence:
    evidence = Evidence.from_bytes(caught.value.evidence)
    for logged in evidence.entries:
        # Whoever has the log's key alone sees that the line is there.
        LogProof.from_bytes(logged.proof).check(logged.entry, log=TERMS.log_key)
    return evidence


E0, M1, M2, END = (
    experiment_entry(MINE),
    manifest_entry(MINE, 1, digest("m1")),
    manifest_entry(MINE, 2, digest("m2")),
    ending_entry(MINE, digest("end")),
)
O1, O2 = opening_entry(MINE, 1, digest("o1")), opening_entry(MINE, 2, digest("o2"))
NOISE = [experiment_entry(OTHER), manifest_entry(OTHER, 1, digest("x")), experiment_entry(THIRD)]


@pytest.mark.parametrize("openings", [False, True])
def test_any_honest_interleaving_in_any_steps_is_believed(openings: bool) -> None:
    dice = random.Random(seed_for("interleaving", openings))
    own = [E0, M1, O1, M2, O2, END] if openings else [E0, M1, M2, END]
    for _ in range(40):
        made, served, rest = World(openings), [], list(own)
        while rest:
            for _ in range(dice.randrange(4)):
                made.log.append(manifest_entry(OTHER, dice.randint(1, 9), dice.randbytes(32).hex()))
            entry = rest.pop(0)
            made.log.append(entry)
            # The experiment itself is what the device has joined; only what comes after it is served.
            served += [] if entry is E0 else [entry]
            if dice.random() < 0.5 or not rest:
                made.believe(*served)
                served = []
                assert made.seen.frontier.root == made.log.tree.root()
                content = Fields(made.seen.to_content(), "kept")
                assert SeenLog.from_fields(content) == made.seen
        assert made.seen.entry == END


def test_a_line_that_is_none_spoils_the_log_for_everybody() -> None:
    made = world(E0)
    made.log = WitnessedLog(made.log.origin, LOG, [*made.log.entries, b"secvm-v3-manifest\n", M1.to_bytes()])
    with pytest.raises(MalformedMessageError):
        made.look(M1)


def test_what_was_served_is_what_was_logged_no_more_and_no_less() -> None:
    made = world(E0, M1, M2)
    with pytest.raises(StaleRoundError, match="grown"):
        made.look(M1)
    with pytest.raises(BadProofError, match="not yet"):
        made.look(M1, M2, END)
    with pytest.raises(BadProofError):
        made.look(M2)
    assert made.look(M1, M2).entry == M2


@pytest.mark.parametrize(
    ("before", "after", "openings"),
    [
        ([], [M1], False),
        ([E0], [M2], False),
        ([E0, M1], [M1], False),
        ([E0, M1, M2], [M1], False),
        ([E0, M1], [E0], False),
        ([E0, M1, END], [M2], False),
        ([E0, M1], [O1], False),
        ([E0, M1], [M2], True),
        ([E0, M1], [END], True),
        ([E0, M1, O1], [O1], True),
    ],
)
def test_an_entry_that_cannot_come_next_is_never_believed(
    before: list[Entry], after: list[Entry], openings: bool
) -> None:
    made = world(*before, openings=openings)
    if before:
        made.believe(*before[1:])
    for entry in [*NOISE, *after]:
        made.log.append(entry)
    with pytest.raises(RemoteProtocolError):
        made.look(*after)
    with pytest.raises(RemoteProtocolError):
        made.look()


def test_another_document_than_the_logged_one_convicts() -> None:
    other = manifest_entry(MINE, 1, digest("another"))
    made = world(*NOISE, E0, other, *NOISE[:1])
    with pytest.raises(CheatingError) as caught:
        made.look(M1)
    evidence = convicted(caught)
    assert (evidence.kind, evidence.documents) == (Kind.NOT_IN_LOG, (M1.to_bytes(),))
    assert evidence.entries[0].entry == other.to_bytes()


def test_a_second_entry_for_the_round_that_is_believed_convicts() -> None:
    made = world(*NOISE, E0, M1)
    made.believe(M1)
    made.believed = [Document(M1, b"m1")]
    made.log.append(NOISE[0])
    made.log.append(manifest_entry(MINE, 1, digest("another")))
    for act in (
        made.look,
        lambda: made.trusted.compare(made.note(), made.new_lines()),
    ):
        with pytest.raises(CheatingError) as caught:
            act()
        assert convicted(caught).kind is Kind.NOT_IN_LOG


def test_two_entries_that_cannot_both_stand_there_convict() -> None:
    made = world(*NOISE)
    made.trusted.seen = SeenLog(made.note(), _edge(made), None)
    for entry in (E0, M1, NOISE[0], E0):
        made.log.append(entry)
    with pytest.raises(CheatingError) as caught:
        made.look(M1)
    evidence = convicted(caught)
    assert evidence.kind is Kind.TWO_ENTRIES
    assert [Entry.from_bytes(one.entry) for one in evidence.entries] == [M1, E0]


def _edge(made: World) -> Frontier:
    frontier = Frontier()
    for index in range(made.log.tree.size):
        frontier = frontier.append(made.log.tree.node(0, index))
    return frontier


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quorum_counts_lately_and_for_an_ending_at_any_time() -> None:
    made = world(E0, M1)
    made.trusted.check_quorum(made.note(), now=START)
    for over in (False, True):
        with pytest.raises(BadSignatureError):
            made.trusted.check_quorum(made.note(witnesses=1), now=START, over=over)
    old = made.note(age_s=TERMS.freshness_s + 1)
    with pytest.raises(StaleCheckpointError):
        made.trusted.check_quorum(old, now=START)
    made.trusted.check_quorum(old, now=START, over=True)


def test_a_log_that_is_too_long_is_refused_before_a_line_is_fetched() -> None:
    made = world(E0)
    for size, fits in ((MAX_LOG_ENTRIES, True), (MAX_LOG_ENTRIES + 1, False), (2**63 - 1, False)):
        note = Checkpoint(made.log.origin, size, bytes(32)).sign(LOG)
        if fits:
            assert made.trusted.missing_lines(note) == size
        else:
            with pytest.raises(MalformedMessageError, match="no log has more"):
                made.trusted.missing_lines(note)


def test_a_second_tree_of_the_size_that_was_seen_convicts() -> None:
    made = world(E0, M1)
    made.believe(M1)
    fork = WitnessedLog(made.log.origin, LOG, [E0.to_bytes(), M2.to_bytes()])
    with pytest.raises(CheatingError, match="forked") as caught:
        made.trusted.missing_lines(fork.checkpoint().data)
    assert Evidence.from_bytes(caught.value.evidence).kind is Kind.FORKED_LOG


# ── a fresh look ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fresh_look_takes_other_experiments_entries_and_no_own_ones() -> None:
    made = world(*NOISE, E0, M1)
    made.believe(M1)
    made.believed = [Document(M1, b"m1")]
    made.trusted.compare(made.note(), ())
    for entry in (manifest_entry(OTHER, 2, digest("y")), ending_entry(OTHER, digest("z"))):
        made.log.append(entry)
        made.trusted.compare(made.note(), made.new_lines())
    # The next round, the ending, or anything else of this experiment: not while the window is open.
    for entry in (M2, END, O1):
        later = World(log=made.log.branch())
        later.trusted.seen = made.seen
        later.log.append(entry)
        with pytest.raises(BadProofError):
            made.trusted.compare(later.note(), later.new_lines())
    with pytest.raises(StaleCheckpointError):
        made.trusted.compare(made.note(2), ())
    with pytest.raises(MalformedMessageError):
        made.trusted.compare(made.note(), ())


# ── what can be shown to others ──────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 70), st.integers(1, 70))
def test_whoever_keeps_the_edge_can_prove_every_line_since(before: int, count: int) -> None:
    log = WitnessedLog(TERMS.log_key.name, LOG, [experiment_entry(digest(i)).to_bytes() for i in range(before + count)])
    frontier = Frontier()
    for index in range(before):
        frontier = frontier.append(log.tree.node(0, index))
    signed = log.checkpoint()
    appended = Appended(frontier, log.entries[before:], signed)
    assert [one.index for one in appended.entries] == list(range(before, before + count))
    for placed in appended.entries:
        assert appended.proof(placed) == LoggedEntry(log.entries[placed.index], log.proof(placed.index, signed))
