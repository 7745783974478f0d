"""Packages as bytes: one fixed size and one encoding for every kind (docs/protocol.md §9).

    byte   0        protocol version, 1
           1        kind: 1 train, 2 test, 3 participation, 4 null
           2 …17    experiment: the first half of its digest
          18 …21    round, LE
          22 …23    train: model            test: true label         participation: label       LE
          24 …27    train: bin              test: predicted label                               LE
          28        train: 1 for +1, 2 for -1                        participation: 1 train, 2 test
          29 …31    zero

What a kind does not use is zero. ``decode`` takes nothing else, so two different encodings are two different packages.
It knows no experiment: whether model, bin and label exist is ``check_package``'s question. Sealing makes a capsule of
these bytes; in clear they never leave the device.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NewType

import numpy as np

from secvm.errors import LocalProtocolError, MalformedMessageError, RefusedPackageError
from secvm.learning.declared import MAX_BINS
from secvm.learning.experiment import Experiment
from secvm.learning.label_models import MAX_MODELS
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION

PACKAGE_BYTES = 32
EXPERIMENT_ID_BYTES = 16

ExperimentId = NewType("ExperimentId", bytes)

_LAYOUT = struct.Struct("<BB16sIHIB3s")
TRAIN, TEST, PARTICIPATION, NULL = 1, 2, 3, 4
#: The same bytes as columns, for whoever writes or reads many; tests hold the two equal.
RECORD: Final = np.dtype(
    [
        ("version", "u1"),
        ("kind", "u1"),
        ("experiment", "<u8", (2,)),
        ("round", "<u4"),
        ("a", "<u2"),
        ("b", "<u4"),
        ("c", "u1"),
        ("rest", "u1", (3,)),
    ]
)
_COHORTS = {Cohort.TRAIN: 1, Cohort.TEST: 2}
_COHORT_OF = {code: cohort for cohort, code in _COHORTS.items()}


@dataclass(frozen=True, slots=True)
class AddressedPackage:
    """A package and the round it is for. It names no one."""

    experiment_id: ExperimentId
    round_number: int
    package: Package


def encode(addressed: AddressedPackage) -> bytes:
    """The 32 bytes of a package."""
    kind, a, b, c = _fields(addressed.package)
    if not 1 <= addressed.round_number <= MAX_ROUND:
        raise LocalProtocolError(f"a round is from 1 to {MAX_ROUND}, not {addressed.round_number}")
    if len(addressed.experiment_id) != EXPERIMENT_ID_BYTES:
        raise LocalProtocolError(f"an experiment's id has {EXPERIMENT_ID_BYTES} bytes")
    return _LAYOUT.pack(PROTOCOL_VERSION, kind, addressed.experiment_id, addressed.round_number, a, b, c, b"\0\0\0")


def _fields(package: Package) -> tuple[int, int, int, int]:
    """Kind, and what stands in the three fields after the round."""
    match package:
        case TrainPackage(model=m, bin_index=j, sign=sign):
            if 0 <= m < MAX_MODELS and 0 <= j <= MAX_BINS and sign in (-1, 1):
                return TRAIN, m, j, 1 if sign == 1 else 2
        case TestPackage(true_class=true, predicted_class=predicted):
            if 0 <= true < MAX_MODELS and 0 <= predicted < MAX_MODELS:
                return TEST, true, predicted, 0
        case ParticipationPackage(cohort=cohort, class_index=label):
            if 0 <= label < MAX_MODELS:
                return PARTICIPATION, label, 0, _COHORTS[cohort]
        case NullPackage():
            return NULL, 0, 0, 0
    raise LocalProtocolError("no experiment has a place for this package")


def decode(data: bytes) -> AddressedPackage:
    """The package of an encoding; anything that ``encode`` would not write is refused."""
    if len(data) != PACKAGE_BYTES:
        raise MalformedMessageError(f"a package of {len(data)} bytes; one has {PACKAGE_BYTES}", problem="wrong-size")
    version, kind, experiment_id, round_number, a, b, c, rest = _LAYOUT.unpack(data)
    if version != PROTOCOL_VERSION:
        raise MalformedMessageError("a package of another version of the protocol")
    if not 1 <= round_number <= MAX_ROUND:
        raise MalformedMessageError("a package for a round that cannot be")
    package: Package | None = None
    match kind, c:
        case 1, 1 | 2 if a < MAX_MODELS and b <= MAX_BINS:
            package = TrainPackage(model=a, bin_index=b, sign=1 if c == 1 else -1)
        case 2, 0 if a < MAX_MODELS and b < MAX_MODELS:
            package = TestPackage(true_class=a, predicted_class=b)
        case 3, 1 | 2 if a < MAX_MODELS and b == 0:
            package = ParticipationPackage(cohort=_COHORT_OF[c], class_index=a)
        case 4, 0 if a == 0 and b == 0:
            package = NullPackage()
    if package is None or rest != b"\0\0\0":
        raise MalformedMessageError("these bytes are no package of any kind")
    return AddressedPackage(ExperimentId(experiment_id), round_number, package)


def check_package(
    addressed: AddressedPackage, *, experiment_id: ExperimentId, experiment: Experiment, round_number: int
) -> Package:
    """The package, if it belongs to this round and names only what the experiment has.

    Raises
    ------
    RefusedPackageError
        With the problem that says why.
    """
    if addressed.experiment_id != experiment_id:
        raise RefusedPackageError("a package of another experiment", problem="unknown-experiment")
    if addressed.round_number != round_number:
        raise RefusedPackageError("a package of another round", problem="wrong-round")
    n_labels = len(experiment.labels)
    match addressed.package:
        case TrainPackage(model=model, bin_index=bin_index):
            if model >= experiment.models.n_models:
                raise RefusedPackageError("a package names an unknown model", problem="unknown-model")
            if bin_index > experiment.n_bins:
                raise RefusedPackageError("a package names a bin out of range", problem="bin-out-of-range")
        case TestPackage(true_class=true, predicted_class=predicted):
            if max(true, predicted) >= n_labels or experiment.loss.regression:
                raise RefusedPackageError("a package names an unknown class", problem="unknown-class")
        case ParticipationPackage(class_index=label):
            if label >= n_labels:
                raise RefusedPackageError("a package names an unknown class", problem="unknown-class")
        case NullPackage():
            pass
    return addressed.package
