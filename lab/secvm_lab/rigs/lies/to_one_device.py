"""Lies to one device: it is told something else than everybody. Two ways to serve them, a fork and a false proof.

*Fork*: the liar signs a log of its own for the victim. Everything in it fits; a quorum of witnesses is what it lacks.
*Beside*: the victim gets the cosigned checkpoint that everybody gets, and a document that is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from secvm.crypto.sealing.hpke import CHACHA20_POLY1305
from secvm.crypto.sealing.kdf import HKDF_SHA256
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import OUR_ALGORITHMS, GatewayKey, encode_key_configurations
from secvm.learning import aggregate
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.manifest import RoundManifest
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.lies.liar import Liar, Scene, Told, one_too_few


def different_weights(scene: Scene) -> Told:
    """Different weights to one device."""
    honest = _announced(scene)
    manifest = honest.manifests[-1]
    training, evaluation = honest.weights(honest.state)
    moved = [other_weights(scene, one).to_bytes() for one in (training, evaluation)]
    variant = scene.dice.choice(["blobs", "training", "evaluation", "model"])
    if variant == "blobs":
        # The digests stay; the bytes behind them are others.
        files = dict(honest.files)
        files[f"/v1/blob/{manifest.training_weights}"], files[f"/v1/blob/{manifest.evaluation_weights}"] = moved
        return Told(files=files, now=honest.now, public=honest.files, variant=variant, honest=manifest)
    if variant == "model":
        # A whole model that follows from nothing that was published, and is consistent in itself.
        tally = honest.draw_tally()
        state = aggregate.step(honest.document.experiment, honest.state, tally)
        parts = [part.to_bytes() for part in (state, *honest.weights(state))]
        changes = dict(zip(("state", "training_weights", "evaluation_weights"), map(digest_of, parts), strict=True))
        return _to_one(scene, honest, variant, changes, blobs=parts)
    at = ["training", "evaluation"].index(variant)
    return _to_one(scene, honest, variant, {f"{variant}_weights": digest_of(moved[at])}, blobs=[moved[at]])


def shorter_window(scene: Scene) -> Told:
    """Another window to one device, so that its packages are alone in it."""
    honest = _announced(scene)
    manifest = honest.manifests[-1]
    length, dice = manifest.closes_at - manifest.opens_at, scene.dice
    by = dice.randint(1, length - 1)
    variant = dice.choice(["closes sooner", "opens later", "shifted", "grace"])
    changes = {
        "closes sooner": {"closes_at": manifest.closes_at - by, "accept_until": manifest.accept_until - by},
        "opens later": {"opens_at": manifest.opens_at + by},
        # Nothing in the manifest itself shows it: as long as it should be, at another time.
        "shifted": {
            "opens_at": manifest.opens_at + by,
            "closes_at": manifest.closes_at + by,
            "accept_until": manifest.accept_until + by,
        },
        "grace": {"accept_until": manifest.accept_until - dice.randint(1, 60_000)},
    }[variant]
    # Those that its own experiment forbids may be told to everybody, and cosigned.
    return _to_one(scene, honest, variant, changes, to_all=variant != "shifted")


def different_gateway_key(scene: Scene) -> Told:
    """A key of its own for one device: its capsules are told apart by who can open them."""
    honest = _announced(scene)
    manifest, dice = honest.manifests[-1], scene.dice
    key = GatewayKey(honest.gateway_keys[-1].key_id, X25519PrivateKey.generate(dice.randbytes))
    choices: list[dict[str, Any]] = [
        {"gateway_keys": encode_key_configurations([key.configuration])},
        {"quota": manifest.quota + dice.randint(1, 9)},
    ]
    changes = dice.choice(choices)
    return _to_one(scene, honest, next(iter(changes)), changes)


def several_gateway_keys(scene: Scene) -> Told:
    """Several gateway keys in everybody's manifest: capsules are told apart by what their senders' machines have."""
    liar, dice = Liar.after(scene.history), scene.dice
    honest = liar.make_manifest()
    ours, chacha = liar.gateway_keys[-1], (HKDF_SHA256, CHACHA20_POLY1305.aead_id)
    other = X25519PrivateKey.generate(dice.randbytes)
    variant = dice.choice(["a key of an unknown KEM before it", "two keys", "two pairs", "another pair"])
    # A machine that lacks the KEM passes over such a key, whatever its bytes are.
    unknown = bytes([ours.key_id]) + b"\xff\xff" + dice.randbytes(dice.randint(0, 2000))
    changed = {
        "a key of an unknown KEM before it": len(unknown).to_bytes(2, "big") + unknown + honest.gateway_keys,
        "two keys": encode_key_configurations([GatewayKey(ours.key_id, other).configuration]) + honest.gateway_keys,
        "two pairs": encode_key_configurations([replace(ours, algorithms=(chacha, OUR_ALGORITHMS)).configuration]),
        "another pair": encode_key_configurations([replace(ours, algorithms=(chacha,)).configuration]),
    }[variant]
    liar.announce(gateway_keys=changed)
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def rewritten_past(scene: Scene) -> Told:
    """A past round told differently, and everything since recomputed so that it fits."""
    at = scene.dice.randrange(len(scene.pasts))
    liar = Liar.after(scene.pasts[at], forking=True)
    for number in range(at, len(scene.pasts)):
        manifest = replace(liar.make_manifest(), gateway_keys=scene.history.manifests[number].gateway_keys)
        # The round itself is told differently, and with it all that follows.
        liar.add(replace(manifest, quota=manifest.quota + 1) if number == at else manifest)
        abandoned = liar.manifests[-1].last is not None and scene.dice.random() < 0.2
        liar.conclude(None if abandoned else liar.draw_tally())
    variant = scene.dice.choice(["fork", "beside", "only the past"])
    if variant == "only the past":
        # Old files are other bytes; the new round is the one that everybody gets.
        honest = _announced(scene)
        files = {**liar.files, **honest.files}
        for number in range(at + 1, len(scene.pasts) + 1):
            path = f"{honest.place}/manifest/{number}"
            files[path] = liar.files[path]
        newest = honest.manifests[-1]
        return Told(files=files, now=honest.now, public=files, variant=variant, honest=newest, visible=True)
    liar.announce()
    files = dict(liar.files)
    if variant == "beside":
        honest = _announced(scene)
        files |= _log_files(honest)
    return Told(files=files, now=liar.now, public=dict(scene.history.files), variant=variant)


def two_manifests(scene: Scene) -> Told:
    """Two manifests for one round, to two devices or one after the other."""
    honest = _announced(scene)
    manifest = honest.manifests[-1]
    key = GatewayKey(honest.gateway_keys[-1].key_id, X25519PrivateKey.generate(scene.dice.randbytes))
    second = replace(manifest, gateway_keys=encode_key_configurations([key.configuration]))
    variant = scene.dice.choice(["after the first", "both logged", "only the second, both logged", "fork"])
    if variant == "fork":
        return _to_one(scene, honest, variant, {"gateway_keys": second.gateway_keys}, fork=True)
    if variant == "after the first":
        scene.follow(honest)
        files = {**honest.files, **_as_newest(honest, second)}
        return Told(files=files, now=honest.now, public=files, variant=variant, visible=True)
    # Witnesses have nothing against a log in which a round stands twice: they do not read entries.
    liar = Liar.after(honest)
    if variant == "both logged" and not scene.newcomer:
        scene.follow(honest)
    liar.add(second)
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant, visible=True)


def forked_log(scene: Scene) -> Told:
    """The log is forked: two trees of one size, both signed."""
    honest = _announced(scene)
    fork = Liar.after(scene.history, forking=True)
    fork.now = honest.now
    fork.add(replace(honest.manifests[-1], quota=honest.manifests[-1].quota + 1))
    variant = scene.dice.choice(["seen in the window", "instead of a round", "grown"])
    public = dict(honest.files)
    if variant == "seen in the window":
        scene.follow(honest)
        signed = one_too_few(fork, fork.log.checkpoint())
        return Told(files=public, now=honest.now, public=public, variant=variant, refetched=signed.data)
    if variant == "instead of a round":
        # The same round again, under another tree.
        scene.follow(honest)
        return Told(files=dict(fork.files), now=fork.now, public=public, variant=variant)
    fork.conclude(fork.draw_tally())
    fork.announce()
    return Told(files=dict(fork.files), now=fork.now, public=public, variant=variant)


# ── how it is served ─────────────────────────────────────────────────────────────────────────────────────────────────


def other_weights(scene: Scene, weights: Weights) -> Weights:
    """Weights that are nearly these: one mantissa is another, or the unit, or the mark of the first round."""
    match scene.dice.randrange(3):
        case 0:
            mantissas = weights.mantissas.copy()
            at = tuple(scene.dice.randrange(n) for n in mantissas.shape)
            mantissas[at] = np.int32(int(mantissas[at]) ^ (1 << scene.dice.randrange(30)))
            return replace(weights, mantissas=mantissas)
        case 1:
            return replace(weights, unit=weights.unit * 2)
        case _:
            return replace(weights, first=not weights.first)


def _announced(scene: Scene) -> PublicHistory:
    """The next round, as everybody gets it."""
    honest = scene.history.branch()
    honest.announce()
    return honest


def _to_one(
    scene: Scene,
    honest: PublicHistory,
    variant: str,
    changes: Mapping[str, Any],
    *,
    blobs: Sequence[bytes] = (),
    to_all: bool = False,
    fork: bool = False,
) -> Told:
    """The newest manifest with these changes, to the victim: as a fork, beside the honest log, or logged for all."""
    told = replace(honest.manifests[-1], **changes)
    way = "fork" if fork else scene.dice.choice(["fork", "beside", *(["to all"] if to_all else [])])
    # To all: in this world nobody was told the honest one, and witnesses cosign the other.
    liar = Liar.after(scene.history, forking=way != "to all")
    liar.now = honest.now
    liar.add(told)
    for blob in blobs:
        liar.put_blob(blob)
    files = dict(liar.files)
    if way == "beside":
        files |= _log_files(honest)
    seen = files if way == "to all" else dict(honest.files)
    visible = way == "to all"
    return Told(files=files, now=honest.now, public=seen, variant=f"{variant}, {way}", visible=visible)


def _log_files(history: PublicHistory) -> dict[str, bytes]:
    """All that the cosigned log serves."""
    return {
        path: data
        for path, data in history.files.items()
        if path.startswith((history.log_place, f"{history.place}/proof/", f"{history.place}/checkpoint"))
    }


def _as_newest(history: PublicHistory, manifest: RoundManifest) -> dict[str, bytes]:
    envelope = manifest.signed([history.parties.coordinator])
    place = f"{history.place}/manifest"
    return {f"{place}/{manifest.round_number}": envelope, f"{place}/latest": envelope}
