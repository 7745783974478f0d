"""What must hold: after every operation (``check_now``), and when everything has come to its end (``check_end``).

 1. What the coordinator has acknowledged is counted in its round, once; what was refused is not; of the rest each is
    counted at most once. The tally is the exact sum of what is in those capsules, opened here once more.
 2. The relay's deposit holds all that the relay has acknowledged.
 3. There is one manifest of a round. No witness has seen a fork, and none has forgotten what it cosigned; what is
    public has its quorum and is one log.
 4. A device sends nothing before its ledger has the round on the disk, never more than B different capsules in a
    round, and never tells more than its person's budget.
 5. Nobody who does not drive changes what only a driver changes.
 6. Nobody breaks, and everything ends.
 7. An auditor who has only public files comes to the same states, and finds nothing wrong.

Each returns sentences about what is wrong; none: all is well.
"""

from __future__ import annotations

from collections.abc import Iterator

from secvm.auditor.audit import audit_files
from secvm.auditor.files import checked_length
from secvm.coordinator.log.log_files import first_path, proof_path
from secvm.coordinator.public_documents import ending_path
from secvm.coordinator.publisher import experiment_path, manifest_path
from secvm.coordinator.store.port import StoredRound
from secvm.errors import RefusedPackageError
from secvm.learning import aggregate
from secvm.learning.package import Package
from secvm.participant.consent.ledger import spending
from secvm.participant.storage.books import NOTHING
from secvm.protocol.codec import check_package
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.round_state import RoundState
from secvm_lab.simulation.parties.nodes import SimulatedNode
from secvm_lab.simulation.question import GRID
from secvm_lab.simulation.world import World


def check_now(world: World) -> list[str]:
    """What can be seen at any time."""
    return [*world.wrong, *world.database.wrong, *_witnesses(world), *_shown_unseen(world)]


def check_end(world: World) -> list[str]:
    """What can be seen at the end."""
    wrong = list(_ledgers(world))
    wrong += _deposits(world)
    for stored in world.database.store.rounds(world.document.digest):
        wrong += _round(world, stored)
    if not wrong:
        wrong += _audit(world)
    return wrong


def driver_of(world: World) -> SimulatedNode | None:
    """The node that drives, as far as it knows and is alive."""
    return next((node for node in world.nodes if node.drives and not node.life.dead), None)


def what_is_left(world: World) -> list[str]:
    """Who has not come to an end yet; nobody: nothing more will happen."""
    store, digest = world.database.store, world.document.digest
    left = []
    driver = driver_of(world)
    if driver is None:
        return ["nobody drives"]
    if driver.public(ending_path(digest)) is None:
        (stored,) = store.experiments()
        rounds = [f"{one.number} {one.state.value}" for one in store.rounds(digest)]
        left.append(f"the experiment is {stored.standing.value}, its rounds: {', '.join(rounds) or 'none'}")
    live = {one.epoch for one in store.rounds(digest) if one.state in _LIVE}
    now, held = world.clocks["database"].now(), store.keys()
    left += [f"epoch {key.epoch} is not scrubbed" for key in held if key.epoch not in live and _past(key.epoch, now)]
    if world.relay is not None and world.relay.store is not None and world.relay.store.waiting():
        left.append("the relay has deposits")
    left += [
        f"{device.name} does not know that it is over" for device in world.devices if not device.at_rest(world.document)
    ]
    return left


_LIVE = (RoundState.ANNOUNCED, RoundState.OPEN, RoundState.CLOSING)


def _past(epoch: int, now: int) -> bool:
    return now >= GRID.end(epoch) + 30_000


# ── (3) the log ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _witnesses(world: World) -> Iterator[str]:
    for witness in world.witnesses:
        if witness.told:
            seen, forks = witness.seen()
            for told in witness.told:
                found = seen.get(told.origin)
                if found is None or found.size < told.size:
                    yield f"{witness.name} has forgotten what it cosigned"
                yield from world.claim(told)
            witness.told.clear()
            if forks:
                yield f"{witness.name} has seen a fork"


