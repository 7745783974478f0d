"""What a device keeps of a round with two relays, looked for in the bytes of its folder; and what a kill leaves."""

import hashlib
import itertools
import os
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from secvm.learning.package import TrainPackage
from secvm.participant.device import Device
from secvm.participant.dice import RandomBytes, safe_dice
from secvm.participant.host import Host
from secvm.participant.relayed import membership
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays import submission as canary
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.submission import (
    RECOUNTED_ONE_IN,
    SECRETS_BYTES,
    Canary,
    Submission,
    read_request,
    seal_submission,
)
from secvm_lab.rigs.histories.relayed_rounds import relayed_document, relayed_experiment
from secvm_lab.rigs.histories.witnessed_log import known_log_terms
from tests.effort import scaled
from tests.seeds import seed_for
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.world import Crash, Fate

#: In which the tests here live.
WORLD = RelayedWorld


class Noted:
    """Remembers all that was ever sealed, which the device must not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[Submission, bytes, list[bytes]]] = []

        def seal(document, manifest, packages, *, order, ephemerals, token, sealer):  # type: ignore[no-untyped-def]
            made = seal_submission(document, manifest, packages, order=order, ephemerals=ephemerals, token=token)
            number = manifest.round_number
            plain = [encode(AddressedPackage(document.experiment_id, number, one)) for one in packages]
            self.made.append((made, ephemerals, plain))
            return made

        monkeypatch.setattr(membership, "seal_submission", seal)


def folder_bytes(folder: Path) -> bytes:
    """Everything that the device has on its disk, SQLite's log included."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def forms(secret: bytes) -> list[bytes]:
    """As bytes, and as the documents of a device would write them."""
    return [secret, secret.hex().encode()]


def test_after_the_receipt_nothing_is_kept_but_the_canary(world: RelayedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Noted(monkeypatch)
    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by - 1)
    device.flush(durable=True)
    ((made, secrets, plain),) = noted.made
    (kept,) = device.state.relayed.canaries(world.of.digest)
    found = folder_bytes(world.folder)
    each = [secrets[at : at + SECRETS_BYTES] for at in range(0, len(secrets), SECRETS_BYTES)]
    others = [one for one in each if one != kept.canary.ephemerals]
    assert len(others) == world.of.budget - 1
    capsules = read_request(made.body, budget=world.of.budget)
    digests = [capsule_digest(one) for one in capsules if capsule_digest(one) != kept.canary.place.digest]
    wanted = [half for one in others for half in (one[:32], one[32:])] + digests + plain + list(capsules)
    assert not [one for secret in wanted for one in forms(secret) if one in found]
    # The search can find: what is kept is there.
    assert kept.canary.ephemerals.hex().encode() in found
    assert made.canary.receipt is None


def test_repro_a_host_counts_canaries_without_reading_them(
    world: RelayedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question for a host's counts decoded the canaries of all its devices."""

    def read(_data: bytes) -> Canary:
        raise AssertionError("nobody looks for a canary when they are counted")

    device = world.joined()
    host = Host([device], clock=world.clock)
    assert host.status()[world.of.digest]["canaries"] == 0
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by - 1)
    monkeypatch.setattr(Canary, "from_bytes", read)
    assert host.status()[world.of.digest]["canaries"] == 1


