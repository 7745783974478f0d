"""The round driver: from instant to instant, through pauses, missed floors and crashes at every call."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.alarms import Alarms
from secvm.coordinator.experiments.history import PlainHistory
from secvm.coordinator.experiments.specification import EarlyStopping
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Deposit, Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.coordinator.webhook import Webhook
from secvm.crypto.sealing.oblivious import decode_key_configurations
from secvm.errors import ArithmeticRangeError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.ending import Ending, Why, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument, Windows, read_published
from secvm.protocol.documents.manifest import AcceptedManifest, RelayCount, accept
from secvm.protocol.round_state import RoundEnd, RoundState
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import (
    GRID,
    Coordinator,
    add,
    crowd,
    experiment,
    few,
    files,
    held_epochs,
    rounds_of,
    state_after,
    tally_of,
    until,
)
from tests.unit.protocol.helpers import RELAY, START


class Hook(Webhook):
    """A webhook that is asked to post, and keeps what."""

    def __init__(self, told: list[dict[str, Any]]) -> None:
        self.told = told

    def tell(self, event: str, *, at: int, text: str, **fields: Any) -> None:
        assert (event, str(fields["round"]) in text, at > 0) == ("round-abandoned", True, True)
        self.told.append(fields)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CoordinatorStore]:
    with closing(SQLiteStore(tmp_path / "store")) as made:
        yield made


def start(store: CoordinatorStore, folder: Path | None = None) -> Coordinator:
    return Coordinator(store, ManualClock(START - 100_000), folder)


def begun(
    store: CoordinatorStore, of: ExperimentDocument, folder: Path | None = None
) -> tuple[ExperimentDocument, Coordinator]:
    add(store, of)
    return of, start(store, folder)


def public(coordinator: Coordinator, path: str) -> bytes:
    found = coordinator.publisher.public(path)
    assert found is not None, path
    return found[0]


def manifests(coordinator: Coordinator, of: ExperimentDocument, count: int) -> AcceptedManifest:
    """What a device makes of all manifests; the last one comes back."""
    served = [public(coordinator, f"/v1/experiment/{of.digest}/manifest/{t}") for t in range(1, count + 1)]
    last: AcceptedManifest | None = None
    for data in served:
        last = accept(data, document=of, last=last)
    assert last is not None
    return last


def ending(coordinator: Coordinator, of: ExperimentDocument, last: AcceptedManifest | None = None) -> Ending:
    return accept_ending(public(coordinator, f"/v1/experiment/{of.digest}/ending"), document=of, last=last)


def status(coordinator: Coordinator, of: ExperimentDocument) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))
    return told


def test_all_rounds_are_driven_to_the_ending_and_devices_believe_them(store: CoordinatorStore, tmp_path: Path) -> None:
    of, coordinator = begun(store, experiment(), tmp_path / "public")
    asyncio.run(coordinator.go())
    assert read_published(public(coordinator, f"/v1/experiment/{of.digest}"), digest=of.digest) == of
    last = manifests(coordinator, of, 3)
    assert public(coordinator, f"/v1/experiment/{of.digest}/manifest/latest") == last.envelope
    end = ending(coordinator, of, last)
    assert (end.round_number, end.why) == (3, Why.FINISHED)
    tallies = [tally_of(one) for one in rounds_of(of, [1, 2, 3])]
    assert public(coordinator, f"/v1/blob/{end.state}") == state_after(of, tallies)
    assert last.manifest.last is not None
    digest = last.manifest.last.tally
    blob = public(coordinator, f"/v1/blob/{digest}")
    assert decode_tally(blob, digest=digest or "", experiment=of.experiment) == tallies[1]
    assert [one.state for one in store.rounds(of.digest)] == [RoundState.PUBLISHED] * 3
    assert store.experiments()[0].standing is Standing.FINISHED
    told = {
        path.replace(f"experiment/{of.digest}", f"experiment/{of.digest}/index")
        if path == f"/v1/experiment/{of.digest}"
        else path: data
        for path, data in coordinator.shown().items()
    }
    assert files(tmp_path / "public") == {path.strip("/"): data for path, data in told.items()}


def test_everything_of_an_epoch_is_scrubbed_when_its_rounds_are_concluded(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment(rounds=2))
    asyncio.run(coordinator.go())
    epochs = {one.epoch for one in store.rounds(of.digest)}
    assert epochs.isdisjoint(held_epochs(store))
    assert [list(store.opened(epoch)) for epoch in epochs] == [[], []]
    assert not store.append_sealed(min(epochs), [])
    # There is still a key for those who fetch the ending.
    assert len(decode_key_configurations(public(coordinator, "/v1/keys"))) == 1


def test_repro_the_key_for_fetches_is_the_same_all_through_a_slot(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())
    shown: dict[int, set[bytes]] = {}

    def look() -> bool:
        keys = coordinator.publisher.public("/v1/keys")
        if keys is not None:
            shown.setdefault(GRID.slot_of(coordinator.clock.now()), set()).add(keys[0])
        return store.experiments()[0].standing is Standing.FINISHED

    asyncio.run(coordinator.go(until=look))
    slots = sorted(one.epoch for one in store.rounds(of.digest))
    assert slots
    assert {len(shown[slot]) for slot in slots} == {1}
    for slot in slots:
        # That of the next slot, which is there until long after this one.
        (configuration,) = decode_key_configurations(*shown[slot])
        assert configuration.key_id == (slot + 1) % 256


def test_a_floor_that_is_missed_spends_the_number_and_leaves_the_state(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())

    def who(one: Any) -> list[Any]:
        return few(one) if one.number == 2 else crowd(one)

    asyncio.run(coordinator.go(who))
    last = manifests(coordinator, of, 3)
    assert last.manifest.last is not None
    assert last.manifest.last.tally is None
    assert [one.state for one in store.rounds(of.digest)] == [
        RoundState.PUBLISHED,
        RoundState.ABANDONED,
        RoundState.PUBLISHED,
    ]
    tallies = [tally_of(one) for one in rounds_of(of, [1, 3])]
    assert public(coordinator, f"/v1/blob/{ending(coordinator, of).state}") == state_after(of, tallies)
    abandoned = status(coordinator, of)["rounds"][1]
    assert (abandoned["state"], abandoned["end"]) == ("abandoned", "too-few-trained")
    assert abandoned.keys() == {"number", "state", "opens_at", "closes_at", "accept_until", "end"}


def nobody(_one: Any) -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("who", "began", "end"),
    [
        (nobody, None, RoundEnd.NOTHING_CAME),
        (nobody, START + 1, RoundEnd.RESTARTED),
        (nobody, START, RoundEnd.NOTHING_CAME),
        (few, START + 1, RoundEnd.TOO_FEW_TRAINED),
        (crowd, START + 1, RoundEnd.COUNTED),
    ],
)
def test_why_a_round_was_abandoned_is_told_in_one_word_everywhere(
    store: CoordinatorStore, who: Any, began: int | None, end: RoundEnd
) -> None:
    of, coordinator = begun(store, experiment(rounds=1))
    told: list[dict[str, Any]] = []
    alarms = coordinator.driver.alarms = Alarms(began_at=began)
    alarms.webhook = Hook(told)
    asyncio.run(coordinator.go(who))
    assert status(coordinator, of)["rounds"][0]["end"] == end.word
    assert f'secvm_coordinator_rounds_total{{reason="{end.word}"}} 1.0' in alarms.metrics.page()[0].decode()
    abandoned = [{"experiment": of.digest, "round": 1, "reason": end.word}]
    assert told == ([] if end is RoundEnd.COUNTED else abandoned)


def test_packages_that_no_relay_has_signed_for_are_another_reason_than_too_few(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment(rounds=1))
    coordinator.ingest.counts = False
    asyncio.run(coordinator.go())
    assert status(coordinator, of)["rounds"][0]["end"] == "count-missing"


def test_two_experiments_share_an_epoch_and_its_key_but_not_their_counts(store: CoordinatorStore) -> None:
    one = experiment(title="one")
    three_labels = Experiment(n_bins=4, labels=("a", "b", "c"), rule=Pegasos(lambda_=Fraction(1)), budget=5)

    def who(open_round: Any) -> list[Any]:
        return [p for p in crowd(open_round, 8) if getattr(p, "bin_index", 0) < 5]

    other = experiment(
        title="other",
        experiment=three_labels,
        binning=experiment(experiment=three_labels).binning,
        windows=Windows(length_s=100, grace_s=10, first_opening=START),
        rounds=2,
    )
    coordinator = start(store)
    add(store, one)
    add(store, other)
    asyncio.run(coordinator.go(who))
    first, second = store.rounds(one.digest), store.rounds(other.digest)
    assert [r.epoch for r in first[:2]] == [r.epoch for r in second]
    manifest = accept(second[0].envelope, document=other).manifest
    assert manifest.gateway_keys == accept(first[0].envelope, document=one).manifest.gateway_keys
    for of, numbers in ((one, [1, 2, 3]), (other, [1, 2])):
        tallies = [tally_of(open_round, who) for open_round in rounds_of(of, numbers)]
        assert public(coordinator, f"/v1/blob/{ending(coordinator, of).state}") == state_after(of, tallies)
    listed = json.loads(public(coordinator, "/v1/experiments"))["experiments"]
    assert listed == [{"digest": of.digest, "title": of.title, "standing": "finished"} for of in (one, other)]


async def test_a_pause_lets_the_round_end_and_tells_its_end_only_when_it_goes_on(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    store.set_standing(of.digest, Standing.PAUSED)
    await coordinator.go(until=lambda: store.rounds(of.digest)[0].next_state is not None)
    concluded = store.rounds(of.digest)
    assert [one.state for one in concluded] == [RoundState.TALLIED]
    assert coordinator.publisher.public(f"/v1/blob/{concluded[0].tally}") is None
    assert coordinator.publisher.public(f"/v1/blob/{concluded[0].next_state}") is None
    told = status(coordinator, of)
    assert told["standing"] == "paused"
    assert "participants" not in told["rounds"][0]
    # Its capsules are gone all the same.
    assert concluded[0].epoch not in held_epochs(store)
    store.set_standing(of.digest, Standing.RUNNING)
    await coordinator.go()
    tallies = [tally_of(one) for one in rounds_of(of, [1, 2, 3])]
    last = manifests(coordinator, of, 3)
    assert public(coordinator, f"/v1/blob/{ending(coordinator, of, last).state}") == state_after(of, tallies)


async def test_a_stop_lets_the_round_end_and_signs_an_ending(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())
    await coordinator.go(until=lambda: len(coordinator.sent) == 2)
    store.set_standing(of.digest, Standing.STOPPED)
    await coordinator.step()
    assert not coordinator.over()
    await coordinator.go()
    end = ending(coordinator, of, manifests(coordinator, of, 2))
    assert (end.round_number, end.why) == (2, Why.STOPPED)
    assert status(coordinator, of)["rounds"][1]["participants"] == {"a": 3, "b": 3}


def test_an_experiment_stopped_before_its_first_round_ends_with_the_first_model(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())
    store.set_standing(of.digest, Standing.STOPPED)
    asyncio.run(coordinator.go())
    end = ending(coordinator, of)
    assert (end.round_number, end.manifest, end.last) == (0, None, None)
    assert public(coordinator, f"/v1/blob/{end.state}") == aggregate.start(of.experiment).to_bytes()


def test_early_stopping_ends_an_experiment_whose_test_counts_stand_still(store: CoordinatorStore) -> None:
    of, coordinator = experiment(rounds=30), start(store)
    add(store, of, EarlyStopping(patience=2, at_least=4))

    def same(one: Any) -> list[Any]:
        return crowd(rounds_of(of, [1])[0])

    asyncio.run(coordinator.go(same))
    end = ending(coordinator, of)
    assert (end.round_number, end.why) == (4, Why.FINISHED)
    assert status(coordinator, of)["notes"] == ["test results no longer got better: finished early"]
    # A coordinator that starts later says the same of it.
    again = Coordinator(store, coordinator.clock)
    asyncio.run(again.step())
    assert again.shown() == coordinator.shown()


def test_the_status_tells_shares_with_intervals_and_the_baseline(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment(rounds=1))
    asyncio.run(coordinator.go())
    told = status(coordinator, of)["rounds"][0]
    assert told["cells"] == [[3, 0], [0, 3]]
    assert told["accuracy"] | {"low": 0} == {"value": 1.0, "low": 0, "high": 1.0, "hits": 6, "of": 6}
    assert told["recall"]["a"]["low"] == pytest.approx(0.4385, abs=1e-4)
    assert told["precision"]["b"]["of"] == 3
    assert told["baseline"]["a"]["value"] == 0.5


def with_deposits(store: CoordinatorStore, coordinator: Coordinator, of: ExperimentDocument, *clients: int) -> int:
    """Drive a round of which relays deposit counts, for its own opening and for later ones; when it opens."""

    async def drive() -> int:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        epoch = store.rounds(of.digest)[0].epoch
        opens_at = manifests(coordinator, of, 1).manifest.opens_at
        for later, count in enumerate(clients):
            signed = RelayCount(opens_at + later, clients=count, capsules=5 * count).signed(RELAY)
            assert store.deposit(Deposit(epoch, "ba"[later], signed), [])
        await coordinator.go()
        return opens_at

    return asyncio.run(drive())


def test_a_relays_count_is_told_if_one_of_the_experiments_relays_signed_it(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment(rounds=1))
    opens_at = with_deposits(store, coordinator, of, 6, 1)
    last = ending(coordinator, of).last
    assert last is not None
    assert last.relay_count == RelayCount(opens_at, clients=6, capsules=30).signed(RELAY)


def test_repro_a_relays_count_that_is_too_small_is_not_signed_beside_the_tally(store: CoordinatorStore) -> None:
    # Most capsules come in another way, as a test's may, and the relay deposits one with a true count of that. The
    # coordinator signed both, and so evidence against itself: every device left for good.
    of, coordinator = begun(store, experiment(rounds=1))
    with_deposits(store, coordinator, of, 1)
    last = ending(coordinator, of).last
    assert last is not None
    # Without a count that fits, a round of one relay is not counted at all.
    assert (last.tally, last.relay_count) == (None, None)


async def test_repro_round_whose_count_must_be_told_and_cannot_be_is_abandoned(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment(rounds=2))
    coordinator.ingest.counts = False
    # Of the first round there is no count. Of the second there is one.
    await coordinator.go(until=lambda: len(coordinator.sent) == 2)
    second = manifests(coordinator, of, 2).manifest
    count = RelayCount(second.opens_at, clients=20, capsules=1000).signed(RELAY)
    assert store.deposit(Deposit(store.rounds(of.digest)[1].epoch, "a", count), [])
    await coordinator.go()
    told, end = manifests(coordinator, of, 2).manifest.last, ending(coordinator, of).last
    assert told is not None
    assert (told.tally, told.participants, told.relay_count) == (None, (), None)
    assert end is not None
    assert end.tally is not None
    assert end.relay_count is not None


def test_a_coordinator_that_slept_through_a_window_opens_the_next_one_with_notice(store: CoordinatorStore) -> None:
    of, coordinator = begun(store, experiment())

    async def late() -> int:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        # 20 s before a slot begins: half of the lead no longer fits.
        coordinator.clock.advance(START + 3 * 600_000 - 20_000 - coordinator.clock.now())
        await coordinator.step()
        return manifests(coordinator, of, 2).manifest.opens_at

    assert asyncio.run(late()) == START + 4 * 600_000


def test_a_step_out_of_range_ends_its_experiment_and_no_other(
    store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, coordinator = experiment(title="good"), experiment(title="bad"), start(store)
    add(store, bad)
    add(store, good)
    step = PlainHistory.step

    def stepping(book: PlainHistory, state: str, tally: Tally) -> Any:
        if book.document.title == "bad" and book.rounds[-1].stored.number == 2:
            raise ArithmeticRangeError
        return step(book, state, tally)

    monkeypatch.setattr(PlainHistory, "step", stepping)
    asyncio.run(coordinator.go())
    end = ending(coordinator, bad, manifests(coordinator, bad, 2))
    assert (end.round_number, end.why) == (2, Why.STOPPED)
    assert end.last is not None
    assert end.last.tally is None
    assert ending(coordinator, good).round_number == 3


def test_run_steps_when_time_comes_or_somebody_wakes_it_and_stops_when_told() -> None:
    async def live() -> list[int]:
        store = MemoryStore()
        coordinator, stop = start(store), asyncio.Event()
        running = asyncio.create_task(coordinator.driver.run(stop))
        await until(lambda: coordinator.publisher.public("/v1/experiments") is not None)
        digest = add(store, experiment())
        coordinator.driver.wake()
        seen = []
        for state in (RoundState.ANNOUNCED, RoundState.OPEN, RoundState.CLOSING):
            await until(lambda state=state: [one.state for one in store.rounds(digest)] == [state])  # type: ignore[misc]
            await until(lambda: (coordinator.clock.next_waking() or 0) > coordinator.clock.now())
            at = coordinator.clock.next_waking()
            assert at is not None
            seen.append(at)
            coordinator.clock.advance(at - coordinator.clock.now())
        stop.set()
        await running
        return seen

    assert asyncio.run(live()) == [START, START + 480_000, START + 540_000]


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class CrashError(Exception):
    """The end of a process."""


class Fragile:
    """A store under which the process dies at the k-th call, before or after it has happened."""

    def __init__(self, inside: CoordinatorStore, at: int, *, after: bool) -> None:
        self.inside, self.left, self.after = inside, at, after
        self.calls = 0

    def crash(self, act: Callable[[], Any]) -> Any:
        self.calls += 1
        self.left -= 1
        if self.left == 0 and not self.after:
            raise CrashError
        done = act()
        if self.left == 0:
            raise CrashError
        return done

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.inside, name)
        return lambda *given, **named: self.crash(lambda: method(*given, **named))


async def through(store: MemoryStore, fragile: Fragile, folder: Path) -> Coordinator:
    """A whole run in which the process dies once, and another begins where it was."""
    clock, sent = ManualClock(START - 100_000), set[tuple[str, int]]()

    def who(one: Any) -> list[Any]:
        return few(one) if one.number == 1 and one.document.title == "other" else crowd(one)

    dying: Any = fragile
    first = Coordinator(dying, clock, folder, sent=sent)
    first.ingest.store = store
    finish, write = first.ingest.finish, first.publisher._write

    async def finishing(epoch: int) -> None:
        fragile.crash(lambda: None)
        await finish(epoch)

    async def writing(*given: Any, **named: Any) -> None:
        fragile.crash(lambda: None)
        await write(*given, **named)

    first.ingest.finish = finishing  # type: ignore[method-assign]
    first.publisher._write = writing  # type: ignore[method-assign]
    try:
        await first.go(who)
    except CrashError:
        second = Coordinator(store, clock, folder, sent=sent)
        await second.go(who)
        return second
    return first


def lay_out() -> MemoryStore:
    store = MemoryStore()
    add(store, experiment(rounds=2, title="one"))
    add(store, experiment(rounds=2, title="other"))
    return store


def check_crashes(tmp_path: Path, stride: int, *, after: bool) -> None:
    store = lay_out()
    whole = Fragile(store, 0, after=False)
    undisturbed = asyncio.run(through(store, whole, tmp_path / "undisturbed"))
    wanted, on_disk = undisturbed.shown(), files(tmp_path / "undisturbed")
    assert whole.calls > 100
    assert len([path for path in wanted if path.endswith("/ending")]) == 2
    for k in range(1, whole.calls + 1, stride):
        store = lay_out()
        coordinator = asyncio.run(through(store, Fragile(store, k, after=after), tmp_path / str(k)))
        assert coordinator.shown() == wanted, k
        assert files(tmp_path / str(k)) == on_disk, k


def test_no_second_manifest_is_signed_for_a_round_whatever_the_clock_says_after_a_crash() -> None:
    store, of = MemoryStore(), experiment()
    add(store, of)
    clock = ManualClock(START - 100_000)

    async def twice() -> tuple[bytes, bytes]:
        await Coordinator(store, clock).step()
        first = store.rounds(of.digest)[0].envelope
        clock.advance(1_234_567)
        later = Coordinator(store, clock)
        await later.step()
        return first, public(later, f"/v1/experiment/{of.digest}/manifest/1")

    first, second = asyncio.run(twice())
    assert first == second
