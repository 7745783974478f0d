"""The ledger: counted before anything exists that could be sent, over rounds and experiments, through every death."""

import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import ConsentRefusedError
from secvm.learning.individual.contribution import Individual, contribute
from secvm.participant import membership
from secvm.participant.consent import ledger
from secvm.participant.consent.policies import Budget, Consent
from secvm.participant.device import Device
from secvm.participant.person.inspection import as_text, inspect
from secvm.participant.storage.books import Accepted
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.privacy.leakage import auc_of
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.manifest import RoundManifest, last_round
from tests.unit.participant.test_state import PERSON
from tests.unit.participant.world import BUDGET, World, real_document
from tests.unit.protocol.helpers import COORDINATOR, LENGTH_S, opening

#: Two experiments of which a round tells as much: 20 bins, 50,000 people of each label.
FIRST, SECOND = (real_document(title=title, floor=100_000, rounds=10) for title in ("first", "second"))
A_ROUND = 20 * 2 / 50_000


def room_for(rounds: float) -> Consent:
    """Agrees to any experiment, as long as all together fit into so many rounds."""
    return Consent(most_auc=1.0, budget=Budget(auc=auc_of((rounds + 0.5) * A_ROUND)))


def joined(world: World, consent: Consent) -> Device:
    """A device that takes part in both."""
    world.serve(SECOND)
    world.fill(FIRST, SECOND)
    device = world.start(consent=consent)
    for of in (FIRST, SECOND):
        world.join(device, of)
    return device


def counted(world: World) -> set[tuple[str, int]]:
    """Rounds in the ledger."""
    state = DeviceState(world.folder)
    found = {(of.digest, n) for of in (FIRST, SECOND) for n in range(1, 10) if state.ledger.joined(of.digest, n)}
    state.close()
    return found


def left(world: World) -> set[tuple[str, int]]:
    """Rounds of which a capsule has left the device."""
    by_id = {of.experiment_id: of.digest for of in (FIRST, SECOND)}
    return {(by_id[experiment], number) for _, number, experiment in world.opened()}


def announce(world: World, number: int, of: ExperimentDocument) -> RoundManifest:
    """The next round. The one before was abandoned: it counts all the same."""
    changes: dict[str, Any] = {"last": last_round(None)} if number > 1 else {}
    # Late enough after the one before for a device to ask in time.
    return world.publish(number, of, opens_at=opening(1) + 3000 * LENGTH_S * (number - 1), **changes)


async def live(world: World, device: Device, rounds: Iterable[int], deaths: list[tuple[int, bool]]) -> Device:
    """Rounds of both experiments, with a device that is started again whenever it dies."""
    consent = device._around.consent
    for number in rounds:
        manifests = [announce(world, number, of) for of in (FIRST, SECOND)]
        device = await world.survived(device, deaths, until=manifests[0].accept_until, consent=consent)
    world.points.left = None
    return device


def play(world: World, consent: Consent, rounds: int, deaths: list[tuple[int, bool]]) -> None:
    device = joined(world, consent)
    device = asyncio.run(live(world, device, range(1, rounds + 1), deaths))
    device.close()


# ── what is counted ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_rounds_of_all_experiments_are_counted_until_the_budget_is_spent(tmp_path: Path) -> None:
    world = World(tmp_path, FIRST)
    consent = room_for(3)
    play(world, consent, 3, [])
    assert len(left(world)) == 3
    assert left(world) == counted(world)
    state = DeviceState(world.folder)
    told = ledger.read_ledger(state, consent)
    assert told.d_squared == pytest.approx(3 * A_ROUND)
    assert told.epsilon == told.delta == 0
    sentences = [sentence for of in (FIRST, SECOND) for _, _, sentence in state.abstentions(of.digest)]
    assert len(sentences) == 3
    assert all("budget over all experiments is spent" in sentence for sentence in sentences)
    assert any("AUC" in one for one in ledger.figures(told, consent))
    assert told.risk == 1.0
    assert "Nothing limits the risk" in ledger.in_words(told)[0]
    assert told.content(consent)["experiments"][0]["rounds"] + told.content(consent)["experiments"][1]["rounds"] == 3
    # A third experiment is not even joined.
    third = real_document(title="third", floor=100_000, rounds=10)
    with pytest.raises(ConsentRefusedError, match="budget"):
        ledger.check_room(state, third, consent, Accepted())
    # What it was told stays told.
    state.forget(FIRST.digest)
    assert ledger.read_ledger(state, consent) == told
    assert "ledger keeps it" in as_text(inspect(state, now=0))
    state.close()


