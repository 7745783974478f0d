"""One label at the entry relay: the same bytes whenever it is killed, one batch, one reveal, and nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.crypto.sealing.layers import OUTER_BYTES, open_inner, open_outer
from secvm.errors import BadSignatureError
from secvm.protocol.relays.batches import capsule_digest, capsule_root, split_piece
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount
from secvm.protocol.relays.submission import Receipt
from secvm.relay.entry.intake import IntakeVerdict
from secvm.relay.entry.rounds import EntryRound
from secvm.relay.refusals import RelayRefusalError
from tests.unit.relay.relayed import (
    BUDGET,
    COUNT_KEY,
    ENTRY_KEY,
    ENTRY_SECRET,
    LABEL,
    LIMITS,
    MIX_SECRET,
    PACKAGES,
    PARTS,
    TIMES,
    Machine,
    mix_count,
    plan,
    sealed,
    submission,
    until_nothing,
)

CLIENTS = 4


def take(entry: EntryRound, *clients: int) -> list[IntakeVerdict]:
    return entry.take([submission(client) for client in clients], LIMITS, 1500)


def batch(machine: Machine) -> tuple[EntryCount, list[bytes]]:
    entry = machine.start()
    assert entry.count is not None
    return EntryCount.read(entry.count, ENTRY_KEY.public), split_piece(entry.piece(0), OUTER_BYTES)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "relay", "entry") as made:
        yield made


@pytest.fixture
def machine(fresh: Machine) -> Machine:
    """The same with some clients' submissions."""
    take(fresh.start(), *range(CLIENTS))
    return fresh


def test_the_batch_is_all_submissions_and_all_parts_sorted_and_counted(machine: Machine) -> None:
    entry = machine.start()
    assert entry.advance(TIMES.accept_until - 1) is None
    expected = ["closed", *(f"part-{part}" for part in range(PARTS)), "counted"]
    assert until_nothing(entry, TIMES.accept_until) == expected
    count, capsules = batch(machine)
    own = {sealed(100 * client + number)[1] for client in range(CLIENTS) for number in range(BUDGET)}
    received = capsule_root(sorted(map(capsule_digest, own)))
    assert (count.clients, count.capsules, count.received) == (CLIENTS, BUDGET * CLIENTS + PACKAGES, received)
    assert [*map(capsule_digest, capsules)] == sorted(map(capsule_digest, capsules))
    assert count.root == capsule_root(map(capsule_digest, capsules))
    assert own <= set(capsules)
    cover = {one for part in range(PARTS) for one in machine.draws(ENTRY_SECRET.part_seed(part), received)}
    assert set(capsules) == own | cover
    assert all(open_inner(COUNT_KEY, LABEL, open_outer(MIX_SECRET.mix_key, LABEL, capsule)) for capsule in capsules)
    assert machine.keeping is not None
    assert machine.keeping.leaf_piece(LABEL, 0) == b"".join(map(capsule_digest, capsules))
    assert machine.keeping.leaf_piece(LABEL, 1) is None


def test_the_batch_waits_for_its_time_however_early_it_is_ready(machine: Machine) -> None:
    entry = machine.start()
    until_nothing(entry, TIMES.accept_until)
    assert not entry.is_waiting(TIMES.batch_by - 1)
    assert entry.is_waiting(TIMES.batch_by)
    entry.handed_on()
    assert not entry.is_waiting(TIMES.batch_by)


def test_window_and_receipts(machine: Machine) -> None:
    entry = machine.start()
    for now, problem in ((TIMES.opens_at - 1, "too-early"), (TIMES.accept_until, "stale")):
        with pytest.raises(RelayRefusalError) as refused:
            entry.take([submission(9)], LIMITS, now)
        assert getattr(refused.value, "why", refused.value.problem) == problem
    one = submission(1)
    assert entry.knows(one.root)
    assert not entry.knows(submission(9).root)
    receipt = Receipt.read(entry.receipt(one.root), ENTRY_KEY.public)
    assert (receipt.label, receipt.root, receipt.capsules) == (LABEL, one.root, BUDGET)
    # Once it is closed no clock that goes back lets anybody in.
    until_nothing(entry, TIMES.accept_until)
    with pytest.raises(RelayRefusalError):
        take(entry, 9)


# ── the reveal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_reveal_for_the_first_count_and_only_for_one_over_our_batch(machine: Machine) -> None:
    entry = machine.start()
    with pytest.raises(RelayRefusalError):
        entry.answer(mix_count(count_of_nobody()), 3500)
    until_nothing(entry, TIMES.accept_until)
    assert entry.count is not None
    with pytest.raises(BadSignatureError):
        entry.answer(mix_count(entry.count, key=ENTRY_KEY), 3500)
    with pytest.raises(RelayRefusalError, match="another batch"):
        entry.answer(mix_count(count_of_nobody()), 3500)
    entry.answer(mix_count(entry.count), 3500)
    with pytest.raises(RelayRefusalError, match="another count"):
        entry.answer(mix_count(entry.count, root=b"n" * 32), 3500)
    assert until_nothing(entry, 3500) == ["revealed", "silent"]
    paper = machine.paper("entry_reveal")
    assert paper is not None
    reveal = EntryReveal.read(paper, ENTRY_KEY.public)
    named = plan().entry_commitment
    digest = MixCount.enclosed(mix_count(entry.count)).digest
    assert reveal.faults(label=LABEL, commitment=named, mix_count=digest, parts=PARTS) == set()
    with pytest.raises(RelayRefusalError, match="another count"):
        entry.answer(mix_count(entry.count, root=b"n" * 32), 3600)
    assert machine.paper("entry_reveal") == paper


