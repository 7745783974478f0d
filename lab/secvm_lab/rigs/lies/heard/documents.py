"""Lies in what the coordinator signs of a round: manifests, openings, endings, and the experiment's salt.

Some are told to one device alone, in two ways: in a *fork* everything fits, and a quorum of witnesses is what it lacks;
*beside* the honest log stands a document that is not in it. What an experiment forbids may be logged for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import HashedBins
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, STRANGER
from secvm_lab.rigs.lies.heard.scene import HeardScene, LoggedHistory
from secvm_lab.rigs.lies.liar import lines_of

Change = Callable[[RelayedManifest], RelayedManifest]
OTHER = "1" * 64


# ── manifests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def different_weights(scene: HeardScene) -> str:
    """Another model to one device."""
    named = scene.dice.choice([["state"], ["training_weights"], ["evaluation_weights"], ["training_weights", "state"]])
    other = {name: digest_of(scene.dice.randbytes(8)) for name in named}
    return _to_one(scene, " and ".join(named), saying(**other))


def shorter_window(scene: HeardScene) -> str:
    """Another window to one device, so that its request is alone in it; or one that the experiment forbids, to all."""
    dice = scene.dice
    by = 1000 * dice.randint(1, 500)
    moved = {"closes sooner": (0, -1, -1, -1, -1, -1, -1), "opens later": (1, 0, 0, 0, 0, 0, 0)}
    moved |= {"shifted": (1,) * 7, "grace": (0, 0, -1, -1, -1, -1, -1), "more time for relays": (0,) * 6 + (1,)}
    variant = dice.choice(sorted(moved))
    if variant == "grace":
        by = 1000 * dice.randint(1, 60)

    def change(told: RelayedManifest) -> RelayedManifest:
        instants = [at + by * way for at, way in zip(astuple(told.instants), moved[variant], strict=True)]
        return replace(told, instants=Instants(*instants))

    # Nothing in the manifest itself shows one that is as long as it should be, at another time.
    return _to_one(scene, variant, change, to_all=variant != "shifted")


def different_keys(scene: HeardScene) -> str:
    """A key of its own for one device: its capsules or its fetches are told apart by who can open them."""
    secret = X25519PrivateKey.generate(scene.dice.randbytes)
    fetch = encode_key_configurations([GatewayKey(7, secret).configuration])
    variant = scene.dice.choice(["count key", "fetch key"])
    changes: dict[str, Any] = {"count_key": secret.public_key.to_bytes()}
    if variant == "fetch key":
        changes = {"fetch_keys": fetch}
    return _to_one(scene, variant, saying(**changes))


def several_fetch_keys(scene: HeardScene) -> str:
    """Several keys for fetches, or the key that opens packages as one: devices are told apart by what they have."""
    variant = scene.dice.choice(["two keys", "the count key"])
    other = GatewayKey(9, X25519PrivateKey.generate(scene.dice.randbytes)).configuration

    def change(told: RelayedManifest) -> RelayedManifest:
        more = encode_key_configurations([other])
        if variant == "two keys":
            return replace(told, fetch_keys=told.fetch_keys + more)
        return replace(told, fetch_keys=more.replace(other.public_key.to_bytes(), told.count_key))

    return _to_all(scene, variant, change)


def key_of_the_coordinators_own(scene: HeardScene) -> str:
    """The coordinator signs a relay's commitment itself, with a key that it holds."""
    variant = scene.dice.choice(["mix", "entry"])
    return _to_all(
        scene,
        variant,
        lambda told: replace(told, **{variant: getattr(told, f"{variant}_commitment").signed(STRANGER)}),
    )


def used_before(scene: HeardScene) -> str:
    """What an earlier round had already: its count key, whose seed is public, or a relay's commitment."""
    past = scene.dice.choice(scene.history.rounds).manifest
    variant = scene.dice.choice(["count key", "mix", "entry"])
    names = {"count key": ("count_key", "count_seed_hash")}.get(variant, (variant,))
    return _to_all(scene, variant, saying(**{name: getattr(past, name) for name in names}))


def another_past(scene: HeardScene) -> str:
    """A manifest names another manifest, or another opening, as the one before."""
    variant = scene.dice.choice(["previous", "opening"])
    return _to_all(scene, variant, saying(**{variant: OTHER}))


