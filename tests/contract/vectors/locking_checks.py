"""Checks of the vectors of secrets at rest, by the code of this package and by hand with Python's own scrypt."""

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from secvm.crypto.locking import KeptKey, unlock
from secvm.errors import BadInputError
from tests.contract.vectors.reading import JSON


def check_locking(content: JSON) -> None:
    for case in content["secrets"]:
        data, word = bytes.fromhex(case["locked"]), bytes.fromhex(case["passphrase"])
        assert unlock(data, word).hex() == case["secret"]
        salt, nonce = bytes.fromhex(case["salt"]), bytes.fromhex(case["nonce"])
        head = b"secvm-locked-v1\n" + bytes([case["log2_n"], case["r"], case["p"]]) + salt + nonce
        assert data.startswith(head)
        cost = {"n": 2 ** case["log2_n"], "r": case["r"], "p": case["p"]}
        key = hashlib.scrypt(word, salt=salt, dklen=32, maxmem=2**29, **cost)
        assert AESGCM(key).decrypt(nonce, data[len(head) :], head).hex() == case["secret"]
    for case in content["kept"]:
        data, place = bytes.fromhex(case["kept"]), bytes.fromhex(case["place"])
        assert KeptKey(bytes.fromhex(case["key"])).unlock(data, place).hex() == case["content"]
        head = data[: len(b"secvm-kept-v1\n") + 12]
        found = AESGCM(bytes.fromhex(case["key"])).decrypt(head[-12:], data[len(head) :], head + place)
        assert found.hex() == case["content"]


def check_bad_locking(content: JSON) -> None:
    for case in content["secrets"]:
        with pytest.raises(BadInputError):
            unlock(bytes.fromhex(case["locked"]), bytes.fromhex(case["passphrase"]))
    for case in content["kept"]:
        with pytest.raises(BadInputError):
            KeptKey(bytes.fromhex(case["key"])).unlock(bytes.fromhex(case["kept"]), bytes.fromhex(case["place"]))
