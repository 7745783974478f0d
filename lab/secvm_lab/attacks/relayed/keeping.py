"""Attacks on secrets: what can be opened later, what lies on a relay's disk, and cover that is drawn a second time."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from secvm.crypto.sealing.hpke import Context
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import inner_layer, open_inner
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counts import EntryReveal
from secvm.protocol.relays.opening import opening_faults
from secvm.protocol.relays.submission import read_request
from secvm.relay.batches.ledger import ENTRY_REVEAL
from secvm_lab.attacks.relayed.stage import Stage, finish
from secvm_lab.attacks.relayed.trap import Tried, held, refused, trap
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound

#: The order of X25519's base point.
_ORDER = 2**252 + 27742317777372353535851937790883648493
_TOP = 2**251


@trap(
    36,
    "published seed and old fetches",
    needs="Anybody who recorded traffic.",
    steps=("Record what devices fetch.", "Wait until the round's seed is published, and open it."),
    defence="Count keys open packages alone; fetches have keys of their own, which nobody publishes.",
)
def old_fetch(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """Somebody recorded a fetch; later the round's seed is published."""
    told = RelayedRound()
    key = X25519PrivateKey(dice.randbytes(32)) if defended else told.count_key
    recorded = RequestSealer(GatewayKey(1, key).configuration).seal(b"GET /v1/experiments", dice.randbytes)
    published = X25519PrivateKey.derive(told.count_seed)
    return refused("a key of its own", lambda: GatewayKeys([GatewayKey(1, published)]).open(recorded.capsule))


@trap(
    37,
    "one capsule, two counts",
    needs="The coordinator and a device.",
    steps=(
        "Choose two scalars with one public key.",
        "Seal to a point of the twist, on which they disagree.",
        "Publish whichever gives the count that pleases.",
    ),
    defence="What is published is the seed, whose hash the manifest logged.",
)
def two_counts_of_one_capsule(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """Two clamped scalars have one public key, and disagree about points of the twist: one capsule, two readings."""
    told = RelayedRound()
    if defended:
        # What is published must have the hash that the manifest logged; a second seed has another.
        other = replace(told.opening, count_seed=dice.randbytes(32))
        faults = opening_faults(other, told.manifest, told.document)
        return held("refused by the seed's logged hash", succeeded=not faults)
    step = dice.randrange(_ORDER - 2**252)
    one, other_key = (X25519PrivateKey((8 * m).to_bytes(32, "little")) for m in (_TOP + step, _ORDER - _TOP - step))
    if one.public_key != other_key.public_key:
        return Tried(succeeded=False, end="two keys")
    layer = inner_layer(told.label)
    while True:
        enc = dice.randbytes(31) + b"\0"
        shared = one.decapsulate(enc)
        if shared != other_key.decapsulate(enc):
            break
    capsule = enc + Context(layer.schedule, shared, enc).seal(b"", bytes(layer.content_bytes))
    counts = [refused("", lambda key=key: open_inner(key, told.label, capsule)).succeeded for key in (one, other_key)]  # type: ignore[misc]
    return held("one reading", succeeded=counts == [True, False])


@trap(
    38,
    "restored disk",
    needs="Whoever can put back an entry relay's disk.",
    steps=(
        "Let the relay draw its cover over a batch.",
        "Put its disk back, and leave one person out.",
        "Let it draw again: the noise is the same, and the difference is the person.",
    ),
    defence="The batch that a secret was used for is marked on the disk and in memory; either refuses another.",
    remains="A machine that is restored with its memory.",
)
def restored_disk(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """The entry relay's disk is put back, and its batch closed again without the victim: equal noise, two batches."""
    with Stage(folder) as stage:
        machine, batches = stage.entry_machine, list[set[bytes]]()

        def played(*devices: int) -> None:
            entry = stage.entry()
            stage.send(entry, *devices)
            count, piece = stage.batch(entry)
            batches.append({piece[at : at + 128] for at in range(0, len(piece), 128)} if count else set())

        stage.entry()
        machine.restored(lambda: played(0, 1, 2))
        if not defended:
            for mark in (machine.folder / "memory").glob("*batch*"):
                mark.unlink()
        played(1, 2)
    return held("refused by the mark in memory", succeeded=bool(batches[1]))


@trap(
    39,
    "seized relay",
    needs="Whoever takes an entry relay's disk and memory after a round.",
    steps=("Search every byte for clients, capsules and seeds.",),
    defence="Capsules and clients go when the batch is handed on; at the reveal the secret and all seeds but the"
    " opened one.",
)
def searched_disk(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """Whoever seizes the entry relay after a round searches it for capsules, clients and seeds."""
    with Stage(folder) as stage:
        entry = stage.entry()
        stage.send(entry, 0, 1)
        count, piece = stage.batch(entry)
        sought = [piece[:128], b"client 0", stage.told.submissions[0].body[:128]]
        if defended:
            mix_count = stage.mixed(stage.mix(), count, piece)
            entry.handed_on()
            entry.answer(mix_count, stage.plan.instants.mix_by)
            finish(entry, stage.plan.instants.mix_by)
        stage.entry_machine.end_process()
        secret = stage.told.secret("entry")
        seeds = list(secret.part_seeds(stage.plan.parts))
        if defended:
            # The opened one is public.
            del seeds[EntryReveal.enclosed(stage.entry_machine.paper(stage.plan.label, ENTRY_REVEAL)).part]
        sought += [secret.secret, *seeds]
        found = stage.entry_machine.everything()
    return held("foiled by forgetting", succeeded=any(one in found for one in sought))


@trap(
    40,
    "cover told from people",
    needs="The mixing relay.",
    steps=("Sort the entry relay's batch by length and bytes.", "Leave the cover out."),
    defence="Devices and relays seal with the same code: one length, one encoding, no key numbers.",
)
def told_apart(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """The mixing relay sorts a batch by what can be seen of a sealed capsule: its length, and its mean byte."""
    with Stage(folder) as stage:
        entry = stage.entry()
        stage.send(entry, 0, 1, 2)
        _, piece = stage.batch(entry)
        batch = [piece[at : at + 128] for at in range(0, len(piece), 128)]
        own = {capsule_digest(one) for n in range(3) for one in read_request(stage.told.submissions[n].body, budget=7)}
        people = [one for one in batch if capsule_digest(one) in own]
        cover = [one if defended else one[:-16] for one in batch if capsule_digest(one) not in own]
    by_size = {len(one) for one in people}.isdisjoint(len(one) for one in cover)
    # The mean byte of 21 random capsules has a standard deviation of 1.4, of more a smaller one: 16 is no chance.
    middles = [sum(map(sum, some)) / sum(map(len, some)) for some in (people, cover)]
    return held("foiled by equal seals", succeeded=by_size or abs(middles[0] - middles[1]) > 16)
