"""A device's session with two relays, event by event: one request, its times, its retries, and every restart."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.plain.session_events import Abstain, Declined, Paused, Reason, Restarted, Resumed, Tick, Wait
from secvm.protocol.plain.session_memory import Phase
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.session import (
    NotTaken,
    Prepare,
    RelayedAction,
    RelayedEvent,
    RelayedSession,
    RequestReady,
    RequestRow,
    RoundAnnounced,
    RoundDone,
    SendRequest,
    Stopped,
    Taken,
)
from secvm.protocol.relays.submission import read_request, receipt_for
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, STRANGER
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.effort import scaled
from tests.seeds import seed_for

FIRST = SealedRound(clients=2)
SECOND = SealedRound(clients=2, round_number=2, before=FIRST.manifest, opening_before=FIRST.opening)
#: Two ways to seal the same round: a device that did it twice would send the other one.
MADE = {(one.round_number, which): one.submissions[which] for one in (FIRST, SECOND) for which in (0, 1)}
INSTANTS = FIRST.manifest.instants
BEFORE = INSTANTS.opens_at - 30_000


def dice(purpose: str, number: int = 0) -> Iterator[int]:
    thrown = random.Random(seed_for(purpose, number))
    return iter(lambda: thrown.getrandbits(64), None)


@dataclass
class Owner:
    """Stores what a session says, and can begin again from that."""

    words: Iterator[int] = field(default_factory=lambda: dice("session"))
    now: int = BEFORE

    def __post_init__(self) -> None:
        self.session = RelayedSession(FIRST.document)
        self.header = b""
        self.row: RequestRow | None = None
        self.kept: list[int] = []

    def tell(self, event: RelayedEvent, *, stored: bool = True) -> list[RelayedAction]:
        actions = self.session.receive(event, now=self.now, words=self.words)
        if stored:
            self.store()
        return actions

    def store(self) -> None:
        changes = self.session.take_changes()
        self.header = self.header if changes.header is None else changes.header
        if changes.forget:
            self.row = None
        if changes.sealed is not None:
            self.row = RequestRow(*changes.sealed)
        if changes.taken is not None:
            self.kept.append(changes.taken.round_number)

    def restart(self) -> list[RelayedAction]:
        self.session = (
            RelayedSession.from_parts(self.header, self.row, FIRST.document)
            if self.header
            else RelayedSession(FIRST.document)
        )
        return self.tell(Restarted())


def announced(one: SealedRound) -> RoundAnnounced:
    return RoundAnnounced(one.manifest.signed([COORDINATOR]), None)


def receipt(one: SealedRound, body: bytes) -> bytes:
    digests = [capsule_digest(capsule) for capsule in read_request(body, budget=FIRST.document.budget)]
    return receipt_for(one.label, digests).signed(ENTRY)


def sending() -> Owner:
    owner = Owner()
    assert owner.tell(announced(FIRST))[0] == Prepare(FIRST.manifest)
    owner.tell(RequestReady(MADE[1, 0]))
    return owner


def due(owner: Owner) -> SendRequest:
    """Move to the request's time."""
    for _ in range(3):
        for action in owner.tell(Tick()):
            if isinstance(action, SendRequest):
                return action
            if isinstance(action, Wait):
                owner.now = action.until
    raise AssertionError("no request was due")


def test_one_request_at_a_moment_of_the_window_and_a_receipt_ends_it() -> None:
    owner = sending()
    request = due(owner)
    assert INSTANTS.opens_at <= owner.now < INSTANTS.closes_at
    assert (request.label, request.body) == (FIRST.label, MADE[1, 0].body)
    assert owner.tell(Taken(receipt(FIRST, request.body))) == [RoundDone(1, receipt=True)]
    assert (owner.row, owner.kept, owner.session.phase) == (None, [1], Phase.IDLE)
    assert owner.tell(Tick()) == []


@pytest.mark.parametrize("answer", [b"", receipt_for(FIRST.label, FIRST.submission).signed(STRANGER)])
def test_what_is_no_receipt_is_asked_for_again(answer: bytes) -> None:
    owner = sending()
    first = due(owner)
    owner.tell(Taken(answer))
    assert owner.kept == []
    assert due(owner) == first
    owner.tell(Taken(receipt(FIRST, MADE[1, 1].body)))  # of somebody else's request
    assert owner.kept == []
    assert due(owner) == first


def test_nothing_leaves_for_the_first_time_after_the_window_but_retries_do_until_accept_until() -> None:
    owner = sending()
    owner.now = INSTANTS.closes_at
    assert owner.tell(Tick()) == [RoundDone(1, receipt=False)]
    assert (owner.row, owner.kept) == (None, [])
    again = sending()
    due(again)
    again.now = INSTANTS.closes_at + 1
    again.tell(NotTaken())
    again.now += 3999
    assert isinstance(again.tell(Tick())[0], SendRequest)
    again.tell(NotTaken())
    again.now = INSTANTS.accept_until
    assert again.tell(Tick()) == [RoundDone(1, receipt=False)]


def test_repro_what_is_not_taken_in_the_last_seconds_is_sent_again() -> None:
    owner = sending()
    first = due(owner)
    owner.now = INSTANTS.accept_until - 3_000
    owner.tell(NotTaken())
    assert due(owner) == first
    assert owner.now < INSTANTS.accept_until
    owner.tell(Taken(receipt(FIRST, first.body)))
    assert owner.kept == [1]


def test_repro_retries_do_not_pile_up_before_accept_until() -> None:
    owner = sending()
    attempts = 0
    while owner.session.phase is Phase.SENDING:
        due(owner)
        attempts += 1
        owner.tell(NotTaken())
        assert attempts < 60
    assert owner.now < INSTANTS.accept_until


