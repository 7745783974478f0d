"""A device's part in an experiment: joins in time or not at all, loses nothing, changes nothing, stops on time."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.package import NullPackage, TrainPackage
from secvm.protocol.codec import decode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import (
    Abstain,
    Action,
    Compute,
    Declined,
    Distrusted,
    Event,
    Finished,
    ManifestArrived,
    PackagesReady,
    Paused,
    Reason,
    Restarted,
    Resumed,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from secvm.protocol.plain.session_memory import GRACE_MS, Changes, Phase, WaitingRow
from tests.effort import scaled
from tests.unit.protocol.helpers import (
    GATEWAY_KEYS,
    START,
    STRANGER,
    document,
    manifests,
    packages,
    served,
    state_of,
    words,
)

OF = document()
ROUNDS = manifests(3, OF)
FIRST = ROUNDS[0]
BEFORE = START - 100_000


def fresh_seal() -> Callable[[bytes, bytes], bytes]:
    """A seal that gives other bytes each time, as true ones do: sealing twice would show."""
    sealed = 0

    def seal(plaintext: bytes, gateway_keys: bytes) -> bytes:
        nonlocal sealed
        sealed += 1
        assert gateway_keys == GATEWAY_KEYS
        return sealed.to_bytes(4, "little") + plaintext

    return seal


class Device:
    """An owner: stores what has changed, and remembers what was asked for."""

    def __init__(self, of: ExperimentDocument = OF, seed: int = 0, now: int = BEFORE) -> None:
        self.of, self.now = of, now
        self.dice: Iterator[int] = words(seed)
        self.seal = fresh_seal()
        self.session = ParticipantSession(of, seal=self.seal)
        self.header = b""
        self.rows: dict[int, WaitingRow] = {}
        #: Else several events lie between two times of storing.
        self.stores_each = True

    def tell(self, event: Event, *, now: int | None = None) -> list[Action]:
        self.now = self.now if now is None else now
        actions = self.session.receive(event, now=self.now, words=self.dice)
        if self.stores_each:
            self.store()
        return actions

    def store(self) -> Changes:
        changes = self.session.take_changes()
        self.header = self.header if changes.header is None else changes.header
        self.rows |= {row.package_id: row for row in changes.put}
        for package_id in changes.removed:
            self.rows.pop(package_id, None)
        return changes

    def read(self) -> ParticipantSession:
        return ParticipantSession.from_parts(self.header, self.rows.values(), self.of, seal=self.seal)

    def restart(self) -> list[Action]:
        """The session that was stored by its changes is the whole session, but for what is under way."""
        self.store()
        before = state_of(self.session)
        self.session = self.read()
        waiting = {i: replace(one, under_way=False) for i, one in before["_waiting"].items()}
        assert state_of(self.session) == {**before, "_waiting": waiting}
        return self.tell(Restarted())

    def join(self) -> "Device":
        assert self.tell(ManifestArrived(served(FIRST))) == [Compute(FIRST), Wait(FIRST.closes_at)]
        assert [type(a) for a in self.tell(PackagesReady(packages(self.of.budget)))] == [Wait]
        return self

    def run(self, *, until: int, step: int = 1000) -> list[SendPackage]:
        """Tick along, the last time just before the end; everything is acknowledged at once."""
        sent = []
        for now in [*range(self.now, until, step), until - 1]:
            for action in self.tell(Tick(), now=now):
                if isinstance(action, SendPackage):
                    sent.append(action)
                    self.tell(SendSucceeded(action.package_id))
        return sent


def reasons(actions: list[Action]) -> list[Reason]:
    return [action.reason for action in actions if isinstance(action, Abstain)]


def sends(actions: list[Action]) -> list[SendPackage]:
    return [action for action in actions if isinstance(action, SendPackage)]


def computing(of: ExperimentDocument = OF, manifest: RoundManifest = FIRST, seed: int = 0) -> Device:
    """A device that has heard of the round, and computes."""
    device = Device(of, seed)
    device.tell(ManifestArrived(served(manifest)))
    return device


def first_sent(device: Device) -> SendPackage:
    return next(s for now in range(FIRST.opens_at, FIRST.closes_at, 100) for s in sends(device.tell(Tick(), now=now)))


# ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whole_round_sends_each_package_once_at_its_time_and_finishes() -> None:
    device = Device().join()
    sent = device.run(until=FIRST.closes_at)
    assert len(sent) == OF.budget
    assert all(FIRST.opens_at <= one.at < FIRST.closes_at for one in sent)
    assert Counter(decode(one.capsule[4:]).package for one in sent) == Counter(packages())
    assert all(decode(one.capsule[4:]).round_number == 1 for one in sent)
    assert all(decode(one.capsule[4:]).experiment_id == OF.experiment_id for one in sent)
    assert device.session.phase is Phase.IDLE


def test_what_is_under_way_when_the_window_closes_may_still_be_acknowledged() -> None:
    device = Device().join()
    sent = [one for now in range(FIRST.opens_at, FIRST.closes_at, 1000) for one in sends(device.tell(Tick(), now=now))]
    assert len(sent) == OF.budget
    assert device.tell(Tick(), now=FIRST.closes_at) == [Wait(FIRST.accept_until)]
    for one in sent[:2]:
        assert device.tell(SendSucceeded(one.package_id)) == [Wait(FIRST.accept_until)]
    # What fails now is not sent again.
    assert sends(device.tell(SendFailed(sent[2].package_id))) == []
    assert device.tell(Tick(), now=FIRST.accept_until) == [Finished(1, acknowledged=2, lost=3)]


@pytest.mark.parametrize("late_by", [0, 1, 10_000])
def test_device_that_comes_when_the_window_is_open_takes_the_next_round(late_by: int) -> None:
    device = Device(now=FIRST.opens_at + late_by)
    assert reasons(device.tell(ManifestArrived(served(FIRST)))) == [Reason.LATE]
    assert device.session.phase is Phase.IDLE
    # It remembers the manifest nevertheless: another one for the same round is an equivocation.
    assert device.session.accepted is not None
    assert device.tell(ManifestArrived(served(ROUNDS[1])), now=ROUNDS[1].opens_at - 1)[0] == Compute(ROUNDS[1])


def test_last_moment_before_the_window_is_early_enough() -> None:
    device = Device(now=FIRST.opens_at - 1)
    assert device.tell(ManifestArrived(served(FIRST)))[0] == Compute(FIRST)


@pytest.mark.parametrize("off_by", [60_001, -60_001])
def test_device_whose_clock_is_off_abstains(off_by: int) -> None:
    device = Device()
    assert reasons(device.tell(ManifestArrived(served(FIRST), ahead=off_by))) == [Reason.CLOCK]
    device = Device()
    assert device.tell(ManifestArrived(served(FIRST), ahead=off_by // 2))[0] == Compute(FIRST)


def test_clock_that_fell_back_is_not_believed_unless_a_server_agrees() -> None:
    device = Device()
    device.tell(Tick(), now=BEFORE + 10**9)
    assert reasons(device.tell(ManifestArrived(served(FIRST)), now=BEFORE)) == [Reason.CLOCK]
    device = Device()
    device.tell(Tick(), now=BEFORE + 10**9)
    assert device.tell(ManifestArrived(served(FIRST), ahead=0), now=BEFORE)[0] == Compute(FIRST)


def test_manifest_from_the_future_shows_a_slow_clock() -> None:
    device = computing()
    assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])))) == [Reason.CLOCK]


def test_bad_manifest_is_not_joined_and_does_not_stop_a_round_that_runs() -> None:
    assert reasons(Device().tell(ManifestArrived(b"nonsense"))) == [Reason.BAD_MANIFEST]
    assert reasons(Device().tell(ManifestArrived(served(FIRST, STRANGER)))) == [Reason.BAD_MANIFEST]
    short = replace(FIRST, closes_at=FIRST.closes_at - 1000)
    (abstained,) = Device().tell(ManifestArrived(served(short)))
    assert isinstance(abstained, Abstain)
    assert abstained.evidence == (served(short),)
    device = Device().join()
    assert reasons(device.tell(ManifestArrived(served(ROUNDS[1], STRANGER)))) == [Reason.BAD_MANIFEST]
    assert len(device.run(until=FIRST.closes_at)) == OF.budget


def test_equivocation_stops_for_ever_also_after_a_restart_and_keeps_the_evidence() -> None:
    device = Device().join()
    other = served(replace(FIRST, state="00" * 32))
    (abstained,) = device.tell(ManifestArrived(other))
    assert isinstance(abstained, Abstain)
    assert abstained.evidence == (served(FIRST), other)
    assert device.restart() == []
    assert device.session.evidence == (served(FIRST), other)
    assert device.run(until=FIRST.closes_at, step=10_000) == []
    assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])))) == [Reason.EQUIVOCATION]
    assert device.session.phase is Phase.STOPPED


def test_same_manifest_again_changes_nothing() -> None:
    device = computing()
    assert device.tell(ManifestArrived(served(FIRST))) == [Wait(FIRST.closes_at)]
    device.tell(PackagesReady(packages()))
    before = state_of(device.session)
    device.tell(ManifestArrived(served(FIRST)))
    assert state_of(device.session) == before


def test_next_manifest_ends_the_round_before() -> None:
    device = Device().join()
    actions = device.tell(ManifestArrived(served(ROUNDS[1])), now=ROUNDS[1].opens_at - 1)
    assert actions[:2] == [Finished(1, acknowledged=0, lost=5), Compute(ROUNDS[1])]


# ── packages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, 4, 6])
def test_exactly_the_budget_is_sent_or_nothing(count: int) -> None:
    device = computing()
    before = state_of(device.session)
    with pytest.raises(LocalProtocolError):
        device.tell(PackagesReady((NullPackage(),) * count))
    assert state_of(device.session) == before


@pytest.mark.parametrize("event", [PackagesReady((NullPackage(),) * 5), Declined("too late")])
def test_what_nobody_asked_for_or_comes_twice_is_refused(event: Event) -> None:
    for device in (Device(), Device().join()):
        before = state_of(device.session)
        with pytest.raises(LocalProtocolError):
            device.tell(event)
        assert state_of(device.session) == before


def test_person_who_says_no_sends_nothing() -> None:
    device = computing()
    assert device.tell(Declined("the ledger is spent")) == [Abstain(Reason.DECLINED, "the ledger is spent")]
    assert device.run(until=FIRST.closes_at, step=10_000) == []


def test_times_do_not_depend_on_what_is_sent() -> None:
    def times(sent: tuple[NullPackage | TrainPackage, ...]) -> list[int]:
        device = computing(seed=3)
        device.tell(PackagesReady(sent))
        return [one.at for one in device.run(until=FIRST.closes_at)]

    train = tuple(TrainPackage(model=0, bin_index=i, sign=-1) for i in range(5))
    assert times((NullPackage(),) * 5) == times(train)


def test_packages_that_are_ready_late_are_spread_over_what_is_left_or_not_sent_at_all() -> None:
    device = computing()
    late = FIRST.closes_at - 60_000
    device.tell(PackagesReady(packages()), now=late)
    sent = device.run(until=FIRST.closes_at)
    assert len(sent) == 5
    assert all(late <= one.at < FIRST.closes_at for one in sent)
    device = computing()
    assert reasons(device.tell(PackagesReady(packages()), now=FIRST.closes_at)) == [Reason.OVER]
    device = computing()
    assert reasons(device.tell(Tick(), now=FIRST.closes_at)) == [Reason.OVER]


def test_packages_that_are_ready_a_little_late_are_no_burst() -> None:
    of = document(experiment=replace(OF.experiment, budget=400))
    (first,) = manifests(1, of)
    device = computing(of, first)
    assert sends(device.tell(PackagesReady(packages(400)), now=first.opens_at + GRACE_MS - 1000)) == []


def test_restart_while_computing_asks_again() -> None:
    device = computing()
    assert device.restart() == [Compute(FIRST), Wait(FIRST.closes_at)]


def test_secrets_do_not_print_themselves() -> None:
    assert repr(PackagesReady(packages())) == "PackagesReady(...)"
    assert "capsule" not in repr(SendPackage(1, 2, b"capsule"))


# ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sleeper_draws_what_is_overdue_again_and_sends_no_burst() -> None:
    of = document(experiment=replace(OF.experiment, budget=400))
    (first,) = manifests(1, of)
    device = computing(of, first)
    device.tell(PackagesReady(packages(400)))
    awake = first.opens_at + 300_000
    # Not even those that became due just before it woke up.
    assert sends(device.tell(Tick(), now=awake)) == []
    rest = device.run(until=first.closes_at, step=500)
    assert len(rest) == 400
    assert all(one.at > awake for one in rest)


@pytest.mark.parametrize("away_ms", [1, 1000, GRACE_MS - 1, 100_000])
@pytest.mark.parametrize("paused", [False, True])
def test_who_comes_back_sends_no_burst_however_short_it_was_away(away_ms: int, paused: bool) -> None:
    of = document(experiment=replace(OF.experiment, budget=400))
    (first,) = manifests(1, of)
    device = computing(of, first)
    device.tell(PackagesReady(packages(400)))
    before = len(device.run(until=first.opens_at + 300_000, step=100))
    if paused:
        device.tell(Paused())
    device.now = first.opens_at + 300_000 + away_ms
    back = device.tell(Resumed()) if paused else device.restart()
    assert sends(back) == []
    assert before + len(device.run(until=first.closes_at, step=500)) == 400


def test_what_failed_is_sent_again_the_same_bytes_later_and_later() -> None:
    device = Device().join()
    tried: list[tuple[int, bytes]] = []
    for now in range(FIRST.opens_at, FIRST.closes_at, 100):
        for one in sends(device.tell(Tick(), now=now)):
            if one.package_id == 0:
                tried.append((now, one.capsule))
                device.tell(SendFailed(0))
            else:
                device.tell(SendSucceeded(one.package_id))
    assert len({capsule for _, capsule in tried}) == 1
    assert len(tried) >= 3
    for attempt, ((a, _), (b, _)) in enumerate(itertools.pairwise(tried)):
        assert b - a <= (4000 << attempt) + 100
    assert device.tell(Tick(), now=FIRST.closes_at) == [Finished(1, acknowledged=4, lost=1)]


def test_server_that_asks_to_wait_is_heeded() -> None:
    device = Device().join()
    one = first_sent(device)
    now = device.now
    device.tell(SendFailed(one.package_id, retry_after_ms=30_000))
    again = [
        s
        for t in range(now, now + 60_000, 100)
        for s in sends(device.tell(Tick(), now=t))
        if s == replace(one, at=s.at)
    ]
    assert again == [] or again[0].at >= now + 30_000


@pytest.mark.parametrize("how", [{"final": True}, {"retry_after_ms": 10**7}])
def test_a_final_no_and_a_wish_to_wait_beyond_the_window_are_losses(how: dict[str, Any]) -> None:
    device = Device().join()
    one = first_sent(device)
    device.tell(SendFailed(one.package_id, **how))
    assert all(s.package_id != one.package_id for s in device.run(until=FIRST.closes_at, step=500))


def test_nothing_is_sent_from_the_end_of_the_window_on() -> None:
    device = Device().join()
    assert device.tell(Tick(), now=FIRST.closes_at) == [Finished(1, acknowledged=0, lost=5)]
    assert device.tell(Tick(), now=FIRST.closes_at + 1) == []


def test_pause_sends_nothing_and_joins_nothing() -> None:
    device = Device().join()
    device.tell(Paused())
    assert device.run(until=FIRST.opens_at + 200_000) == []
    assert device.restart() == [Wait(FIRST.closes_at)]
    assert device.session.paused
    device.tell(Resumed())
    sent = device.run(until=FIRST.closes_at)
    assert len(sent) == 5
    assert all(one.at >= FIRST.opens_at + 200_000 - 1000 for one in sent)
    device = Device()
    device.tell(Paused())
    assert reasons(device.tell(ManifestArrived(served(FIRST)))) == [Reason.PAUSED]


def test_bytes_of_a_session_with_a_true_seal_hold_no_package_in_clear_and_forget_what_was_acknowledged() -> None:
    device = Device()
    device.seal = lambda _plaintext, _keys: b"sealed capsule"
    device.session = ParticipantSession(OF, seal=device.seal)
    device.join()
    assert [row.capsule for row in device.rows.values()] == [b"sealed capsule"] * OF.budget
    assert b"capsule" not in device.header
    assert len(device.run(until=FIRST.closes_at)) == OF.budget
    assert device.rows == {}


@pytest.mark.parametrize("capsule", [b"", bytes(2**14 + 1)])
def test_capsules_without_bytes_or_too_long_are_refused(capsule: bytes) -> None:
    session = ParticipantSession(OF, seal=lambda _plaintext, _keys: capsule)
    session.receive(ManifestArrived(served(FIRST)), now=BEFORE, words=words())
    with pytest.raises(LocalProtocolError):
        session.receive(PackagesReady(packages()), now=BEFORE, words=words())


def test_session_that_was_changed_on_disk_is_refused() -> None:
    device = Device().join()
    data, rows = device.header, device.rows.values()
    for old, new in (
        (b'"phase":"sending"', b'"phase":"idle"'),
        (b'"phase":"sending"', b'"phase":"stopped"'),
        (b'"phase":"sending"', b'"phase":"asleep"'),
        (b'"acknowledged":0', b'"acknowledged":1'),
        (b"secvm-v1-session", b"secvm-v2-session"),
        (OF.digest.encode(), b"00" * 32),
        (b'"lost":0', b'"lost":0,"x":1'),
        (b'"paused":false', b'"paused":0'),
    ):
        assert old in data
        with pytest.raises(MalformedMessageError):
            ParticipantSession.from_parts(data.replace(old, new), rows, OF, seal=device.seal)
    with pytest.raises(MalformedMessageError):
        ParticipantSession.from_parts(data, rows, document(title="Another"), seal=device.seal)


def test_time_before_the_epoch_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        Device().tell(Tick(), now=-1)


# ── any order of anything ────────────────────────────────────────────────────────────────────────────────────────────

OPS = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from([1, 500, 5_000, 20_000, 100_000, 400_000])),
    st.tuples(st.just("manifest"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["ready", "decline", "pause", "resume", "restart", "tick"]), st.just(0)),
    st.tuples(st.sampled_from(["acknowledge", "lose", "fail", "refuse", "repeat"]), st.integers(0, 9)),
)


class Model:
    """What must hold whatever happens, written down as plainly as possible."""

    def __init__(self) -> None:
        self.device = Device()
        self.round = 0
        self.capsules: dict[tuple[int, int], bytes] = {}
        self.under_way: list[int] = []
        self.acknowledged: set[tuple[int, int]] = set()
        self.finished: set[int] = set()
        self.paused = False

    def look(self, actions: list[Action]) -> None:
        now = self.device.now
        for action in actions:
            match action:
                case Compute(manifest):
                    # Joined before the window opened, or asked again after a restart.
                    assert now < manifest.opens_at or manifest.round_number == self.round
                    assert manifest.round_number >= self.round
                    if manifest.round_number != self.round:
                        assert not self.paused
                    self.round, self.under_way = manifest.round_number, []
                case SendPackage(package_id, at, capsule):
                    manifest = ROUNDS[self.round - 1]
                    assert manifest.opens_at <= at <= now < manifest.closes_at
                    assert not self.paused
                    assert 0 <= package_id < OF.budget
                    assert (self.round, package_id) not in self.acknowledged
                    # The same package is the same bytes, for ever.
                    assert self.capsules.setdefault((self.round, package_id), capsule) == capsule
                    assert decode(capsule[4:]).round_number == self.round
                    assert package_id not in self.under_way
                    self.under_way.append(package_id)
                case Finished(round_number, acknowledged, lost):
                    assert round_number not in self.finished
                    self.finished.add(round_number)
                    assert acknowledged + lost == OF.budget
                    assert acknowledged == sum(r == round_number for r, _ in self.acknowledged)
                    self.under_way = []
                case Wait(until):
                    assert until > now
                case Abstain():
                    pass
        for number in {r for r, _ in self.capsules}:
            of_round = [decode(c[4:]).package for (r, _), c in self.capsules.items() if r == number]
            assert not Counter(of_round) - Counter(packages())

    def do(self, op: str, number: int) -> None:
        device = self.device
        device.stores_each = number % 2 == 0
        chosen = self.under_way[number % len(self.under_way)] if self.under_way else None
        match op:
            case "advance":
                self.look(device.tell(Tick(), now=device.now + number))
            case "manifest":
                # Manifest t + 1 exists only once round t has ended.
                if number == 0 or device.now >= ROUNDS[number - 1].accept_until:
                    self.look(device.tell(ManifestArrived(served(ROUNDS[number]), ahead=0)))
            case "ready" | "decline":
                event = PackagesReady(packages()) if op == "ready" else Declined("no")
                if device.session.phase is Phase.COMPUTING:
                    self.look(device.tell(event))
                else:
                    with pytest.raises(LocalProtocolError):
                        device.tell(event)
            case "pause" | "resume":
                self.paused = op == "pause"
                self.look(device.tell(Paused() if self.paused else Resumed()))
            case "restart":
                self.under_way = []
                self.look(device.restart())
            case "acknowledge" if chosen is not None:
                self.under_way.remove(chosen)
                self.acknowledged.add((self.round, chosen))
                self.look(device.tell(SendSucceeded(chosen)))
            case "fail" | "refuse" if chosen is not None:
                self.under_way.remove(chosen)
                self.look(device.tell(SendFailed(chosen, retry_after_ms=number * 100, final=op == "refuse")))
            case "repeat" if self.acknowledged:
                # An acknowledgement that comes twice, or for a round long gone, only ever for the current round's ids.
                known = sorted(i for r, i in self.acknowledged if r == self.round)
                if known:
                    self.look(device.tell(SendSucceeded(known[number % len(known)])))
            case _:
                self.look(device.tell(Tick()))


@settings(max_examples=scaled(100, 1000))
@given(st.lists(OPS, max_size=60))
def test_whatever_happens_in_whatever_order(ops: list[tuple[str, int]]) -> None:
    model = Model()
    for op, number in [("manifest", 0), ("ready", 0), ("advance", 100_000), *ops]:
        model.do(op, number)


@given(st.lists(st.sampled_from(["advance", "restart", "pause", "resume", "fail"]), max_size=30), st.integers())
@example([], -244)  # a package that is due after the last whole step
def test_nothing_is_lost_when_the_device_is_awake_and_the_network_well_for_the_last_minutes(
    troubles: list[str], seed: int
) -> None:
    device = Device(seed=seed).join()
    device.tell(Tick(), now=FIRST.opens_at)
    acknowledged: set[int] = set()
    for trouble in troubles:
        match trouble:
            case "advance":
                for one in sends(device.tell(Tick(), now=min(device.now + 30_000, FIRST.closes_at - 200_000))):
                    device.tell(SendFailed(one.package_id))
            case "restart":
                device.restart()
            case "pause":
                device.tell(Paused())
            case "resume":
                # What this wants to send is lost on the way: nobody answers.
                device.tell(Resumed())
    device.tell(Resumed())
    device.restart()
    for one in sends(device.tell(Tick())):
        device.tell(SendFailed(one.package_id))
    # What the three lines above sent into the void is under way; a restart takes it up again.
    for one in sends(device.restart()):
        device.tell(SendSucceeded(one.package_id))
        acknowledged.add(one.package_id)
    acknowledged |= {one.package_id for one in device.run(until=FIRST.closes_at, step=2000)}
    assert acknowledged == set(range(5))


# ── what is stored ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_acknowledgement_is_one_row_less_and_a_header() -> None:
    device = Device().join()
    assert sorted(device.rows) == [0, 1, 2, 3, 4]
    device.stores_each = False
    device.tell(SendSucceeded(3))
    changes = device.store()
    assert (changes.removed, changes.put) == ((3,), ())
    assert changes.header is not None
    assert device.store() == Changes(header=None, put=(), removed=())


def test_answers_to_what_is_not_under_way_leave_no_old_times_behind() -> None:
    """A restart forgets what was under way, and its answer may come all the same."""
    device = Device().join()
    sent = device.run(until=FIRST.opens_at + 1000)
    first, second, *_ = sorted(device.rows.values(), key=lambda row: row.at)
    device.tell(SendSucceeded(first.package_id))
    device.tell(SendFailed(second.package_id, retry_after_ms=FIRST.closes_at - 30_000 - device.now))
    sent += device.run(until=FIRST.closes_at)
    assert sorted(one.package_id for one in sent) == sorted({0, 1, 2, 3, 4} - {first.package_id})
    assert {one.at for one in sent}.isdisjoint({first.at, second.at})


def test_parts_that_do_not_belong_together_are_refused() -> None:
    device = Device().join()
    assert device.read().phase is Phase.SENDING
    row = device.rows.pop(0)
    with pytest.raises(MalformedMessageError):
        device.read()
    for bad in (
        WaitingRow(5, row.at, 0, row.capsule),
        WaitingRow(0, -1, 0, row.capsule),
        WaitingRow(0, row.at, 0, b""),
    ):
        device.rows[0] = bad
        with pytest.raises(MalformedMessageError):
            device.read()


def test_rows_and_changes_do_not_print_capsules() -> None:
    row = WaitingRow(0, 1, 0, b"secret capsule")
    assert "secret" not in repr(row) + repr(Changes(header=b"secret", put=(row,), removed=()))


# ── distrust: with evidence for ever, without it for the round that runs ─────────────────────────────────────────────


def in_mid_round() -> tuple[Device, int]:
    """A device that has sent some of its packages, and how many."""
    device = Device().join()
    middle = (FIRST.opens_at + FIRST.closes_at) // 2
    return device, len(device.run(until=middle))


def test_evidence_drops_what_waits_and_stops_for_ever() -> None:
    device, sent = in_mid_round()
    actions = device.tell(Distrusted("it lied", b"a file"))
    assert actions == [
        Finished(1, sent, OF.budget - sent),
        Abstain(Reason.CHEATING, "it lied", (b"a file",)),
    ]
    for _ in range(2):
        assert device.session.phase is Phase.STOPPED
        assert sends(device.tell(Tick(), now=FIRST.closes_at - 1)) == []
        assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])), now=FIRST.accept_until)) == [Reason.CHEATING]
        assert device.tell(Distrusted("it lied again", b"another file")) == []
        device.restart()
    # The file is its owner's: a session is written often.
    assert device.session.evidence == ()


def test_without_evidence_the_next_round_is_joined_again() -> None:
    device, sent = in_mid_round()
    actions = device.tell(Distrusted("an older log was shown"))
    assert actions == [
        Finished(1, sent, OF.budget - sent),
        Abstain(Reason.DISTRUST, "an older log was shown"),
    ]
    device.restart()
    assert sends(device.tell(Tick(), now=FIRST.closes_at - 1)) == []
    assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])), now=FIRST.accept_until - 1)) == []
    assert device.session.phase is Phase.COMPUTING


@pytest.mark.parametrize("evidence", [None, b"a file"])
def test_distrust_before_the_packages_are_ready_or_before_any_round(evidence: bytes | None) -> None:
    device = Device()
    reason = Reason.DISTRUST if evidence is None else Reason.CHEATING
    assert reasons(device.tell(Distrusted("so", evidence))) == [reason]
    device = Device()
    device.tell(ManifestArrived(served(FIRST)))
    actions = device.tell(Distrusted("so", evidence))
    assert reasons(actions) == [reason]
    assert not any(isinstance(action, Finished) for action in actions)


def test_late_acknowledgement_after_distrust_changes_nothing() -> None:
    device, sent = in_mid_round()
    device.tell(Distrusted("so"))
    for package_id in range(OF.budget):
        device.tell(SendSucceeded(package_id))
        device.tell(SendFailed(package_id))
    assert device.session.progress.waiting == 0
    assert device.session.progress.acknowledged == sent


def test_session_with_one_piece_of_evidence_cannot_be_read() -> None:
    device = Device()
    device.tell(Distrusted("so", b"a file"))
    device.header = device.header.replace(b'"evidence":[]', b'"evidence":[{"envelope":"YQ=="}]')
    assert b"YQ==" in device.header
    with pytest.raises(MalformedMessageError):
        device.read()
