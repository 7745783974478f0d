"""The state of a device: the person's alone, durable where it must be, and able to forget."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort
from secvm.participant.device import Device
from secvm.participant.storage.state import DeviceState, Status, _read_vector, _write_vector
from secvm.participant.storage.vault import Vault
from secvm.protocol.plain.session_events import Abstain, Finished, Reason
from secvm.protocol.plain.session_memory import Changes, WaitingRow
from tests.there import there
from tests.unit.participant.world import BUDGET, FEATURES, SECRET, World

PERSON = Individual(vector=BinnedVector(values={3: 1, 5: -2}, n_bins=9), label=1, target=-7, cohort=Cohort.TEST)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[DeviceState]:
    with closing(DeviceState(tmp_path / "device")) as opened:
        yield opened


def raw_bytes(folder: Path) -> bytes:
    """Everything that lies in a folder, as a thief would read it."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@given(
    values=st.dictionaries(st.integers(0, 2**24), st.integers(-(2**22), 2**22).filter(bool)), bins=st.integers(1, 2**24)
)
def test_vector_comes_back_as_it_was(values: dict[int, int], bins: int) -> None:
    vector = BinnedVector(values=values, n_bins=bins)
    assert _read_vector(_write_vector(vector)) == vector


def test_what_was_joined_comes_back_and_stays(tmp_path: Path) -> None:
    state = DeviceState(tmp_path / "device")
    state.join("d", b"envelope", PERSON)
    state.close()
    state = DeviceState(tmp_path / "device")
    record = there(state.record("d"))
    assert (record.status, record.envelope, record.cohort, record.person) == (
        Status.JOINED,
        b"envelope",
        Cohort.TEST,
        PERSON,
    )
    with pytest.raises(BadInputError):
        state.join("d", b"envelope", PERSON)
    with pytest.raises(BadInputError, match="does not take part"):
        state.set_status("e", Status.PAUSED)
    state.close()


def test_fresh_capsules_are_synced_and_the_rest_is_not(state: DeviceState) -> None:
    found = []
    for durable in (True, False, True, False):
        with state.writing(durable=durable):
            found.append(state._db.execute("PRAGMA synchronous").fetchone()[0])
    # 2 is FULL, 1 is NORMAL.
    assert found == [2, 1, 2, 1]
    assert state._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert state._db.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_for_made_up_people_syncing_can_be_left_out(tmp_path: Path) -> None:
    state = DeviceState(tmp_path / "device", unsafe_unsynced=True)
    for durable in (True, False):
        with state.writing(durable=durable):
            assert state._db.execute("PRAGMA synchronous").fetchone() == (0,)
    state.close()


def test_transaction_that_fails_changes_nothing(state: DeviceState) -> None:
    state.join("d", b"envelope", PERSON)
    with pytest.raises(RuntimeError), state.writing(durable=False):  # noqa: PT012  (a transaction that fails)
        state.put_session("d", Changes(header=b"h", put=(WaitingRow(0, 1, 0, b"c"),), removed=()))
        raise RuntimeError
    assert state.session_parts("d") is None


def test_session_is_not_written_for_an_experiment_that_was_forgotten_meanwhile(tmp_path: Path) -> None:
    state, other = DeviceState(tmp_path / "device"), DeviceState(tmp_path / "device")
    state.join("d", b"envelope", PERSON)
    assert other.changed_elsewhere()
    assert not other.changed_elsewhere()
    other.forget("d")
    assert state.changed_elsewhere()
    with state.writing(durable=False):
        state.put_session("d", Changes(header=b"h", put=(WaitingRow(0, 1, 0, b"c"),), removed=()))
    assert state.session_parts("d") is None
    state.close()
    other.close()


def test_history_abstentions_evidence_and_traffic_are_kept(state: DeviceState) -> None:
    state.join("d", b"envelope", PERSON)
    with state.writing(durable=False):
        state.put_joined("d", 1, 5)
        state.put_finished("d", Finished(1, acknowledged=4, lost=1))
        state.put_abstention("d", 2, Abstain(Reason.EQUIVOCATION, "sentence", (b"one", b"two")))
        state.put_abstention("d", 2, Abstain(Reason.EQUIVOCATION, "sentence", (b"one", b"two")))
        state.put_traffic(10, 7)
        state.put_traffic(10, 5)
    state.forget("d")
    (history,) = state.history("d")
    assert (history.round_number, history.packages, history.acknowledged, history.lost) == (1, 5, 4, 1)
    assert state.abstentions("d") == [(2, "EQUIVOCATION", "sentence")]
    assert state.evidence("d") == [b"one", b"two"]
    assert (state.traffic(10), state.traffic(11)) == (12, 0)
    with state.writing(durable=False):
        state.put_traffic(30, 1)
    assert state.traffic(10) == 0


def test_forget_leaves_no_byte_of_the_person_in_the_files(world: World, device: Device) -> None:
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at + 100_000)
    device.flush()
    record, parts = device.state.record(world.of.digest), device.state.session_parts(world.of.digest)
    assert record is not None
    assert record.person is not None
    assert parts is not None
    vector, capsules = _write_vector(record.person.vector), [row.capsule for row in parts[1]]
    assert 0 < len(capsules) <= BUDGET
    before = raw_bytes(world.folder)
    assert vector in before
    assert all(capsule in before for capsule in capsules)
    # The state never held a word; the vault does until it forgets.
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in world.folder.glob("state*"))
    assert SECRET.encode() in before
    device.state.forget(world.of.digest)
    device._look()
    with Vault(world.folder) as vault:
        vault.forget()
    after = raw_bytes(world.folder)
    assert vector not in after
    assert not any(capsule in after for capsule in capsules)
    assert not any(feature.encode() in after for feature in FEATURES)
    device.close()
    record = there(DeviceState(world.folder).record(world.of.digest))
    assert record.status is Status.FORGOTTEN
    assert record.cohort is not None


def test_state_of_version_1_of_the_protocol_is_refused_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    DeviceState(folder).close()
    with closing(sqlite3.connect(folder / "state.sqlite")) as db:
        db.execute(f"PRAGMA application_id = {0x53656353}")
    before = (folder / "state.sqlite").read_bytes()
    with pytest.raises(BadInputError, match="version 1 of the protocol") as refused:
        DeviceState(folder)
    assert "new folder" in (refused.value.next_step or "")
    assert (folder / "state.sqlite").read_bytes() == before


def test_what_is_believed_does_not_come_back_after_forgetting(state: DeviceState) -> None:
    state.join("d", b"envelope", PERSON, salt=b"salt")
    with state.writing(durable=True):
        state.trust.put_trusted("d", b"header", b"state")
        state.trust.count("d", "steps", 3)
    assert state.trust.trusted("d") == (b"header", b"state")
    state.forget("d")
    # A process that has not seen it yet writes once more.
    with state.writing(durable=True):
        state.trust.put_trusted("d", b"header", b"state")
    assert state.trust.trusted("d") is None
    assert state.trust.checks("d")["steps"] == 3


def test_a_model_is_after_as_many_rounds_as_its_operators_export_says(state: DeviceState) -> None:
    state.join("d", b"envelope", PERSON)
    second = SimpleNamespace(round_number=2, evaluation_weights="w")
    with state.writing(durable=True):
        state.put_model("d", second)
    # A round's manifest names the model of the rounds before it; an ending the one of all.
    assert there(state.model("d")).rounds == 1
    with state.writing(durable=True):
        state.put_ending("d", b"ending", second)
    assert there(state.model("d")).rounds == 2