def skipped_round(scene: HeardScene) -> str:
    """A round whose number is not the next."""
    by = scene.dice.choice([1, 2, 1000])
    return _to_all(scene, f"{by} more", lambda told: replace(told, round_number=told.round_number + by))


def rewritten_past(scene: HeardScene) -> str:
    """A past round told differently, and everything since so that it fits."""
    at = scene.dice.randrange(len(scene.pasts))
    liar = scene.pasts[at].branch()
    for number in range(at, len(scene.pasts)):
        told = scene.history.rounds[number].manifest
        keep: dict[str, Any] = {"instants": told.instants}
        if number == at:
            keep["count_seed_hash"] = scene.dice.randbytes(32)
        liar.announce(manifest=saying(**keep))
        liar.play(2, unopened=number == at)
    honest = scene.history.branch()
    honest.announce()
    instants = honest.running.manifest.instants
    liar.announce(manifest=lambda made: replace(made, instants=instants))
    liar.files = {**scene.history.files, **liar.files}
    variant = scene.dice.choice(["fork", "beside"])
    _as_told(honest, liar, variant)
    scene.hear(liar)
    return variant


def two_manifests(scene: HeardScene) -> str:
    """Two manifests for one round, one after the other, or both in the log."""
    honest = scene.history.branch()
    honest.announce()
    second = replace(honest.running.manifest, count_seed_hash=scene.dice.randbytes(32))
    variant = scene.dice.choice(["after the first", "both logged", "only the second, both logged"])
    if variant == "after the first":
        instants = honest.running.manifest.instants
        if not scene.joined:
            scene.join(honest)
        scene.serve(honest)
        scene.live(instants.mix_by)
        liar = honest.branch()
        for name in (str(second.round_number), "latest"):
            liar.files[f"{liar.place}/manifest/{name}"] = second.signed([COORDINATOR])
        scene.hear(liar)
        return variant
    liar = honest.branch()
    if variant == "both logged":
        liar.enter(second.log_entry)
    else:
        liar.show_manifest(second)
    scene.hear(liar)
    return variant


def manifest_of_a_stranger(scene: HeardScene) -> str:
    """A manifest without the coordinator's signature."""
    liar = scene.history.branch()
    manifest = liar.announce()
    data = manifest.signed([STRANGER])
    variant = scene.dice.choice(["a stranger's", "broken"])
    if variant == "broken":
        good = manifest.signed([COORDINATOR])
        at = scene.dice.randrange(len(good))
        data = good[:at] + bytes([good[at] ^ (1 << scene.dice.randrange(8))]) + good[at + 1 :]
    for name in (str(manifest.round_number), "latest"):
        liar.files[f"{liar.place}/manifest/{name}"] = data
    scene.hear(liar)
    return variant


def manifest_withheld(scene: HeardScene) -> str:
    """What leads to the newest round is not served: an earlier manifest, or an opening."""
    liar = scene.history.branch()
    # Nobody has seen this one.
    scene.round_of(liar, asleep=True)
    variant = scene.dice.choice(["manifest", "opening"])
    number = liar.running.round_number
    liar.announce()
    del liar.files[f"{liar.place}/{variant}/{number}"]
    scene.hear(liar)
    return variant


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def ending_of_another_round(scene: HeardScene) -> str:
    """The ending names another last manifest or opening, or a model that does not follow."""
    liar = scene.history.branch()
    variant = scene.dice.choice(["manifest", "opening", "state", "evaluation_weights"])
    liar.show_ending(liar.running, "stopped", **{variant: OTHER})
    scene.hear(liar)
    return variant


def round_after_the_ending(scene: HeardScene) -> str:
    """The experiment was ended, and goes on."""
    liar = scene.history.branch()
    liar.end()
    liar.announce()
    scene.hear(liar)
    return ""


# ── the experiment and its salt ──────────────────────────────────────────────────────────────────────────────────────


