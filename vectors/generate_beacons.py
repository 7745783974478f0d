"""The vectors of public randomness, from what real beacons said (recorded_beacons.json). Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shared import JSON  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.beacons.nist_pulse import NistPulse
from secvm.crypto.beacons.sources import LocalUnsafeBeacon, round_time, salt_from, verify_beacon

RECORDED: JSON = json.loads(Path(__file__).with_name("recorded_beacons.json").read_text(encoding="utf-8"))
NIST, DRAND, LOCAL = "nist-2.0-chain-1", "drand-quicknet", "local-unsafe-vectors"
PULSE, ROUND = 54_610, 657_413


def nist_record(served: JSON, certificate: str = RECORDED["nist"]["certificate"]) -> str:
    """A pulse and its certificate, as one record."""
    return json.dumps(served) + "\n" + certificate


def beacon() -> JSON:
    """Genuine rounds, when they were, and salts."""
    pulse, drand = RECORDED["nist"]["served"], RECORDED["drand"]["served"]
    records = [
        (NIST, PULSE, nist_record(pulse)),
        (DRAND, ROUND, json.dumps(drand)),
        (LOCAL, 1_767_225_600, LocalUnsafeBeacon().fetch(LOCAL, 1_767_225_600).decode()),
        ("local-unsafe", 1, LocalUnsafeBeacon().fetch("local-unsafe", 1).decode()),
    ]
    rounds = []
    for chain, number, record in records:
        output = verify_beacon(chain, number, record.encode(), allow_unsafe=True)
        rounds.append(
            {"chain": chain, "round": number, "record": record, "output": output.value.hex(), "at": output.at}
        )
    outputs = [bytes.fromhex(str(case["output"])) for case in rounds]
    chosen = [([0, 1], 1024), ([1, 0], 1024), ([0, 1], 1025), ([1], 1), ([0], 2**24), ([2, 3, 0, 1, 1, 0, 2, 3], 3000)]
    return {
        "description": "Rounds of public beacons with their outputs and times, and the salts that follow.",
        "sources": {NIST: RECORDED["nist"]["source"], DRAND: RECORDED["drand"]["source"]},
        "rounds": rounds,
        "signed": [
            {
                "chain": NIST,
                "round": PULSE,
                "bytes": NistPulse.from_bytes(json.dumps(pulse).encode()).signed.hex(),
            }
        ],
        "times": [
            {"chain": chain, "round": number, "at": round_time(chain, number)}
            for chain, number in ((DRAND, 1), (DRAND, 2), (DRAND, 40_000_000), ("local-unsafe", 7))
        ],
        "salts": [
            {
                "outputs": [outputs[i].hex() for i in which],
                "bins": bins,
                "salt": salt_from([outputs[i] for i in which], bins).hex(),
            }
            for which, bins in chosen
        ],
    }


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands that is no list and no object."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        yield path
        return
    for key, item in inside:
        yield from places(item, (*path, key))


def other(value: object) -> object:
    """Something of the same form, and another."""
    if isinstance(value, int):
        return value + 1
    text = str(value)
    # Addresses of older pulses are not signed: what can be told is that one is of another chain.
    if "/chain/1/" in text:
        return text.replace("/chain/1/", "/chain/2/")
    if text.endswith("Z"):
        return text.replace("17:44", "17:45")
    return text[:-1] + ("1" if text[-1] != "1" else "2")


def changed(served: JSON, path: tuple[str | int, ...], value: object) -> JSON:
    """A copy with one thing replaced."""
    found: Any = copy.deepcopy(served)
    inside = found
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return dict(found)


def read(served: JSON, path: tuple[str | int, ...]) -> Any:
    """What stands there."""
    inside: Any = served
    for key in path:
        inside = inside[key]
    return inside


def bad_pulses() -> Iterator[tuple[str, int, str]]:
    """Pulses that are none."""
    served = RECORDED["nist"]["served"]
    good, certificate = nist_record(served), RECORDED["nist"]["certificate"]
    for path in places(served):
        where = ".".join(map(str, path[1:]))
        value = read(served, path)
        yield f"another {where}", PULSE, nist_record(changed(served, path, other(value)))
        yield f"{where} is null", PULSE, nist_record(changed(served, path, None))
        if isinstance(value, int):
            yield f"{where} as text", PULSE, nist_record(changed(served, path, str(value)))
    pulse = served["pulse"]
    for name in pulse:
        yield f"without {name}", PULSE, nist_record({"pulse": {k: v for k, v in pulse.items() if k != name}})
    later = changed(served, ("pulse", "timeStamp"), "2019-08-30T17:44:00.000Z")
    swapped = changed(served, ("pulse", "listValues"), pulse["listValues"][::-1])
    broken = certificate.replace("MIIHWzCC", "MIIHWzCD")
    yield "another pulse than was asked for", PULSE + 1, good
    yield "one field more", PULSE, nist_record({"pulse": {**pulse, "comment": ""}})
    yield "not under its name", PULSE, nist_record(pulse)
    yield "a field twice", PULSE, good.replace('"period": 60000', '"period": 60000, "period": 60000')
    yield "a number with a point", PULSE, good.replace('"period": 60000', '"period": 60000.0')
    yield "a list turned round", PULSE, nist_record(swapped)
    yield "a time beyond the certificate's", PULSE, nist_record(later)
    yield "no certificate", PULSE, json.dumps(served)
    yield "a certificate that is none", PULSE, nist_record(served, broken)
    yield "half a certificate", PULSE, good[: len(good) - 600]
    yield "a certificate and no pulse", PULSE, certificate
    yield "nothing", PULSE, ""


def bad_rounds() -> Iterator[tuple[str, int, str]]:
    """Rounds of drand that are none."""
    served = RECORDED["drand"]["served"]
    good, signature = json.dumps(served), served["signature"]
    for name in served:
        yield f"another {name}", ROUND, json.dumps({**served, name: other(served[name])})
        yield f"{name} is null", ROUND, json.dumps({**served, name: None})
        yield f"without {name}", ROUND, json.dumps({k: v for k, v in served.items() if k != name})
    # The digest of each is put right: it is for the signature to be refused.
    points = {
        "the negative of the signature": f"{int(signature[:2], 16) ^ 0x20:02x}{signature[2:]}",
        "the identity as the signature": "c0" + "00" * 47,
        "another spelling of the identity": "c0" + "00" * 46 + "01",
        "a third spelling of the identity": "ff" * 48,
        "the generator as the signature": (
            "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
        ),
        "a point outside the subgroup": "80" + "00" * 46 + "04",
        "no point of the curve": "80" + "00" * 46 + "01",
        "not compressed": f"{int(signature[:2], 16) & 0x7F:02x}{signature[2:]}",
    }
    for why, point in points.items():
        yield why, ROUND, json.dumps({**served, "signature": point, "randomness": digest(point)})
    short = signature[:-2]
    yield "a signature too short", ROUND, json.dumps({**served, "signature": short, "randomness": digest(short)})
    yield "another round than was asked for", ROUND + 1, good
    yield "the round before, said to be this one", ROUND + 1, json.dumps({**served, "round": ROUND + 1})
    yield "one field more", ROUND, json.dumps({**served, "previous_signature": ""})
    yield "a field twice", ROUND, good[:-1] + f', "round": {ROUND}}}'
    yield "the round as text", ROUND, json.dumps({**served, "round": str(ROUND)})
    yield "a list", ROUND, json.dumps([served])
    yield "something behind it", ROUND, good + "0"
    yield "nothing", ROUND, ""


def digest(point: str) -> str:
    """The output that would belong to a signature."""
    return hashlib.sha256(bytes.fromhex(point)).hexdigest()


def bad_beacons() -> JSON:
    """What must be refused."""
    drand = json.dumps(RECORDED["drand"]["served"])
    local = LocalUnsafeBeacon().fetch(LOCAL, 7).decode()
    chains = (
        ("a chain that nobody knows", "drand-quick", ROUND, drand),
        ("NIST's beacon without a chain", "nist-2.0", PULSE, nist_record(RECORDED["nist"]["served"])),
        ("another of NIST's chains", "nist-2.0-chain-2", PULSE, nist_record(RECORDED["nist"]["served"])),
        ("a round of drand as a pulse", NIST, ROUND, drand),
        ("round 0", DRAND, 0, drand),
    )
    unsafe = (
        ("another seed", LOCAL + "2", 7, local),
        ("another round", LOCAL, 8, local),
        ("another output", LOCAL, 7, local.replace('"output": "', '"output": "00')),
    )
    cases = [(why, chain, number, record, True) for why, chain, number, record in (*chains, *unsafe)]
    cases.append(("the development beacon, where it is not allowed", LOCAL, 7, local, False))
    cases += [(f"NIST: {why}", NIST, number, record, True) for why, number, record in bad_pulses()]
    cases += [(f"drand: {why}", DRAND, number, record, True) for why, number, record in bad_rounds()]
    good = {NIST: nist_record(RECORDED["nist"]["served"]), DRAND: drand, LOCAL: local}
    return {
        "description": "Records that are not of this round of this chain and must be refused.",
        "good": good,
        "cases": [
            {
                "why": why,
                "chain": chain,
                "round": number,
                "allow_unsafe": allowed,
                "good": name,
                "record": cut(good[name], record),
            }
            for why, chain, number, record, allowed in cases
            for name in [nearest(good, record)]
        ],
    }


def nearest(good: dict[str, str], record: str) -> str:
    """The good record from which this one is told in the fewest letters."""
    return min(good, key=lambda name: len(cut(good[name], record)[1]))


def cut(good: str, record: str) -> tuple[int, str, int]:
    """How many letters of a good record come first, what then, and how many of its last letters come at the end."""
    least = min(len(good), len(record))
    head = next((i for i in range(least) if good[i] != record[i]), least)
    tail = next((i for i in range(least - head) if good[-1 - i] != record[-1 - i]), least - head)
    return head, record[head : len(record) - tail], tail


FILES: dict[str, Callable[[], JSON]] = {maker.__name__: maker for maker in (beacon, bad_beacons)}
