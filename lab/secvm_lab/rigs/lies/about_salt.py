"""Lies about public randomness and about who sent how much: forged records, a salt known before, impossible counts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.protocol.documents.experiment import Beacon, HashedBins
from secvm.protocol.documents.manifest import RelayCount, read_relay_count
from secvm.protocol.log.entries import experiment_entry
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import START, Parties, draw_document, draw_key
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from secvm_lab.rigs.lies.liar import Liar, Scene, Told, lines_of


def relay_count_that_cannot_be(scene: Scene) -> Told:
    """A relay's count that the relay did not sign, or that this tally, or this round, cannot have."""
    dice = scene.dice
    liar = Liar.after(scene.history)
    last, tally = scene.one_more(liar)
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
    liar.announce(last=replace(last, relay_count=told.signed(key)))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def relay_count_withheld(scene: Scene) -> Told:
    """No relay's count of a round that was counted, so that nothing is compared with it."""
    liar = Liar.after(scene.history)
    last, _ = scene.one_more(liar)
    liar.announce(last=replace(last, relay_count=None))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant="in the next manifest")


def forged_salt(scene: Scene) -> Told:
    """A salt that does not follow from the beacons: a record is not what its beacon published for that round."""
    dice, history = scene.dice, scene.history
    binning = history.document.binning
    assert isinstance(binning, HashedBins)
    variant = dice.choice(
        ["another output", "another round", "another chain", "swapped", "missing", "drand", "garbage"]
    )
    if variant == "drand":
        return _forged_drand(scene)
    liar = Liar.after(history)
    liar.announce()
    files, at = dict(liar.files), dice.randrange(len(binning.beacons))
    beacon, path = binning.beacons[at], f"{liar.place}/beacon/{at}"
    source = LocalUnsafeBeacon()
    number, output = beacon.round_number, dice.randbytes(32).hex()
    match variant:
        case "another output":
            files[path] = json.dumps({"round": number, "output": output}).encode()
        case "another round":
            files[path] = source.fetch(beacon.chain, number + dice.choice([-1, 1]))
        case "another chain":
            files[path] = source.fetch(beacon.chain + "x", number)
        case "swapped" if len(binning.beacons) > 1:
            other = f"{liar.place}/beacon/{(at + 1) % len(binning.beacons)}"
            files[path], files[other] = files[other], files[path]
        case "garbage":
            files[path] = dice.randbytes(dice.randint(0, 200))
        case _:
            del files[path]
    return Told(files=files, now=liar.now, public=files, variant=variant)


def beacon_already_known(scene: Scene) -> Told:
    """The experiment was logged when one of its beacons' rounds was known already."""
    dice = scene.dice
    parties = Parties.drawn(dice, witnesses=dice.randint(1, 5))
    document = draw_document(dice, parties, beacons=dice.randint(1, 3))
    binning = document.binning
    assert isinstance(binning, HashedBins)
    known = dice.choice(binning.beacons).round_number
    # At the very second, or later.
    late = 1000 * (known + dice.choice([0, 1, 600]))
    liar = PublicHistory(dice, document, parties, now=late)
    liar.play(dice.randint(0, 2))
    liar.announce()
    variant = dice.choice(["late", "dated back by all but one of a quorum", "another entry's", "another log's"])
    scene.kept = None
    files = dict(liar.files)
    index = liar.log.index_of(experiment_entry(document.digest))
    signed, quorum = liar.log.checkpoint(index + 1), liar.terms.quorum
    if variant == "late":
        lines = lines_of(signed, list(parties.witnesses), time_s=late // 1000)
        files[f"{liar.place}/first"] = liar.log.proof(index, signed.cosigned(*lines))
    elif variant == "another entry's":
        # Of an experiment that was logged in time.
        other = PublicHistory(dice, replace(document, title="Another"), parties.anew())
        files[f"{liar.place}/first"] = other.first
    elif variant == "another log's":
        elsewhere = WitnessedLog("else.example/secvm/v2", parties.log, [experiment_entry(document.digest).to_bytes()])
        early = elsewhere.checkpoint(1)
        early = early.cosigned(*lines_of(early, list(parties.witnesses), time_s=START // 1000))
        files[f"{liar.place}/first"] = elsewhere.proof(0, early)
    else:
        liars = dice.sample(parties.witnesses, quorum - 1)
        lines = lines_of(signed, liars, time_s=START // 1000)
        # Each of them several times: one witness is one moment.
        lines += lines_of(signed, liars, time_s=START // 1000 + 1)
        lines += lines_of(signed, [one for one in parties.witnesses if one not in liars], time_s=late // 1000)
        files[f"{liar.place}/first"] = liar.log.proof(index, signed.cosigned(*lines))
    return Told(files=files, now=liar.now, public=files, variant=variant, stage=liar)


def _forged_drand(scene: Scene) -> Told:
    """A round of a beacon for real use, with a signature that its network never made."""
    dice, past = scene.dice, scene.history
    number = 20_000_000 + dice.randrange(10**6)
    binning = past.document.binning
    assert isinstance(binning, HashedBins)
    parties = Parties.drawn(dice)
    binning = replace(binning, beacons=(Beacon("drand-quicknet", number),))
    document = draw_document(dice, parties, experiment=past.document.experiment, binning=binning)
    liar = PublicHistory(dice, document, parties, records=[_drand_record(dice.randbytes(48), number)])
    liar.announce()
    scene.kept = None
    return Told(files=liar.files, now=liar.now, public=liar.files, variant="drand", stage=liar)


def _drand_record(signature: bytes, number: int) -> bytes:
    told = {"round": number, "randomness": hashlib.sha256(signature).hexdigest(), "signature": signature.hex()}
    return json.dumps(told).encode()