def test_round_is_on_the_disk_before_its_packages_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, FIRST)
    device = joined(world, room_for(3))
    seen: list[bool] = []

    def watched(person: Individual, **told: object) -> object:
        other = DeviceState(world.folder.with_name(world.folder.name + " synced"))
        seen.append(other.ledger.joined(FIRST.digest, 1) or other.ledger.joined(SECOND.digest, 1))
        other.close()
        return contribute(person, **told)  # type: ignore[arg-type]

    monkeypatch.setattr(membership, "contribute", watched)
    asyncio.run(live(world, device, [1], [])).close()
    assert seen == [True, True]


def test_round_that_was_counted_and_cut_off_goes_on_and_counts_once(tmp_path: Path) -> None:
    state, consent = DeviceState(tmp_path / "device"), room_for(1)
    state.join(FIRST.digest, publish(FIRST, keys=(COORDINATOR,)), PERSON)
    for _ in range(2):
        ledger.enter(state, FIRST, 4, consent)
    assert state.ledger.rounds() == {FIRST.digest: 1}
    with pytest.raises(ConsentRefusedError, match="spent"):
        ledger.enter(state, FIRST, 5, consent)
    assert state.ledger.rounds() == {FIRST.digest: 1}
    state.close()


def test_what_was_accepted_for_one_experiment_is_a_budget_of_its_own(tmp_path: Path) -> None:
    state, consent = DeviceState(tmp_path / "device"), room_for(1)
    accepted = Accepted(auc=auc_of(2.5 * A_ROUND))
    state.join(FIRST.digest, publish(FIRST, keys=(COORDINATOR,)), PERSON, accepted=accepted)
    state.join(SECOND.digest, publish(SECOND, keys=(COORDINATOR,)), PERSON)
    for number in (1, 2):
        ledger.enter(state, FIRST, number, consent)
    with pytest.raises(ConsentRefusedError, match="accepted for this experiment is spent"):
        ledger.enter(state, FIRST, 3, consent)
    ledger.enter(state, SECOND, 1, consent)
    with pytest.raises(ConsentRefusedError, match="over all experiments"):
        ledger.enter(state, SECOND, 2, consent)
    assert ledger.read_ledger(state, consent).d_squared == pytest.approx(3 * A_ROUND)
    state.close()


def test_refusals_do_not_depend_on_the_person(tmp_path: Path) -> None:
    told = []
    for number, (features, label) in enumerate([({"tree": 1}, "a"), ({f"w{i}": 3 for i in range(50)}, "b")]):
        world = World(tmp_path / f"{number}", FIRST)
        with Vault(world.folder) as vault:
            vault.put("words", features)
            vault.set_label(FIRST.digest, label)
        device = world.start(consent=room_for(1))
        world.join(device)
        for round_number in (1, 2, 3):
            manifest = announce(world, round_number, FIRST)
            world.drive(device, until=manifest.accept_until)
        device.flush()
        told.append((device.state.abstentions(FIRST.digest), device.state.ledger.rounds(), world.distinct(1)))
        device.close()
    assert told[0] == told[1]
    assert told[0][2] == BUDGET


# ── deaths ───────────────────────────────────────────────────────────────────────────────────────────────────────────

DEATHS = st.lists(st.tuples(st.integers(0, 80), st.booleans()), max_size=6)


@settings(max_examples=12, deadline=None)
@given(deaths=DEATHS, rounds=st.integers(0, 5))
def test_no_death_lets_a_device_tell_more_than_its_budget(deaths: list[tuple[int, bool]], rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), FIRST)
        try:
            play(world, room_for(rounds), 3, list(deaths))
        except ConsentRefusedError:
            # Not even one round fits, so that nothing is joined.
            assert rounds == 0
        assert left(world) <= counted(world)
        assert len(counted(world)) <= rounds


def test_device_that_counts_too_late_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above can fail: here a round is counted with a commit that a power cut takes back."""

    def forgetful(state: DeviceState, document: ExperimentDocument, round_number: int, consent: Consent) -> None:
        if not state.ledger.joined(document.digest, round_number):
            why = ledger.spend(ledger.entries(state, also=document.digest), consent).fits(consent, document.digest)
            if why is not None:
                raise ConsentRefusedError(why)

    monkeypatch.setattr(membership, "enter", forgetful)
    world = World(tmp_path, FIRST)
    play(world, room_for(1), 2, [])
    assert not left(world) <= counted(world)


_SPENDER = """
import sys
from pathlib import Path
from secvm.errors import ConsentRefusedError
from secvm.participant.consent.policies import Budget, Consent
from secvm.participant.consent.ledger import enter
from secvm.participant.storage.state import DeviceState
from secvm.protocol.documents.experiment import read_published
state = DeviceState(Path(sys.argv[1]))
(record,) = state.records()
document = read_published(record.envelope, digest=record.digest)
consent = Consent(most_auc=1.0, budget=Budget(auc=float(sys.argv[2])))
for number in range(1, 1000):
    try:
        enter(state, document, number, consent)
    except ConsentRefusedError:
        break
    print(number, flush=True)
"""
