"""Counting: which inner capsules count, and for which cell; a rule that says something of all bytes (§31).

A capsule counts when it has 80 bytes, opens with the round's count key, and holds a package of this experiment and
round that names only what the experiment has. Everything else is junk, and never an error: a wrong length, an exchange
that is zero, a wrong tag, bytes that are no package, a package of elsewhere. So whoever has the published seed counts
the same. A null package counts for no cell, and is no junk. Cells of all kinds are numbered through (§26):

    train            model · (bins + 1) · 2 + bin · 2 + (0 for +1, 1 for −1), the bias bin last
    participation    cohort · labels + label, cohort 0 train, 1 test
    test             true · labels + predicted; none where the label is a number

``CapsuleReader.package`` is the rule, one capsule after the other. ``CapsuleReader.cells`` is its quick twin: capsules
lie side by side, are opened in bulk and looked at as columns. Both say the same of all bytes; tests hold them equal.

    cells = CapsuleReader.of(document, manifest, seed).cells(piece)
    sub_tally_of(cells[:4096])          # of the first shard
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import BulkSealer, inner_layer, open_inner
from secvm.errors import LocalProtocolError, MalformedMessageError, OpeningError, RefusedPackageError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.declared import MAX_BINS
from secvm.learning.experiment import Experiment
from secvm.learning.label_models import MAX_MODELS
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol import codec
from secvm.protocol.codec import check_package, decode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.shards import write_sub_tally
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION

_COHORTS = (Cohort.TRAIN, Cohort.TEST)


@dataclass(frozen=True, slots=True)
class Cells:
    """How many cells an experiment has of each kind, and which package is in which."""

    models: int
    #: Without the bias.
    bins: int
    labels: int
    #: False where the label is a number.
    tested: bool

    @classmethod
    def of(cls, experiment: Experiment) -> Cells:
        """Those of an experiment."""
        tested = not experiment.loss.regression
        return cls(experiment.models.n_models, experiment.n_bins, len(experiment.labels), tested)

    @property
    def train(self) -> int:
        """Train cells; the first participation cell has this number."""
        return self.models * (self.bins + 1) * 2

    @property
    def participation(self) -> int:
        """Participation cells."""
        return len(_COHORTS) * self.labels

    @property
    def test(self) -> int:
        """Test cells."""
        return self.labels**2 if self.tested else 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.train + self.participation + self.test

    def cell_of(self, package: Package) -> int | None:
        """The cell of a package that belongs to the experiment; None for a null."""
        match package:
            case TrainPackage(model=model, bin_index=bin_index, sign=sign):
                return (model * (self.bins + 1) + bin_index) * 2 + (0 if sign == 1 else 1)
            case ParticipationPackage(cohort=cohort, class_index=label):
                return self.train + _COHORTS.index(cohort) * self.labels + label
            case TestPackage(true_class=true, predicted_class=predicted):
                return self.train + self.participation + true * self.labels + predicted
            case NullPackage():
                return None

    def package_of(self, cell: int) -> Package:
        """The package that is in a cell."""
        if not 0 <= cell < self.count:
            raise LocalProtocolError(f"there is no cell {cell} among {self.count}")
        if cell < self.train:
            bins, minus = divmod(cell, 2)
            model, bin_index = divmod(bins, self.bins + 1)
            return TrainPackage(model=model, bin_index=bin_index, sign=-1 if minus else 1)
        first, second = divmod(cell - self.train, self.labels)
        if cell < self.train + self.participation:
            return ParticipationPackage(cohort=_COHORTS[first], class_index=second)
        return TestPackage(true_class=first - len(_COHORTS), predicted_class=second)

    def tally(self, counts: NDArray[np.int64]) -> Tally:
        """The tally of so many packages per cell. Participation of the test cohort stands in none."""
        if counts.shape != (self.count,):
            raise LocalProtocolError(f"counts of {self.count} cells are needed, and these are {len(counts)}")
        tally = Tally.empty(n_models=self.models, n_bins=self.bins, n_labels=self.labels)
        signs = counts[: self.train].reshape(self.models, self.bins + 1, 2)
        tally.plus[:], tally.minus[:] = signs[..., 0], signs[..., 1]
        tally.participants[:] = counts[self.train : self.train + self.labels]
        if self.tested:
            tally.cells[:] = counts[self.train + self.participation :].reshape(self.labels, self.labels)
        return tally


#: What stands for a cell where a package is in none, and where there is no package.
NULL, JUNK = -1, -2

_LINE: Final = np.dtype([("cell", "<u8"), ("count", "<u8")])


@dataclass(frozen=True, slots=True, repr=False)
class CapsuleReader:
    """Whoever has the count key of a round, and counts."""

    document: ExperimentDocument
    label: bytes
    round_number: int
    key: X25519PrivateKey
    sealer: BulkSealer = field(default_factory=BulkSealer)

    @classmethod
    def of(
        cls, document: ExperimentDocument, manifest: RelayedManifest, seed: bytes, sealer: BulkSealer | None = None
    ) -> CapsuleReader:
        """With the seed of the round's count key, which ``opening_faults`` has compared with the manifest."""
        key = X25519PrivateKey.derive(seed)
        return cls(document, manifest.label, manifest.round_number, key, sealer or BulkSealer())

    def package(self, capsule: bytes) -> Package | None:
        """What a capsule counts as; None: junk."""
        try:
            content = open_inner(self.key, self.label, capsule)
        except OpeningError:
            return None
        return self.package_of(content)

    def package_of(self, content: bytes) -> Package | None:
        """The same of what was under the seal, for whoever opens many at once."""
        try:
            return check_package(
                decode(content),
                experiment_id=self.document.experiment_id,
                experiment=self.document.experiment,
                round_number=self.round_number,
            )
        except (MalformedMessageError, RefusedPackageError):
            return None

    def sub_tally(self, capsules: Iterable[bytes]) -> bytes:
        """Packages per cell of these capsules, as a shard's sub-tally writes them."""
        cells = Cells.of(self.document.experiment)
        packages = (self.package(capsule) for capsule in capsules)
        named = (cells.cell_of(package) for package in packages if package is not None)
        return write_sub_tally(Counter(cell for cell in named if cell is not None))

    def cells(self, capsules: bytes) -> NDArray[np.int64]:
        """The cell of each of these capsules of 80 bytes, or ``NULL``, or ``JUNK``."""
        layer = inner_layer(self.label)
        contents, opened = self.sealer.open_all(layer, self.key, capsules)
        cells = self.cells_of(contents)
        cells[np.frombuffer(opened, np.uint8) == 0] = JUNK
        return cells

    def cells_of(self, contents: bytes) -> NDArray[np.int64]:
        """The same of what was under the seals, 32 bytes each."""
        records = np.frombuffer(contents, codec.RECORD)
        sizes = Cells.of(self.document.experiment)
        labels = sizes.labels
        a, b, c = (records[name].astype(np.int64) for name in ("a", "b", "c"))
        ours = (
            (records["version"] == PROTOCOL_VERSION)
            & (records["experiment"] == np.frombuffer(self.document.experiment_id, "<u8")).all(axis=1)
            & (records["round"] == self.round_number)
            & (1 <= self.round_number <= MAX_ROUND)
            & (records["rest"] == 0).all(axis=1)
        )
        known_model = a < min(sizes.models, MAX_MODELS)
        known_label = a < min(labels, MAX_MODELS)
        sign_or_cohort = (c == 1) | (c == 2)
        of_kind = {
            codec.TRAIN: known_model & (b <= min(sizes.bins, MAX_BINS)) & sign_or_cohort,
            codec.PARTICIPATION: known_label & (b == 0) & sign_or_cohort,
            codec.TEST: known_label & (b < min(labels, MAX_MODELS)) & (c == 0) & sizes.tested,
            codec.NULL: (a == 0) & (b == 0) & (c == 0),
        }
        numbers = {
            codec.TRAIN: (a * (sizes.bins + 1) + b) * 2 + (c - 1),
            codec.PARTICIPATION: sizes.train + (c - 1) * labels + a,
            codec.TEST: sizes.train + sizes.participation + a * labels + b,
            codec.NULL: np.full(len(records), NULL, np.int64),
        }
        cells = np.full(len(records), JUNK, np.int64)
        for kind, holds in of_kind.items():
            here = ours & (records["kind"] == kind) & holds
            cells[here] = numbers[kind][here]
        return cells

    def __repr__(self) -> str:
        return f"CapsuleReader(round {self.round_number})"


def sub_tally_of(cells: NDArray[np.int64]) -> bytes:
    """Packages per cell of a shard, as its sub-tally writes them (``shards.write_sub_tally``)."""
    named, counts = np.unique(cells[cells >= 0], return_counts=True)
    lines = np.empty(len(named), _LINE)
    lines["cell"], lines["count"] = named, counts
    return lines.tobytes()


def add_sub_tally(counts: NDArray[np.int64], sub_tally: bytes) -> None:
    """Add a sub-tally of our own to counts of all cells; one of somebody else's is read by ``read_sub_tally``."""
    lines = np.frombuffer(sub_tally, _LINE)
    counts[lines["cell"].astype(np.int64)] += lines["count"].astype(np.int64)
