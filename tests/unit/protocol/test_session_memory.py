"""A session stored by its changes is the session stored whole."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import (
    Action,
    Compute,
    Event,
    ManifestArrived,
    PackagesReady,
    Paused,
    Restarted,
    Resumed,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
)
from secvm.protocol.plain.session_memory import Changes, Phase, WaitingRow
from tests.unit.protocol.helpers import (
    OTHER_KEYS,
    START,
    copied,
    document,
    manifests,
    packages,
    served,
    state_of,
    words,
)

OF = document()
ROUNDS = manifests(3, OF)
OTHER = manifests(3, OF, gateway_keys=OTHER_KEYS)[-1]


def seal(plaintext: bytes, _keys: bytes) -> bytes:
    return b"sealed " + plaintext


class Table:
    """What an owner with a database has stored."""

    def __init__(self) -> None:
        self.header = b""
        self.rows: dict[int, WaitingRow] = {}

    def apply(self, changes: Changes) -> None:
        self.header = self.header if changes.header is None else changes.header
        for row in changes.put:
            self.rows[row.package_id] = row
        for package_id in changes.removed:
            self.rows.pop(package_id, None)

    def session(self) -> ParticipantSession:
        return ParticipantSession.from_parts(self.header, self.rows.values(), OF, seal=seal)


#: (what happens, a number, milliseconds that pass, whether the owner stores)
OPS = st.lists(
    st.tuples(
        st.sampled_from(["manifest", "other manifest", "tick", "ok", "failed", "final", "pause", "resume", "restart"]),
        st.integers(0, 4),
        st.sampled_from([0, 1, 5000, 20_000, 90_000, 400_000]),
        st.booleans(),
    ),
    max_size=40,
)


def event_of(kind: str, number: int) -> Event:
    events: dict[str, Event] = {
        "manifest": ManifestArrived(served(ROUNDS[number % 3])),
        "other manifest": ManifestArrived(served(OTHER)),
        "tick": Tick(),
        "ok": SendSucceeded(number),
        "failed": SendFailed(number),
        "final": SendFailed(number, final=True),
        "pause": Paused(),
        "resume": Resumed(),
        "restart": Restarted(),
    }
    return events[kind]


def tell(session: ParticipantSession, event: Event, now: int, dice: Iterator[int]) -> list[Action]:
    actions = session.receive(event, now=now, words=dice)
    if any(isinstance(action, Compute) for action in actions):
        actions += session.receive(PackagesReady(packages()), now=now, words=dice)
    return actions


@given(ops=OPS)
def test_changes_added_up_are_the_whole_session(ops: list[tuple[str, int, int, bool]]) -> None:
    session, table, dice, now = ParticipantSession(OF, seal=seal), Table(), words(1), START - 50_000
    for kind, number, passed, stores in [("manifest", 0, 0, True), *ops]:
        now += passed
        tell(session, event_of(kind, number), now, dice)
        if stores:
            table.apply(session.take_changes())
            whole, again = copied(session), table.session()
            # What was under way a restart forgets; with the same dice both go on alike.
            assert tell(whole, Restarted(), now, words(2)) == tell(again, Restarted(), now, words(2))
            assert state_of(whole) == state_of(again)
            assert whole.progress == again.progress == session.progress


def test_one_acknowledgement_is_one_row_less_and_a_header() -> None:
    session, dice = ParticipantSession(OF, seal=seal), words()
    tell(session, ManifestArrived(served(ROUNDS[0])), START - 1, dice)
    fresh = session.take_changes()
    assert [row.package_id for row in fresh.put] == [0, 1, 2, 3, 4]
    sent = [a for a in tell(session, Tick(), ROUNDS[0].closes_at - 1, dice) if isinstance(a, SendPackage)]
    session.receive(Tick(), now=ROUNDS[0].closes_at - 1, words=dice)
    session.take_changes()
    gone = sent[0].package_id if sent else 0
    session.receive(SendSucceeded(gone), now=ROUNDS[0].closes_at - 1, words=dice)
    changes = session.take_changes()
    assert changes.removed == (gone,)
    assert changes.put == ()
    assert changes.header is not None
    assert session.take_changes() == Changes(header=None, put=(), removed=())


def test_parts_that_do_not_belong_together_are_refused() -> None:
    session, table, dice = ParticipantSession(OF, seal=seal), Table(), words()
    tell(session, ManifestArrived(served(ROUNDS[0])), START - 1, dice)
    table.apply(session.take_changes())
    assert table.session().phase is Phase.SENDING
    row = table.rows.pop(0)
    with pytest.raises(MalformedMessageError):
        table.session()
    for bad in (
        WaitingRow(5, row.at, 0, row.capsule),
        WaitingRow(0, -1, 0, row.capsule),
        WaitingRow(0, row.at, 0, b""),
    ):
        table.rows[0] = bad
        with pytest.raises(MalformedMessageError):
            table.session()


def test_rows_and_changes_do_not_print_capsules() -> None:
    row = WaitingRow(0, 1, 0, b"secret capsule")
    assert "secret" not in repr(row) + repr(Changes(header=b"secret", put=(row,), removed=()))
