"""Checks of v2/cover.json: by this package, and by a second writing of docs/protocol.md §25 and §29 on another HPKE."""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import open_inner, open_outer
from secvm.learning.cover_law import Noise
from tests.contract.vectors.second_sampler import named_by

JSON = dict[str, Any]
SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def unhex(case: JSON, *names: str) -> list[bytes]:
    return [bytes.fromhex(case[name]) for name in names]


def laws_hold(content: JSON) -> None:
    for case in content["laws"]:
        shape, odds = Fraction(case["shape"]), Fraction(case["odds"])
        assert case["taken"] == round(2 * shape * odds)
        assert case["quantile"] == Noise(cells=1, shape=shape, odds=odds).quantile


def seals_hold(content: JSON) -> None:
    for case in content["seals"]:
        label, package, inner, outer = unhex(case, "label", "package", "inner", "outer")
        secrets = unhex(case, "count_private_key", "mix_private_key")
        count, mix = map(X25519PrivateKey, secrets)
        assert open_inner(count, label, open_outer(mix, label, outer)) == package
        theirs = [x25519.X25519PrivateKey.from_private_bytes(one) for one in secrets]
        assert SUITE.decrypt(outer, theirs[1], b"secvm-v2-outer\n" + label) == inner
        assert SUITE.decrypt(inner, theirs[0], b"secvm-v2-inner\n" + label) == package


def keystream(key: bytes, name: str, size: int) -> bytes:
    secret = hashlib.blake2b(name.encode(), digest_size=32, key=key, person=b"secvm-v2-stream\0").digest()
    return Cipher(algorithms.AES(secret), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def key_of(case: JSON, attempt: int) -> bytes:
    seed, label, root = unhex(case, "seed", "label", "root")
    message = label + root + struct.pack("<I", attempt)
    return hashlib.blake2b(message, digest_size=32, key=seed, person=b"secvm-v2-part\0\0\0").digest()


def streams_hold(content: JSON) -> None:
    for case in content["streams"]:
        key, found = unhex(case, "part_key", "bytes")
        assert key == key_of(case, case["attempt"])
        assert keystream(key, case["stream"], case["start"] + len(found))[case["start"] :] == found


def words_of(key: bytes, name: str) -> Iterator[int]:
    for (word,) in struct.iter_unpack("<Q", keystream(key, name, 8 << 17)):
        yield word


def slowly(case: JSON, attempt: int) -> list[list[int]]:
    """The cells of one attempt, kind by kind."""
    key, labels = key_of(case, attempt), case["labels"]
    kinds = [("train", 2 * case["models"] * (case["bins"] + 1)), ("participation", 2 * labels), ("test", labels**2)]
    return [
        named_by(
            words_of(key, kind),
            cells,
            Fraction(case[kind]["shape"]) / (case["parts"] - 1),
            Fraction(case[kind]["odds"]),
        )
        for kind, cells in kinds
        if case[kind] is not None
    ]


def encoded(case: JSON, kind: int, cell: int) -> bytes:
    labels, bins = case["labels"], case["bins"]
    match kind:
        case 0:
            told = (1, cell // 2 // (bins + 1), cell // 2 % (bins + 1), 1 + cell % 2)
        case 1:
            told = (3, cell % labels, 0, 1 + cell // labels)
        case 2:
            told = (2, cell // labels, cell % labels, 0)
        case _:
            told = (4, 0, 0, 0)
    number, a, b, c = told
    return struct.pack("<BB16sIHIB3x", 1, number, bytes.fromhex(case["experiment_id"]), case["round"], a, b, c)


def part_hold(case: JSON) -> None:
    room = case["packages"] // case["parts"]
    for attempt in range(case["attempt"]):
        assert sum(map(len, slowly(case, attempt))) > room
    cells = slowly(case, case["attempt"])
    assert [sorted(Counter(named).items()) for named in cells] == [list(map(tuple, one)) for one in case["counts"]]
    packages = [encoded(case, kind, cell) for kind, named in enumerate(cells) for cell in named]
    assert len(packages) <= room
    packages += [encoded(case, 3, 0)] * (room - len(packages))
    whole = b"".join(packages)
    assert hashlib.sha256(whole).hexdigest() == case["encoded_digest"]
    assert case["encoded"] in (None, whole.hex())


def check_cover(content: JSON) -> None:
    laws_hold(content)
    seals_hold(content)
    streams_hold(content)
    for case in content["parts"]:
        part_hold(case)
    assert any(case["attempt"] for case in content["parts"])