def count_of_nobody() -> bytes:
    return EntryCount(label=LABEL, clients=1, received=bytes(32), capsules=11, root=bytes(32)).signed(ENTRY_KEY)


def test_nothing_is_opened_after_open_by_and_nothing_is_left(machine: Machine) -> None:
    entry = machine.start()
    until_nothing(entry, TIMES.accept_until)
    assert entry.count is not None
    own = entry.count
    assert until_nothing(entry, TIMES.open_by) == ["over"]
    with pytest.raises(RelayRefusalError, match="over"):
        entry.answer(mix_count(own), TIMES.open_by)
    assert machine.paper("entry_reveal") is None
    left = machine.everything()
    assert ENTRY_SECRET.secret not in left
    assert not any(sealed(number)[1][at : at + 16] in left for number in range(3) for at in range(0, 128, 16))


def test_forgetting_leaves_no_client_capsule_or_seed_but_the_opened_one(machine: Machine) -> None:
    entry = machine.start()
    until_nothing(entry, TIMES.accept_until)
    _, capsules = batch(machine)
    assert capsules[0][:16] in machine.everything()
    entry.handed_on()
    assert until_nothing(entry, TIMES.batch_by) == ["forgotten"]
    left = machine.everything()
    assert not any(capsule[at : at + 16] in left for capsule in capsules for at in range(0, 128, 16))
    assert ENTRY_SECRET.secret in left
    assert entry.count is not None
    entry.answer(mix_count(entry.count), 3500)
    assert until_nothing(entry, 3500) == ["revealed", "silent"]
    left = machine.everything()
    assert ENTRY_SECRET.secret not in left
    paper = machine.paper("entry_reveal")
    assert paper is not None
    opened = EntryReveal.enclosed(paper).part
    hidden = [seed for part, seed in enumerate(ENTRY_SECRET.part_seeds(PARTS)) if part != opened]
    assert not any(seed in left or seed.hex().encode() in left for seed in hidden)


# ── killed, restored, restarted ──────────────────────────────────────────────────────────────────────────────────────


def test_a_disk_restored_alone_draws_over_no_other_batch(fresh: Machine) -> None:
    take(fresh.start(), 0)
    copy = fresh.save()
    take(fresh.start(), 1)
    until_nothing(fresh.start(), TIMES.accept_until)
    seen = set(fresh.draws.seen)
    fresh.restore(copy)
    entry = fresh.start()
    assert until_nothing(entry, TIMES.accept_until) == ["closed"]
    assert entry.is_lost
    assert entry.count is None
    assert fresh.draws.seen == seen
    assert not entry.is_waiting(TIMES.batch_by)


def test_a_disk_restored_alone_with_the_whole_batch_gives_the_same_bytes(fresh: Machine) -> None:
    take(fresh.start(), 0, 1)
    copy = fresh.save()
    until_nothing(fresh.start(), TIMES.accept_until)
    first = fresh.start().count, fresh.start().piece(0)
    fresh.restore(copy)
    until_nothing(fresh.start(), TIMES.accept_until)
    assert (fresh.start().count, fresh.start().piece(0)) == first


def test_a_disk_restored_alone_opens_no_second_part(fresh: Machine) -> None:
    take(fresh.start(), 0)
    until_nothing(fresh.start(), TIMES.accept_until)
    own = fresh.start().count
    assert own is not None
    copy = fresh.save()
    entry = fresh.start()
    entry.answer(mix_count(own), 3500)
    assert entry.advance(3500) == "revealed"
    # The secret is still there: the process died before it was destroyed.
    fresh.restore(copy)
    entry = fresh.start()
    with pytest.raises(RelayRefusalError, match="another count"):
        entry.answer(mix_count(own, root=b"n" * 32), 3500)
    assert entry.advance(3500) is None


@pytest.mark.parametrize("after", ["taken", "closed", "part-1"])
def test_a_machine_that_restarted_has_no_secret_and_never_draws_again(fresh: Machine, after: str) -> None:
    take(fresh.start(), 0, 1)
    while after != "taken" and fresh.start().advance(TIMES.accept_until) != after:
        pass
    seen = set(fresh.draws.seen)
    fresh.restart()
    entry = fresh.start()
    assert entry.is_lost
    assert until_nothing(entry, TIMES.accept_until) == []
    assert fresh.draws.seen == seen
    assert entry.count is None
    # What came would be lost: nothing more is taken.
    with pytest.raises(RelayRefusalError, match="no more"):
        take(entry, 5)
    assert until_nothing(entry, TIMES.open_by) == ["over"]


def test_submissions_that_vanished_from_the_disk_are_noticed_before_anything_is_drawn(fresh: Machine) -> None:
    take(fresh.start(), 0, 1)
    assert fresh.start().advance(TIMES.accept_until) == "closed"
    fresh.die()
    for file in (fresh.folder / "disk").glob("*.capsules*"):
        file.unlink()
    entry = fresh.start()
    assert until_nothing(entry, TIMES.accept_until) == []
    assert entry.is_lost
    assert fresh.draws.seen == set()
