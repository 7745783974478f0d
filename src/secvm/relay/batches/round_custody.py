"""What the rounds of both roles share: the ledger, the secrets, the folder of capsules, the leaves.

    FOLDER/ledger.db            what was promised and said (``ledger``)
    FOLDER/LABEL.capsules       a round's capsules, until they are handed on (``capsule_file``)
    FOLDER/LABEL.leaves         digests of the entry relay's batch, side by side; public, and kept
    SECRETS/                    the secrets of rounds and their marks (``round_secrets``), in memory

The drawing rule stands here once for both roles: ``may_draw`` says for which batch a round's secret may be used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.signing import VerifyKey
from secvm.files import sync_folder
from secvm.protocol.relays.batches.label import DIGEST_BYTES
from secvm.protocol.relays.batches.pieces import PIECE_CAPSULES
from secvm.protocol.relays.cover.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.manifest import Instants
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_secrets import RoundSecrets

#: The mark for the batch over which cover is drawn, and the one for the statement that is answered.
BATCH, ANSWERED = "batch", "answered"
#: Steps that are noted in the ledger.
HANDED_ON, OVER = "handed-on", "over"

#: A seed of a part and the root of the incoming batch → the part's capsules, sealed.
DrawPart = Callable[[bytes, bytes], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class RoundCustody:
    """Where a relay keeps things."""

    ledger: RoundLedger
    secrets: RoundSecrets
    folder: Path

    def capsules(self, plan: RoundPlan) -> Path:
        """The file of a round's capsules."""
        return self.folder / f"{plan.label.hex()}.capsules"

    def leaves(self, label: bytes) -> Path:
        """The file of the digests of the entry relay's batch."""
        return self.folder / f"{label.hex()}.leaves"

    def keep_leaves(self, label: bytes, digests: Iterable[list[bytes]]) -> None:
        """Write them, whole and durable; again is the same."""
        path = self.leaves(label)
        beside = path.with_suffix(".leaves.tmp")
        with beside.open("wb") as file:
            for some in digests:
                file.write(b"".join(some))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(self.folder)

    def leaf_piece(self, label: bytes, index: int) -> bytes | None:
        """Piece ``index`` of the leaves, as it is served; None: there is none."""
        size = PIECE_CAPSULES * DIGEST_BYTES
        try:
            with self.leaves(label).open("rb") as file:
                file.seek(index * size)
                return file.read(size) or None
        except OSError:
            return None

    def secret(self, plan: RoundPlan) -> bytes | None:
        """What there is of the round's secret; None: it is gone, and the round stays unopened."""
        return self.secrets.find(plan.experiment, plan.round_number)

    def may_draw(self, plan: RoundPlan, root: bytes) -> bool:
        """Whether the secret may be used over the batch of this root: no other is marked, on the disk or in memory."""
        return self.ledger.mark(plan.label, BATCH, root) and self.secrets.mark(plan.label, BATCH, root)

    def may_answer(self, plan: RoundPlan, digest: str) -> bool:
        """Whether the statement of this digest may be answered with a seed: no other is marked, here or there."""
        value = bytes.fromhex(digest)
        return self.ledger.mark(plan.label, ANSWERED, value) and self.secrets.mark(plan.label, ANSWERED, value)

    def forget_secret(self, plan: RoundPlan) -> bool:
        """Whether there was one to forget."""
        known = self.secret(plan) is not None
        self.secrets.forget(plan.experiment, plan.round_number)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """One round of one experiment. Public."""

    label: bytes
    #: The experiment's digest.
    experiment: str
    round_number: int
    instants: Instants
    #: B, D and S of the document.
    budget: int
    packages: int
    parts: int
    #: Of the token before a submission's capsules; 0: there is none.
    token_bytes: int
    #: pk_C, for the inner seal.
    count_key: bytes
    #: The long-term keys of both relays, and what they are bound to in this round.
    entry_key: VerifyKey
    mix_key: VerifyKey
    entry_commitment: EntryCommitment
    mix_commitment: MixCommitment