def another_experiment(scene: HeardScene) -> str:
    """The experiment becomes another one under the name of the first: its salt, its rounds, its floor."""
    document, dice = scene.history.document, scene.dice
    binning = document.binning
    assert isinstance(binning, HashedBins)
    variant = dice.choice(["salt", "rounds", "floor", "title"])
    told: dict[str, dict[str, Any]] = {
        "salt": {"binning": replace(binning, salt=dice.randbytes(16))},
        "rounds": {"rounds": document.rounds + 1},
        "floor": {"floor": document.floor + 1},
        "title": {"title": "Another"},
    }
    changes = told[variant]
    other = replace(document, **changes)
    return _to_all(scene, variant, saying(experiment=other.digest))


def forged_salt(scene: HeardScene) -> str:
    """A salt that does not follow from the beacons: a record is not what its beacon published for that round."""
    liar, dice = scene.history.branch(), scene.dice
    binning = liar.document.binning
    assert isinstance(binning, HashedBins)
    liar.announce()
    at, source = dice.randrange(len(binning.beacons)), LocalUnsafeBeacon()
    beacon, path = binning.beacons[at], f"{liar.place}/beacon/{at}"
    variant = dice.choice(["another output", "another round", "another chain", "swapped", "missing", "garbage"])
    match variant:
        case "another output":
            genuine = source.fetch(beacon.chain, beacon.round_number)
            output = source.fetch(beacon.chain, beacon.round_number + 1)
            # The right number, with the output of the next.
            liar.files[path] = output.replace(str(beacon.round_number + 1).encode(), str(beacon.round_number).encode())
            assert liar.files[path] != genuine
        case "another round":
            liar.files[path] = source.fetch(beacon.chain, beacon.round_number + dice.choice([-1, 1]))
        case "another chain":
            liar.files[path] = source.fetch(beacon.chain + "x", beacon.round_number)
        case "swapped":
            other = f"{liar.place}/beacon/{1 - at}"
            liar.files[path], liar.files[other] = liar.files[other], liar.files[path]
        case "garbage":
            liar.files[path] = dice.randbytes(dice.randint(0, 200))
        case _:
            del liar.files[path]
    scene.hear(liar)
    return variant


def beacon_already_known(scene: HeardScene) -> str:
    """The experiment was logged when one of its beacons' rounds was known already."""
    liar, dice = scene.history.branch(), scene.dice
    binning = liar.document.binning
    assert isinstance(binning, HashedBins)
    liar.announce()
    entry = experiment_entry(liar.document.digest)
    index = liar.log.index_of(entry)
    signed, late_s = liar.log.checkpoint(index + 1), min(one.round_number for one in binning.beacons)
    late_s += dice.choice([0, 1, 600])
    variant = dice.choice(["late", "dated back by all but one of a quorum"])
    witnesses = list(liar.parties.witnesses)
    liars = dice.sample(witnesses, 0 if variant == "late" else liar.terms.quorum - 1)
    rest = [one for one in witnesses if one not in liars]
    lines = [*lines_of(signed, liars, time_s=late_s - 3000), *lines_of(signed, rest, time_s=late_s)]
    liar.files[f"{liar.place}/first"] = liar.log.proof(index, signed.cosigned(*lines))
    scene.hear(liar)
    return variant


# ── how it is told ───────────────────────────────────────────────────────────────────────────────────────────────────


def saying(**changes: Any) -> Change:
    """A manifest that says this instead."""
    return lambda told: replace(told, **changes)


def _to_all(scene: HeardScene, variant: str, change: Change) -> str:
    """Logged for all, and cosigned."""
    liar = scene.history.branch()
    liar.announce(manifest=change)
    scene.hear(liar)
    return variant


def _to_one(scene: HeardScene, variant: str, change: Change, *, to_all: bool = False) -> str:
    """To the victim alone, or also to all."""
    way = scene.dice.choice(["fork", "beside", *(["to all"] if to_all else [])])
    if way == "to all":
        return _to_all(scene, f"{variant}, {way}", change)
    honest, liar = scene.history.branch(), scene.history.branch()
    honest.announce()
    liar.announce(manifest=change)
    _as_told(honest, liar, way)
    scene.hear(liar)
    return f"{variant}, {way}"


def _as_told(honest: LoggedHistory, liar: LoggedHistory, way: str) -> None:
    """The liar's log is a fork, or the honest one stands beside its documents."""
    if way == "fork":
        liar.fork()
    else:
        liar.files |= honest.log_files()