def test_a_pause_holds_and_a_late_request_gets_another_moment() -> None:
    owner = sending()
    owner.tell(Paused())
    request = owner.session._request
    assert request is not None
    owner.now = request.at + 1
    assert [type(action) for action in owner.tell(Tick())] == [Wait]
    moments = set()
    for number in range(20):
        back = Owner(words=dice("after a pause", number), now=owner.now)
        back.header, back.row = owner.header, owner.row
        back.restart()
        moments |= {action.until for action in back.tell(Resumed()) if isinstance(action, Wait)}
    assert len(moments) > 10, "what is overdue is drawn anew"
    assert all(owner.now <= at <= INSTANTS.closes_at for at in moments)


@pytest.mark.parametrize(
    ("now", "ahead", "reason"),
    [
        (INSTANTS.opens_at, None, Reason.LATE),
        (BEFORE, 61_000, Reason.CLOCK),
    ],
)
def test_it_abstains_and_says_why(now: int, ahead: int | None, reason: Reason) -> None:
    owner = Owner(now=now)
    told = owner.tell(RoundAnnounced(FIRST.manifest.signed([COORDINATOR]), ahead))
    assert told == [Abstain(reason, reason.value)]
    assert owner.session.phase is Phase.IDLE


def test_declined_stopped_and_too_late() -> None:
    owner = Owner()
    owner.tell(announced(FIRST))
    assert owner.tell(Declined("no")) == [Abstain(Reason.DECLINED, "no")]
    with pytest.raises(LocalProtocolError):
        owner.tell(Declined("no"))
    with pytest.raises(LocalProtocolError):
        owner.tell(RequestReady(MADE[1, 0]))
    late = Owner()
    late.tell(announced(FIRST))
    late.now = INSTANTS.closes_at
    assert late.tell(RequestReady(MADE[1, 0])) == [Abstain(Reason.OVER, Reason.OVER.value)]
    stopped = sending()
    assert stopped.tell(Stopped("why")) == [RoundDone(1, receipt=False), Abstain(Reason.DISTRUST, "why")]
    assert stopped.row is None


def test_another_manifest_for_the_same_round_is_none() -> None:
    owner = sending()
    other = SealedRound(clients=2, document=FIRST.document)
    assert not any(isinstance(action, Prepare) for action in owner.tell(announced(other))), "the same bytes"
    with pytest.raises(LocalProtocolError):
        owner.tell(RequestReady(MADE[1, 1]))
    owner.now = SECOND.manifest.instants.opens_at - 1
    owner.tell(announced(SECOND))
    with pytest.raises(LocalProtocolError):
        owner.tell(announced(FIRST))


def test_parts_that_do_not_fit_together_are_no_session() -> None:
    owner = sending()
    row = owner.row
    assert row is not None
    for header, broken in (
        (owner.header, None),
        (owner.header, RequestRow(row.body[:-1], row.canary)),
        (owner.header, RequestRow(row.body, SECOND.submissions[0].canary.to_bytes())),
        (owner.header.replace(b'"sending"', b'"idle"'), row),
        (owner.header.replace(b'"sending"', b'"asleep"'), row),
        # It never stops for good: what convicts a server is its owner's.
        (re.sub(rb'"(at|attempts)":\d+', rb'"\1":null', owner.header).replace(b'"sending"', b'"stopped"'), None),
        (b"{}", row),
    ):
        with pytest.raises(MalformedMessageError):
            RelayedSession.from_parts(header, broken, FIRST.document)


# ── lists of operations, with kills between storing and doing ────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", range(scaled(60, 3_000)))
def test_whatever_happens_a_round_has_one_request(number: int) -> None:
    thrown = random.Random(seed_for("session op lists", number))
    owner = Owner(words=dice("session op lists, dice", number))
    sent: dict[bytes, set[bytes]] = {}
    wanted = False
    for _ in range(60):
        match thrown.randrange(8):
            case 0:
                event: RelayedEvent = announced(thrown.choice([FIRST, FIRST, SECOND]))
            case 1 | 2 if wanted:
                event = RequestReady(MADE[owner.session.manifest.round_number, thrown.randrange(2)])  # type: ignore[union-attr]
            case 3:
                event = Paused() if thrown.random() < 0.5 else Resumed()
            case 4:
                event = NotTaken(thrown.choice([0, 0, 5_000]), final=thrown.random() < 0.05)
            case 5 if sent:
                label = thrown.choice(sorted(sent))
                one = FIRST if label == FIRST.label else SECOND
                event = Taken(receipt(one, thrown.choice(sorted(sent[label]))))
            case _:
                event = Tick()
        owner.now += thrown.choice([0, 1, 1000, 20_000, 100_000])
        killed = thrown.random() < 0.25
        try:
            actions = owner.tell(event, stored=not killed)
        except LocalProtocolError:
            actions, killed = [], False
        if killed:
            # Nothing was stored, so nothing was done; or it was stored and not done.
            if thrown.random() < 0.5:
                owner.store()
            actions = owner.restart()
        wanted = owner.session.phase is Phase.COMPUTING
        for action in actions:
            if isinstance(action, SendRequest):
                sent.setdefault(action.label, set()).add(action.body)
                assert owner.row is not None
                assert owner.row.body == action.body, "nothing leaves that is not stored"
        assert (owner.row is None) == (owner.session.phase is not Phase.SENDING)
    assert all(len(bodies) == 1 for bodies in sent.values())
    assert len(set(owner.kept)) == len(owner.kept)
