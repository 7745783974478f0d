"""Junk: which inner capsules count, and for what; a rule that says something of all bytes (docs/protocol.md §31).

A capsule counts when it has 80 bytes, opens with the round's count key, and holds a package of this experiment and
round that names only what the experiment has. Everything else is junk, and never an error: a wrong length, an exchange
that is zero, a wrong tag, bytes that are no package, a package of elsewhere. So whoever has the published seed counts
the same. A null package counts for no cell, and is no junk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import open_inner
from secvm.errors import MalformedMessageError, OpeningError, RefusedPackageError
from secvm.learning.package import Package
from secvm.protocol.codec import check_package, decode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.counting.cells import Cells
from secvm.protocol.relays.counting.shards import write_sub_tally
from secvm.protocol.relays.manifest import RelayedManifest


@dataclass(frozen=True, slots=True, repr=False)
class CapsuleReader:
    """Whoever has the count key of a round, and counts."""

    document: ExperimentDocument
    label: bytes
    round_number: int
    key: X25519PrivateKey

    @classmethod
    def of(cls, document: ExperimentDocument, manifest: RelayedManifest, count_seed: bytes) -> CapsuleReader:
        """With the seed of the round's count key, which ``judging`` has compared with the manifest."""
        return cls(document, manifest.label, manifest.round_number, X25519PrivateKey.derive(count_seed))

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

    def __repr__(self) -> str:
        return f"CapsuleReader(round {self.round_number})"
