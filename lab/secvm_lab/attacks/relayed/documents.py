"""Attacks with documents and keys: what a coordinator hands out that is false, too much, or for one person alone."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path

from secvm.crypto.sealing.kem import X25519, X25519PrivateKey
from secvm.crypto.sealing.layers import open_inner, open_outer, seal_both
from secvm.crypto.sealing.oblivious import (
    GatewayKey,
    decode_key_configurations,
    encode_key_configurations,
    leaves_no_choice,
)
from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.relays.commitments import EntryCommitment, RoundSecret, entry_commitment, mix_commitment
from secvm.protocol.relays.manifest import read_manifest
from secvm_lab.attacks.relayed.stage import Machine, relay_for, served, signed
from secvm_lab.attacks.relayed.trap import Tried, held, refused, trap
from secvm_lab.rigs.histories.relayed_rounds import STRANGER, relayed_document, relayed_experiment
from secvm_lab.rigs.histories.sealed_round import SealedRound

#: Far more cover than a relay's terms take on, and still a document that can be read.
_TOO_MUCH = 2**24
_PACKAGE = bytes(32)


@trap(
    21,
    "key for one device",
    needs="Coordinator, entry relay and all witnesses.",
    steps=("Show one device a manifest with a count key of their own.", "Open its packages in the round's output."),
    defence="The label is the manifest's digest, and both seals hold it: what is sealed for another manifest does"
    " not open at the mixing relay.",
)
def key_for_one(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """The victim seals under a manifest of its own, with the attackers' count key; the mixing relay opens the round."""
    told, theirs = SealedRound(), X25519PrivateKey(dice.randbytes(32))
    other = replace(told.manifest, count_key=theirs.public_key.to_bytes())
    # Without the rule a label names experiment and round, so that both manifests have the same one.
    common = hashlib.sha256(told.document.digest.encode()).digest()
    victims, everybodys = (other.label, told.label) if defended else (common, common)
    mix = told.secret("mix").mix_key
    _, outer = seal_both(theirs.public_key, mix.public_key, victims, dice.randbytes(64), _PACKAGE)
    return refused("the label in both seals", lambda: open_inner(theirs, victims, open_outer(mix, everybodys, outer)))


@trap(
    22,
    "second manifest",
    needs="Coordinator and one relay.",
    steps=("Give the other relay a second manifest of the same round.", "Have it add its cover twice."),
    defence="A relay keeps the first label of a round for ever, and answers 409 to another.",
)
def second_manifest(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """The relay is told of two manifests of one round; one that remembers nothing takes the second."""
    told = SealedRound()
    with Machine(folder / "one") as machine, Machine(folder / "forgetful") as forgetful:
        relay = relay_for(machine)
        served(relay, told.document)
        relay.name(told.document.digest, signed(told.manifest))
        if not defended:
            relay = relay_for(forgetful)
            served(relay, told.document)
        second = replace(told.manifest, count_seed_hash=bytes(32))
        return refused("one label a round", lambda: relay.name(told.document.digest, signed(second)))


@trap(
    23,
    "mixing key of the coordinators own",
    needs="Coordinator and entry relay.",
    steps=("Put a mixing key of their own into the manifest.", "Open the outer layer of what comes."),
    defence="The mixing relay signs its key of the round under the key that devices know it by.",
)
def own_mix_key(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """The manifest has a mixing key that the attackers hold, and their own signature for it."""
    plain = relayed_document()
    theirs = tuple(replace(one, key=STRANGER.public) if one.role == "mix" else one for one in plain.relays)
    document = plain if defended else relayed_document(relays=theirs)
    told = SealedRound(document=document)
    own = mix_commitment(RoundSecret(dice.randbytes(32)), experiment=document.digest, round_number=1, parts=told.parts)
    manifest = replace(told.manifest, mix=own.signed(STRANGER))
    return refused("the mixing relay's signature", lambda: read_manifest(signed(manifest), document))


@trap(
    24,
    "two relays of one hand",
    needs="A coordinator with two domains (F6).",
    steps=("Name both as relays of an experiment.", "Wait for devices to join."),
    defence="A device joins only where its person has named both relays by operator, URL and key, and operators"
    " differ.",
    remains="That the operators are different people is what the person knows, or believes.",
)
def own_relays(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """Two relays of the coordinator's, and a device whose person named others, or none."""
    # Late: a device's settings bring its network along, and a list of attacks needs none of it.
    from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy  # noqa: PLC0415

    good = relayed_document()
    own = tuple(
        Relay(url=f"https://{role}.of-the-coordinator.example/", key=STRANGER.public, role=role, operator=role)
        for role in ("entry", "mix")
    )
    known = tuple(TrustedRelay(url=one.url, key=one.key, operator=one.operator) for one in good.relays)
    policy = TrustPolicy(relays=known if defended else None, without_log=True)
    return refused("[[trust.relays]]", lambda: policy.check(relayed_document(relays=own, test=not defended)))


@trap(
    25,
    "cover of a test",
    needs="The coordinator.",
    steps=("Mark an experiment as a test.", "Foretell the relays' cover from the seed of tests and take it off."),
    defence="A relay throws seeded dice only if it was started with a seed, and then serves tests alone; a device"
    " without [testing] joins no test.",
)
def marked_as_test(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """The coordinator marks its experiment as a test and foretells the entry relay's cover from the seed of tests."""
    document = relayed_document(test=True)
    with Machine(folder) as machine:
        relay = relay_for(machine, document=document, seed=None if defended else "0")
        served(relay, document)
        foretold = RoundSecret(seeded_round_secret("0", "entry", 1))
        parts = document.relay_cover.parts
        expected = entry_commitment(foretold, experiment=document.digest, round_number=1, parts=parts)
        found = relay.commit(document.digest, 1)
        return held("foiled by the relay's own dice", succeeded=EntryCommitment.enclosed(found) == expected)


@trap(
    26,
    "more cover than a relay can add",
    needs="The coordinator.",
    steps=(f"Publish an experiment with {_TOO_MUCH:,} cover packages of each relay.", "Wait for a relay to fail."),
    defence="Cells, cover and capsules are limited in the terms that each relay signs: beyond them neither relay"
    " nor device takes part.",
)
def too_much_cover(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """A document that asks for it, and a relay with limits or without any."""
    cover = relayed_experiment().cover
    assert cover is not None
    document = relayed_document(experiment=relayed_experiment(cover=replace(cover, packages=_TOO_MUCH)))
    boundless = {"packages": 2**30, "capsules": 2**30, "seconds_per_million": 1}
    with Machine(folder) as machine:
        relay = relay_for(machine, document=document, terms={} if defended else boundless)
        return refused("the limits in signed terms", lambda: served(relay, document))


@trap(
    27,
    "two keys in one manifest",
    needs="The coordinator, and machines of two kinds (F3).",
    steps=("Log a manifest with two gateway keys.", "Sort people by the key that their machine takes."),
    defence="A manifest has exactly one key, of the KEM that the document names; who lacks it abstains.",
)
def two_gateway_keys(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """Each machine takes the first key that it can use: two machines, two keys, and the smaller crowd stands alone."""
    keys = [GatewayKey(7, X25519PrivateKey(dice.randbytes(32))).configuration for _ in range(2)]
    data = encode_key_configurations(keys)
    if defended:
        return held("refused by the rule of one key", succeeded=leaves_no_choice(data, X25519))
    return held("", succeeded=len(decode_key_configurations(data)) == 2)
