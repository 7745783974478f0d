"""Checks of the vectors of public randomness. What is not a curve is computed here again from the document alone."""

import hashlib
import json
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from secvm.crypto.beacons.sources import round_time, salt_from, verify_beacon
from secvm.errors import BadBeaconError
from tests.contract.vectors.reading import JSON, refused

PEM = "-----BEGIN"


def long(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def serialised(pulse: JSON) -> bytes:
    """NIST's serialisation, straight from the JSON."""
    external = pulse["external"]
    return b"".join(
        [
            *(long(pulse[name].encode()) for name in ("uri", "version")),
            *(pulse[name].to_bytes(4, "big") for name in ("cipherSuite", "period")),
            long(bytes.fromhex(pulse["certificateId"])),
            *(pulse[name].to_bytes(8, "big") for name in ("chainIndex", "pulseIndex")),
            long(pulse["timeStamp"].encode()),
            long(bytes.fromhex(pulse["localRandomValue"])),
            long(bytes.fromhex(external["sourceId"])),
            external["statusCode"].to_bytes(4, "big"),
            long(bytes.fromhex(external["value"])),
            *(long(bytes.fromhex(listed["value"])) for listed in pulse["listValues"]),
            long(bytes.fromhex(pulse["precommitmentValue"])),
            pulse["statusCode"].to_bytes(4, "big"),
        ]
    )


def check_nist(case: JSON, signed: bytes) -> None:
    served, mark, certificate = case["record"].partition(PEM)
    pulse = json.loads(served)["pulse"]
    found = x509.load_pem_x509_certificate((mark + certificate).encode())
    key, signature = found.public_key(), bytes.fromhex(pulse["signatureValue"])
    assert isinstance(key, rsa.RSAPublicKey)
    key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA512())
    assert signed == serialised(pulse)
    assert found.fingerprint(hashes.SHA512()).hex() == pulse["certificateId"]
    assert hashlib.sha512(signed + signature).hexdigest() == case["output"] == pulse["outputValue"].lower()
    assert datetime.fromisoformat(pulse["timeStamp"]).timestamp() * 1000 == case["at"]


def check_beacon(content: JSON) -> None:
    for case in content["rounds"]:
        chain, number = case["chain"], case["round"]
        found = verify_beacon(chain, number, case["record"].encode(), allow_unsafe=True)
        assert (found.value.hex(), found.at) == (case["output"], case["at"])
        if chain.startswith("nist"):
            (signed,) = content["signed"]
            check_nist(case, bytes.fromhex(signed["bytes"]))
        elif chain.startswith("drand"):
            assert hashlib.sha256(bytes.fromhex(json.loads(case["record"])["signature"])).hexdigest() == case["output"]
            assert case["at"] == 1000 * (1_692_803_367 + 3 * (number - 1))
        else:
            told = number.to_bytes(8, "little") + chain.encode()
            person = b"secvm-v1-unsafe\0"
            assert hashlib.blake2b(told, digest_size=32, person=person).hexdigest() == case["output"]
    for case in content["times"]:
        assert round_time(case["chain"], case["round"]) == case["at"]
    for case in content["salts"]:
        outputs = [bytes.fromhex(output) for output in case["outputs"]]
        told = case["bins"].to_bytes(8, "little") + bytes([len(outputs)])
        told += b"".join(bytes([len(output)]) + output for output in outputs)
        assert hashlib.blake2b(told, digest_size=32, person=b"secvm-v1-beacons").hexdigest() == case["salt"]
        assert salt_from(outputs, case["bins"]).hex() == case["salt"]


def check_bad_beacons(content: JSON) -> None:
    assert len(content["cases"]) > 100

    def read(case: JSON) -> object:
        good = content["good"][case["good"]]
        head, middle, tail = case["record"]
        record = good[:head] + middle + good[len(good) - tail :]
        return verify_beacon(case["chain"], case["round"], record.encode(), allow_unsafe=case["allow_unsafe"])

    refused(content["cases"], read, BadBeaconError)