def _shown_unseen(world: World) -> Iterator[str]:
    """A document is shown with a proof, which is made of a checkpoint that a quorum cosigned."""
    digest = world.document.digest
    shown = {experiment_path(digest): first_path(digest)}
    shown |= {manifest_path(digest, n): proof_path(digest, n) for n in range(1, world.document.rounds + 1)}
    for node in world.nodes:
        if not node.life.dead:
            for path, proof in shown.items():
                if node.public(path) is not None and node.public(proof) is None:
                    yield f"{node.name} shows {path} without its quorum"


# ── (4) devices ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _ledgers(world: World) -> Iterator[str]:
    digest = world.document.digest
    for device in world.devices:
        entered = [number for experiment, number in device.ledger if experiment == digest]
        sent = [number for name, number in world.truth.sent if name == device.name]
        if not set(sent) <= set(entered):
            yield f"{device.name} has sent packages of rounds that its ledger has not"
        told = spending(world.document, len(entered), device.consent, NOTHING).d_squared
        if entered and (told is None or told > device.consent.budget.d_squared):
            yield f"{device.name} has spent more than its budget"


# ── (1), (2) counts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _deposits(world: World) -> Iterator[str]:
    for epoch, kept in world.truth.kept.items():
        handed = world.truth.deposits.get(epoch)
        if handed is not None and not kept.keys() <= handed:
            missing = len(kept.keys() - handed)
            yield f"the relay has acknowledged {missing} capsules that its deposit of epoch {epoch} has not"


def _round(world: World, stored: StoredRound) -> Iterator[str]:
    if stored.state in _LIVE:
        yield f"round {stored.number} has not ended"
        return
    truth = world.truth
    fates = {digest: fate for digest, fate in truth.fates.items() if fate.epoch == stored.epoch}
    # What was spoilt on its way does not open: it is acknowledged sealed, and dropped later.
    due = {digest for digest, fate in fates.items() if fate.due and truth.open(fate.capsule, stored.epoch) is not None}
    if stored.tally is None:
        packages = [_package(world, stored, fates[digest].capsule) for digest in due]
        least = aggregate.empty_tally(world.document.experiment).count([one for one in packages if one is not None])
        if world.document.reaches_floor(least.participants.tolist()):
            yield f"round {stored.number} was abandoned, although {len(due)} capsules were acknowledged"
        return
    counted = sorted(world.database.counted.get(stored.epoch, ()))
    lost = due - set(counted)
    if lost:
        yield f"round {stored.number}: {len(lost)} of {len(due)} acknowledged capsules are not counted"
    for digest in counted:
        fate = fates.get(digest)
        if fate is None:
            yield f"round {stored.number}: a capsule is counted that nobody has sent"
        elif not (fate.due or fate.open):
            yield f"round {stored.number}: a capsule is counted that was refused"
    packages = [_package(world, stored, fates[digest].capsule) for digest in counted if digest in fates]
    right = aggregate.empty_tally(world.document.experiment).count([one for one in packages if one is not None])
    data = world.database.store.blob(stored.tally)
    if decode_tally(data, digest=stored.tally, experiment=world.document.experiment) != right:
        yield f"round {stored.number}: the tally is not the sum of what was received"
    world.done["counted"] += len(counted)
    world.done["tallied"] += 1


def _package(world: World, stored: StoredRound, capsule: bytes) -> Package | None:
    """What a capsule adds to a round; None: nothing."""
    addressed = world.truth.open(capsule, stored.epoch)
    if addressed is None:
        return None
    document = world.document
    try:
        return check_package(
            addressed,
            experiment_id=document.experiment_id,
            experiment=document.experiment,
            round_number=stored.number,
        )
    except RefusedPackageError:
        return None


# ── (7) from outside ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Shown:
    """A node's public files."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def get(self, path: str, *, most: int) -> bytes | None:
        found = self._node.public(path)
        return None if found is None else checked_length(found[0], most)


def _audit(world: World) -> list[str]:
    node = driver_of(world)
    assert node is not None
    report = audit_files(_Shown(node), now=world.clocks["database"].now(), snapshot=True)
    return [f"an auditor: {fault}" for fault in report.faults]
