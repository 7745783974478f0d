"""What the generators of the vectors share: who signs, whose log it is, and how files write packages and cases."""
# ruff: noqa: INP001  (beside the programs, not a package)

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from secvm.crypto.signing import SigningKey
from secvm.learning.aggregate.descent import State
from secvm.learning.package import NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import model_of
from secvm.protocol.log.entries import ModelNames
from secvm.protocol.log.policy import LogTerms, Witness

JSON = dict[str, Any]
COORDINATOR, SECOND, RELAY, STRANGER, LOG = (SigningKey(bytes([i]) * 32) for i in (1, 2, 3, 4, 5))
WITNESSES = [SigningKey(bytes([i]) * 32) for i in (11, 12, 13)]
#: 2026-01-01.
START = 1_767_225_600_000


def log_terms(count: int = 3, *, first: int = 11) -> LogTerms:
    """A log with so many witnesses, whose seeds begin with this byte."""
    keys = [SigningKey(bytes([first + i]) * 32) for i in range(count)]
    return LogTerms(
        name="log.example",
        key=LOG.public,
        witnesses=tuple(Witness(f"w{i}.example", key.public) for i, key in enumerate(keys)),
        quorum=count // 2 + 1,
        freshness_s=3600,
    )


def plain(value: object) -> str:
    """What JSON has no word for: bytes in hexadecimal, and a rational as ``p/q``."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    raise TypeError(type(value).__name__)


def with_reasons(table: Mapping[str, object], name: str = "bytes", **same: object) -> list[JSON]:
    """One case for each reason, with its input under this name."""
    return [{"why": why, **same, name: data} for why, data in table.items()]


def as_json(package: Package) -> JSON:
    """Any package as the files write it."""
    match package:
        case TrainPackage(model=model, bin_index=bin_index, sign=sign):
            return {"kind": "train", "model": model, "bin": bin_index, "sign": sign}
        case TestPackage(true_class=true, predicted_class=predicted):
            return {"kind": "test", "true_class": true, "predicted_class": predicted}
        case ParticipationPackage(cohort=cohort, class_index=label):
            return {"kind": "participation", "cohort": cohort.value, "class": label}
        case NullPackage():
            return {"kind": "null"}


def names(document: ExperimentDocument, state: State) -> ModelNames:
    """The names of a state's model, as manifests and endings are made of it."""
    return model_of(document, state).names
