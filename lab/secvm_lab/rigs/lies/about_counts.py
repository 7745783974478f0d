"""Lies about who sent how much: a relay's count that cannot be, or no count."""

from __future__ import annotations

from dataclasses import replace

from secvm.protocol.documents.manifest import RelayCount, read_relay_count
from secvm_lab.rigs.histories.parties import draw_key
from secvm_lab.rigs.histories.public_history import LEAD_S
from secvm_lab.rigs.lies.liar import Liar, Scene, Told


def relay_count_that_cannot_be(scene: Scene) -> Told:
    """A relay's count that the relay did not sign, or that this tally, or this round, cannot have."""
    dice = scene.dice
    liar = Liar.after(scene.history)
    liar.announce()
    if not scene.newcomer and dice.random() < 0.5:
        scene.follow(liar)
    tally = liar.draw_tally()
    last = liar.conclude(tally)
    assert last.relay_count is not None
    count, key = read_relay_count(last.relay_count, liar.document), liar.parties.relays[0]
    packages = int(tally.plus.sum() + tally.minus.sum() + tally.participants.sum() + tally.cells.sum())
    variant = dice.choice(["a stranger's", "the coordinator's", "too few capsules", "another slot's"])
    # 256 slots ago the gateway's key had the same id.
    slots = dice.choice([-256, -1, 1, 256])
    told: RelayCount = {
        "too few capsules": replace(count, capsules=packages - dice.randint(1, packages)),
        "another slot's": replace(count, opens_at=count.opens_at + slots * 1000 * liar.period_s),
    }.get(variant, count)
    key = {"a stranger's": draw_key(dice), "the coordinator's": liar.parties.coordinator}.get(variant, key)
    manifest = liar.make_manifest()
    liar.now = max(liar.now, manifest.opens_at - 1000 * LEAD_S)
    manifest = replace(manifest, last=replace(last, relay_count=told.signed(key)))
    liar.add(manifest)
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def relay_count_withheld(scene: Scene) -> Told:
    """No relay's count of a round that was counted, so that nothing is compared with it."""
    liar = Liar.after(scene.history)
    liar.announce()
    if not scene.newcomer and scene.dice.random() < 0.5:
        scene.follow(liar)
    last = liar.conclude(liar.draw_tally())
    liar.announce(last=replace(last, relay_count=None))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant="in the next manifest")
