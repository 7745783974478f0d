"""One label at the mixing relay: the entry relay's batch and no other, opened once, covered, counted, forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.crypto.sealing.layers import INNER_BYTES, open_inner, seal_outer
from secvm.crypto.signing import SigningKey
from secvm.errors import BadSignatureError
from secvm.protocol.relays.batches import capsule_digest, capsule_root, split_piece
from secvm.protocol.relays.commitments import RoundSecret
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal, entry_reveal
from secvm.relay.mix import MixRound
from secvm.relay.refusals import RelayRefusalError
from tests.unit.relay.relayed import (
    BUDGET,
    COUNT_KEY,
    ENTRY_KEY,
    ENTRY_SECRET,
    LABEL,
    MIX_KEY,
    MIX_SECRET,
    PACKAGES,
    PARTS,
    TIMES,
    Machine,
    entry_count,
    plan,
    sealed,
    until_nothing,
)

#: What an entry relay of one client and eight packages of cover hands on, some of it wrong.
OUTERS = sorted((sealed(number)[1] for number in range(BUDGET + PACKAGES)), key=capsule_digest)
STRANGER = SigningKey(b"s" * 32)


def batch_of(outers: list[bytes]) -> tuple[bytes, bytes]:
    ordered = sorted(outers, key=capsule_digest)
    return entry_count(ordered, clients=1), b"".join(ordered)


def hand(mix: MixRound, outers: list[bytes]) -> bytes:
    count, piece = batch_of(outers)
    assert mix.announce(count, 3000) == []
    mix.put(0, piece, 3000)
    assert mix.announce(count, 3000) == [0]
    mix.complete(count, 3000)
    return count


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "relay", "mix") as made:
        yield made


def own_batch(machine: Machine) -> tuple[MixCount, list[bytes]]:
    mix = machine.start()
    assert mix.count is not None
    return MixCount.read(mix.count, MIX_KEY.public), split_piece(mix.piece(0), INNER_BYTES)


def test_it_opens_covers_sorts_and_counts(machine: Machine) -> None:
    mix = machine.start()
    entry = EntryCount.enclosed(hand(mix, OUTERS))
    expected = ["opened-0", *(f"part-{part}" for part in range(PARTS)), "counted"]
    assert until_nothing(mix, 3000) == expected
    count, capsules = own_batch(machine)
    assert (count.entry_count, count.refused, count.capsules) == (entry.digest, 0, len(OUTERS) + PACKAGES)
    assert count.adds_up(entry, packages=PACKAGES)
    assert count.root == capsule_root(map(capsule_digest, capsules))
    cover = {one for part in range(PARTS) for one in machine.draws(MIX_SECRET.part_seed(part), entry.root)}
    assert set(capsules) == cover | {sealed(number)[0] for number in range(len(OUTERS))}
    assert all(open_inner(COUNT_KEY, LABEL, capsule) for capsule in capsules)
    assert not mix.is_waiting(TIMES.mix_by - 1)
    assert mix.is_waiting(TIMES.mix_by)


def test_what_does_not_open_and_what_comes_twice_inside_is_refused_and_counted(machine: Machine) -> None:
    twice = seal_outer(MIX_SECRET.mix_key.public_key, LABEL, b"o" * 32, sealed(0)[0])
    other_label = sealed(50, label=b"l" * 32)[1]
    outers = [*OUTERS[:8], twice, other_label, os.urandom(128)]
    mix = machine.start()
    twins = sealed(0)[1] in outers
    entry = EntryCount.enclosed(hand(mix, outers))
    until_nothing(mix, 3000)
    count, capsules = own_batch(machine)
    assert count.refused == 2 + twins
    assert count.adds_up(entry, packages=PACKAGES)
    assert len(capsules) == count.capsules == len(set(capsules))


def test_a_foreign_batch_first_is_refused_and_the_entry_relays_still_taken(machine: Machine) -> None:
    mix = machine.start()
    foreign = entry_count(OUTERS, clients=1, key=STRANGER)
    with pytest.raises(BadSignatureError):
        mix.announce(foreign, 3000)
    with pytest.raises(RelayRefusalError, match="not announced"):
        mix.put(0, os.urandom(128), 3000)
    hand(mix, OUTERS)
    assert "counted" in until_nothing(mix, 3000)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"label": b"\1" * 32}, "wrong-label"),
        ({"clients": 2}, "garbage"),
        ({"clients": 1000, "capsules": 1000 * BUDGET + PACKAGES}, "refused"),
    ],
)
def test_a_count_that_is_not_this_rounds_or_no_equation_is_refused(
    machine: Machine, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(RelayRefusalError) as refused:
        machine.start().announce(entry_count(OUTERS, **{"clients": 1, **changes}), 3000)  # type: ignore[arg-type]
    assert getattr(refused.value, "why", refused.value.problem) == problem


def test_the_first_count_of_the_entry_relay_stays(machine: Machine) -> None:
    mix = machine.start()
    mix.announce(entry_count(OUTERS, clients=1), 3000)
    with pytest.raises(RelayRefusalError, match="came before"):
        mix.announce(entry_count(OUTERS, clients=1, root=b"r" * 32), 3000)


def test_nothing_is_opened_before_the_batch_is_whole_and_the_announced_one(machine: Machine) -> None:
    mix = machine.start()
    count, piece = batch_of(OUTERS)
    mix.announce(count, 3000)
    with pytest.raises(RelayRefusalError, match="1 pieces"):
        mix.complete(count, 3000)
    for index, data, problem in ((1, piece, "unknown"), (0, piece[:-128], "too-large")):
        with pytest.raises(RelayRefusalError) as refused:
            mix.put(index, data, 3000)
        assert getattr(refused.value, "why", refused.value.problem) == problem
    wrong = piece[128:256] + piece[:128] + piece[256:]
    mix.put(0, wrong, 3000)
    with pytest.raises(RelayRefusalError, match="other bytes"):
        mix.put(0, piece, 3000)
    with pytest.raises(RelayRefusalError, match="not the batch"):
        mix.complete(count, 3000)
    assert until_nothing(mix, 3000) == []
    # It was dropped, and the right one may come.
    mix.put(0, piece, 3000)
    mix.complete(count, 3000)
    assert "counted" in until_nothing(mix, 3000)
    # Whatever comes now changes nothing.
    mix.put(0, wrong, 3000)
    mix.complete(count, 3000)
    with pytest.raises(RelayRefusalError, match="over"):
        mix.put(0, piece, TIMES.open_by)


def first_reveal(machine: Machine, secret: RoundSecret = ENTRY_SECRET) -> EntryReveal:
    own = machine.start().count
    assert own is not None
    return entry_reveal(secret, own, parts=PARTS)


def test_the_first_valid_reveal_that_names_our_count_is_answered(machine: Machine) -> None:
    mix = machine.start()
    hand(mix, OUTERS)
    until_nothing(mix, 3000)
    assert mix.count is not None
    good = first_reveal(machine)
    own = MixCount.enclosed(mix.count)
    other = MixCount(label=LABEL, entry_count=own.entry_count, refused=0, capsules=own.capsules, root=b"o" * 32).signed(
        MIX_KEY
    )
    lies = [
        entry_reveal(ENTRY_SECRET, other, parts=PARTS),
        first_reveal(machine, RoundSecret(b"another secret of 32 bytes, yes!")),
        EntryReveal(
            label=LABEL,
            mix_count=good.mix_count,
            nonce=good.nonce,
            part=(good.part + 1) % PARTS,
            seed=good.seed,
            path=good.path,
        ),
    ]
    for lie in lies:
        with pytest.raises(RelayRefusalError):
            mix.answer(lie.signed(ENTRY_KEY), 4500)
    with pytest.raises(BadSignatureError):
        mix.answer(good.signed(STRANGER), 4500)
    assert mix.advance(4500) is None
    mix.answer(good.signed(ENTRY_KEY), 4500)
    assert until_nothing(mix, 4500) == ["revealed", "silent"]
    paper = machine.paper("mix_reveal")
    assert paper is not None
    reveal = MixReveal.read(paper, MIX_KEY.public)
    named = plan().mix_commitment
    assert reveal.faults(label=LABEL, commitment=named, entry_reveal=good, mix_count=own.digest, parts=PARTS) == set()


def test_the_key_goes_at_the_deposit_and_the_seeds_at_the_reveal(machine: Machine) -> None:
    mix = machine.start()
    hand(mix, OUTERS)
    until_nothing(mix, 3000)
    _, capsules = own_batch(machine)
    reveal = first_reveal(machine).signed(ENTRY_KEY)
    mix.handed_on()
    assert until_nothing(mix, TIMES.mix_by) == ["narrowed", "forgotten"]
    left = machine.everything()
    assert MIX_SECRET.secret not in left
    assert MIX_SECRET.mix_key.secret_bytes() not in left
    assert not any(one[at : at + 16] in left for one in (*OUTERS, *capsules) for at in range(0, len(one) - 15, 16))
    mix.answer(reveal, 4500)
    assert until_nothing(mix, 4500) == ["revealed", "silent"]
    left = machine.everything()
    paper = machine.paper("mix_reveal")
    assert paper is not None
    opened = MixReveal.enclosed(paper).part
    hidden = [seed for part, seed in enumerate(MIX_SECRET.part_seeds(PARTS)) if part != opened]
    assert not any(seed in left or seed.hex().encode() in left for seed in hidden)
    # What is public stays.
    assert machine.keeping is not None
    assert machine.keeping.leaf_piece(LABEL, 0) == b"".join(map(capsule_digest, OUTERS))


def test_cover_that_is_missing_is_no_reason_for_anything(machine: Machine) -> None:
    mix = machine.start()
    hand(mix, [*OUTERS[1:], sealed(77)[1]])
    assert "counted" in until_nothing(mix, 3000)


@pytest.mark.parametrize("after", ["whole", "opened-0", "part-2"])
def test_a_machine_that_restarted_never_draws_again(machine: Machine, after: str) -> None:
    hand(machine.start(), OUTERS)
    while after != "whole" and machine.start().advance(3000) != after:
        pass
    seen = set(machine.draws.seen)
    machine.restart()
    mix = machine.start()
    assert mix.is_lost
    assert until_nothing(mix, 3000) == []
    assert (mix.count, machine.draws.seen) == (None, seen)


def test_a_disk_restored_alone_draws_over_no_other_batch(machine: Machine) -> None:
    machine.start()
    copy = machine.save()
    hand(machine.start(), OUTERS)
    until_nothing(machine.start(), 3000)
    seen = set(machine.draws.seen)
    machine.restore(copy)
    # An entry relay that lies signs a second batch.
    hand(machine.start(), [*OUTERS[1:], sealed(88)[1]])
    mix = machine.start()
    assert until_nothing(mix, 3000) == []
    assert mix.is_lost
    assert machine.draws.seen == seen
