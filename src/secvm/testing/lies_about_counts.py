"""Lies about who sent how much: a capsule that was acknowledged and left out, a relay's count that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from secvm.protocol.manifest import RelayCount, read_relay_count
from secvm.protocol.receipts import encode_bits, encode_receipt
from secvm.protocol.received import DIGEST_BYTES, Receipt, bucket_bits, bucket_of, receipt, side_by_side
from secvm.testing.lying import Liar, Scene, Told
from secvm.testing.parties import draw_key
from secvm.testing.public_history import LEAD_S


def capsule_left_out(scene: Scene) -> Told:
    """An acknowledged capsule is not under the received root, whatever receipt is shown for it."""
    liar = Liar.after(scene.history)
    liar.announce()
    scene.follow(liar)
    return leave_out(scene, liar, [scene.dice.randbytes(DIGEST_BYTES) for _ in range(liar.document.budget)])


def leave_out(scene: Scene, liar: Liar, mine: Sequence[bytes]) -> Told:
    """After a round for which these capsules of the victim's were acknowledged."""
    dice = scene.dice
    left_out = dice.sample(mine, dice.randint(1, len(mine)))
    kept = [digest for digest in mine if digest not in left_out]
    number = len(liar.manifests)
    liar.conclude(liar.draw_tally(), capsules=kept)
    variant = dice.choice(
        ["not in its bucket", "no receipt", "forged bucket", "of another tree", "no root", "wrong bits"]
    )
    received = liar.received[number]
    whole = side_by_side([*received, *left_out])
    place = f"{liar.place}/received/{number}"
    bits = bucket_bits(len(side_by_side(received)) // DIGEST_BYTES)
    match variant:
        case "no receipt":
            for digest in left_out:
                liar.files.pop(f"{place}/{bucket_of(digest, bits)}", None)
        case "forged bucket":
            # Its bucket, with the digest put in, and the neighbours as they are.
            for digest in left_out:
                path = f"{place}/{bucket_of(digest, bits)}"
                others = [one for one in received if bucket_of(one, bits) == bucket_of(digest, bits)]
                steps = receipt(side_by_side(received), others[0]).path if others else ()
                liar.files[path] = encode_receipt(Receipt(side_by_side([*others, digest]), steps))
        case "of another tree":
            # A receipt that is right, under a root that was not published.
            more = bucket_bits(len(whole) // DIGEST_BYTES)
            liar.files[place] = encode_bits(more)
            for digest in mine:
                liar.files[f"{place}/{bucket_of(digest, more)}"] = encode_receipt(receipt(whole, digest))
        case "wrong bits":
            liar.files[place] = encode_bits(bits + 1)
        case _:
            pass
    # What was concluded is told in the next manifest.
    manifest = liar.make_manifest()
    assert manifest.last is not None
    liar.now = max(liar.now, manifest.opens_at - 1000 * LEAD_S)
    if variant == "no root":
        manifest = replace(manifest, last=replace(manifest.last, received_root=None))
    liar.add(manifest)
    told = (number, tuple(mine))
    # That a bucket is whole, and without one capsule, nobody else can see.
    visible = variant != "not in its bucket"
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant, acknowledged=told, visible=visible)


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
    variant = dice.choice(["a stranger's", "the coordinator's", "too few capsules", "another epoch's"])
    told: RelayCount = {
        "too few capsules": replace(count, capsules=packages - dice.randint(1, packages)),
        "another epoch's": replace(count, epoch=count.epoch + dice.choice([-1, 1])),
    }.get(variant, count)
    key = {"a stranger's": draw_key(dice), "the coordinator's": liar.parties.coordinator}.get(variant, key)
    manifest = liar.make_manifest()
    liar.now = max(liar.now, manifest.opens_at - 1000 * LEAD_S)
    manifest = replace(manifest, last=replace(last, relay_count=told.to_signed_bytes(key)))
    liar.add(manifest)
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


__all__ = ["capsule_left_out", "leave_out", "relay_count_that_cannot_be"]
