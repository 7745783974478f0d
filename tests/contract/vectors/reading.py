"""What all checks of the vectors share: bytes from text, packages, trees of RFC 6962, and that what is bad is refused.

``vectors/generate.py --check`` holds what our code computes from its inputs to the files. So checks here read the files
as others would: by formulas, with somebody else's libraries, and with our readers.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from secvm.errors import (
    BadProofError,
    BadSignatureError,
    EquivocationError,
    InconsistentManifestError,
    MalformedMessageError,
    StaleCheckpointError,
    StaleRoundError,
)
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, Sign, TestPackage, TrainPackage

JSON = dict[str, Any]
FAULTS: dict[str, type[Exception]] = {
    "malformed": MalformedMessageError,
    "signature": BadSignatureError,
    "inconsistent": InconsistentManifestError,
    "equivocation": EquivocationError,
    "stale": StaleCheckpointError,
    "stale round": StaleRoundError,
    "proof": BadProofError,
}


def unhex(texts: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


def refused(cases: Iterable[Any], read: Callable[[Any], object], *faults: type[Exception]) -> None:
    """Each of these is refused: with one of these errors, or with the very one that the case names."""
    for case in cases:
        with pytest.raises(faults or FAULTS[case["fault"]]) as caught:
            read(case)
        assert faults or caught.type is FAULTS[case["fault"]], case["why"]


def bytes_of(case: JSON) -> bytes:
    return bytes.fromhex(case["bytes"])


def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1, as it stands there, over the hashes of the entries."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    k = max(2**i for i in range(len(leaves).bit_length()) if 2**i < len(leaves))
    return hashlib.sha256(b"\x01" + tree_root(leaves[:k]) + tree_root(leaves[k:])).digest()


def root_over(entries: Sequence[bytes]) -> str:
    """The same over entries, as text."""
    return tree_root([hashlib.sha256(b"\0" + entry).digest() for entry in entries]).hex()


def read_package(told: JSON) -> tuple[Package, tuple[int, int, int, int]]:
    """A package, and the four numbers that its bytes hold beside experiment and round."""
    match told["kind"]:
        case "train":
            package = TrainPackage(model=told["model"], bin_index=told["bin"], sign=cast("Sign", told["sign"]))
            return package, (1, told["model"], told["bin"], 1 if told["sign"] == 1 else 2)
        case "test":
            cell = TestPackage(true_class=told["true_class"], predicted_class=told["predicted_class"])
            return cell, (2, told["true_class"], told["predicted_class"], 0)
        case "participation":
            person = ParticipationPackage(cohort=Cohort(told["cohort"]), class_index=told["class"])
            return person, (3, told["class"], 0, {"train": 1, "test": 2}[told["cohort"]])
    assert told == {"kind": "null"}
    return NullPackage(), (4, 0, 0, 0)