def test_when_the_canary_was_seen_nothing_of_the_round_is_kept(
    world: RelayedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = Noted(monkeypatch)
    world.live()
    device = world.started[-1]
    device.flush(durable=True)
    ((made, secrets, _),) = noted.made
    assert device.state.trust.checks(world.of.digest)["seen"] == 1
    found = folder_bytes(world.folder)
    canary = made.canary
    wanted = [secrets[at : at + 32] for at in range(0, len(secrets), 32)]
    wanted += [canary.inner_digest, canary.place.digest, canary.ephemerals]
    assert not [one for secret in wanted for one in forms(secret) if one in found]


def test_while_it_waits_the_request_is_on_the_disk_and_its_secrets_are_not(
    world: RelayedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = Noted(monkeypatch)
    world.net.script = iter([Fate.LOST] * 1000)
    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.opens_at - 1)
    found = folder_bytes(world.folder)
    ((made, secrets, plain),) = noted.made
    assert made.body[:1000] in found
    each = [secrets[at : at + 32] for at in range(0, len(secrets), 32)]
    hidden = [one for one in each if one not in made.canary.ephemerals]
    assert not [one for secret in hidden + plain for one in forms(secret) if one in found]
    world.drive(device, until=manifest.instants.accept_until + 1)
    device.flush(durable=True)
    found = folder_bytes(world.folder)
    assert not any(capsule in found for capsule in read_request(made.body, budget=world.of.budget))
    assert made.canary.ephemerals.hex().encode() not in found, "without a receipt there is nothing to look for"


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repro_a_request_that_left_before_a_kill_is_sent_again_after_the_window(world: RelayedWorld) -> None:

    async def submit(*_: object, **__: object) -> NoReturn:
        raise Crash

    device, quiet = world.joined(), world.net.submit
    world.net.submit = submit  # type: ignore[method-assign]
    manifest = world.history.announce()
    with pytest.raises(Crash):
        world.drive(device, until=manifest.instants.closes_at)
    device.state.close()
    world.net.submit = quiet  # type: ignore[method-assign]
    world.clock.advance(manifest.instants.closes_at + 1 - world.clock.now())
    device = begin(world)
    world.drive(device, until=manifest.instants.accept_until)
    assert len(world.net.requests) == 1
    assert [one.round_number for one in device.state.relayed.canaries(world.of.digest)] == [1], "with its receipt"


@pytest.mark.parametrize("number", range(scaled(12, 400)))
def test_killed_anywhere_it_never_sends_two_requests_nor_forgets_a_charge(tmp_path: Path, number: int) -> None:
    thrown = random.Random(seed_for("kills of a device with two relays", number))
    # Half of them hold their rounds to a log.
    world = RelayedWorld(tmp_path, relayed_document(log=known_log_terms() if number % 2 else None))
    fates = [Fate.ARRIVES, Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY]
    world.net.script = iter([thrown.choice(fates) for _ in range(8)])
    device = world.joined()
    for _ in range(2):
        manifest = world.history.announce()
        world.points.left = thrown.randrange(60)
        while True:
            try:
                world.drive(device, until=manifest.instants.mix_by)
                break
            except Crash:
                if thrown.random() < 0.5:
                    world.cut_power(device)
                else:
                    device.state.close()
                world.points.left = None if thrown.random() < 0.3 else thrown.randrange(80)
                device = begin(world)
        world.points.left = None
        world.finish(device, manifest)
    check(world, device)


def begin(world: RelayedWorld) -> Device:
    while True:
        try:
            return world.start()
        except Crash:
            continue


def check(world: RelayedWorld, device: Device) -> None:
    digest = world.of.digest
    bodies: dict[bytes, set[bytes]] = {}
    for one in world.net.requests:
        bodies.setdefault(one.label, set()).add(one.body)
    numbers = {played.label: played.round_number for played in world.history.rounds}
    assert all(len(found) == 1 for found in bodies.values()), "never two requests for one label"
    charged = {number for number in numbers.values() if device.state.ledger.joined(digest, number)}
    assert {numbers[label] for label in bodies} <= charged, "never a charge missing"
    for label, number in numbers.items():
        assert device.state.relayed.label(digest, number) in (None, label), "never a second label"
    joined = [one.round_number for one in device.state.history(digest)]
    assert all(first < second for first, second in pairwise(joined))
    assert world.member.distrust is None


# ── nothing but the canary decides ───────────────────────────────────────────────────────────────────────────────────


def dice(name: str) -> RandomBytes:
    thrown = itertools.count()

    def random_bytes(count: int) -> bytes:
        return hashlib.shake_256(f"{name} {next(thrown)}".encode()).digest(count)

    return random_bytes


def everybody_trains() -> ExperimentDocument:
    experiment = relayed_experiment()
    assert experiment.cover is not None
    cover = replace(experiment.cover, train_share=Fraction(1))
    return relayed_document(experiment=replace(experiment, cover=cover), train_share=Fraction(1))


def trace(folder: Path, label: str, name: str) -> tuple[object, int]:
    """All that can be seen of a person's device while C and X drop every package of a sign, and how many these were."""
    world = RelayedWorld(folder, everybody_trains())
    world.fill(label=label)
    # What is learnt is thrown with other dice: how many are needed depends on the person.
    device = world.start(random_bytes=dice(name), dice_for=safe_dice(os.urandom))
    world.join(device)
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    seen = replace(world.history.running, bodies=tuple(world.history.requests.values()))
    victims = frozenset(
        inner for inner, one in seen.packages_of.items() if isinstance(one, TrainPackage) and one.sign == 1
    )
    world.finish(device, manifest, mix_leaves_out=victims)
    world.play_round(device)
    requests = [(one.relay.url, one.at, len(one.body), one.fate) for one in world.net.requests]
    told = device.state.abstentions(world.of.digest), device.state.evidence(world.of.digest)
    return (requests, world.net.fetches, world.member.distrust, sorted(world.member.rounds), told), len(victims)


@pytest.mark.parametrize("one_in", [1, RECOUNTED_ONE_IN])
@pytest.mark.parametrize("number", range(scaled(2, 500)))
def test_dropping_all_packages_of_a_cell_changes_nothing_that_the_device_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, one_in: int
) -> None:
    # Also where every shard of a canary is counted again.
    monkeypatch.setattr(canary, "RECOUNTED_ONE_IN", one_in)
    # In the deep tier a thousand people whose packages are dropped, and a thousand others, with equal dice.
    name = f"{seed_for('traces', number)}"
    victim, dropped = trace(tmp_path / "one", "a", name)
    other, spared = trace(tmp_path / "other", "b", name)
    assert (dropped > 0) != (spared > 0)
    assert victim == other
    assert one_in > 1 or "/tally/1/0" in f"{victim}"
