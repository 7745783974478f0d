"""What the rounds of both roles share: the ledger, the secrets, the folder of capsules, the leaves.

    FOLDER/ledger.db            what was promised and said (``ledger``)
    FOLDER/LABEL.capsules       a round's capsules, until they are handed on (``capsule_file``)
    FOLDER/LABEL.leaves         digests of the entry relay's batch, side by side; public, and kept
    SECRETS/                    the secrets of rounds and their marks, in memory

That memory outlives the process, not the machine.
What two draws over one batch would tell (their average has less noise), and one draw over two batches (their difference
has none), is what a relay's cover is there to hide. So the round secret, from which all noise follows, is made once; a
*mark* says which batch it was used for, in memory and on the disk, and either refuses another one (``may_draw``, for
both roles):

    the process was killed      both are there: the same batch gives the same bytes
    the disk was restored       the mark in memory refuses what the disk has forgotten
    the machine was restarted   the secret is gone: the round cannot be drawn, and never is

A machine that is restored with its memory is outside the promise: no snapshots of a relay's memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError, LocalProtocolError
from secvm.files import or_bad_input, sync_folder
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.relays.batches import PIECE_CAPSULES
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.manifest import Instants
from secvm.relay.batches.ledger import RoundLedger
from secvm.runtime.disk.secret_files import make_secret, read_secret, remove_secret, write_secret

#: The mark for the batch over which cover is drawn, and the one for the statement that is answered.
BATCH, ANSWERED = "batch", "answered"
#: Steps that are noted in the ledger.
HANDED_ON, OVER = "handed-on", "over"

#: A seed of a part and the root of the incoming batch → the part's capsules, sealed.
DrawPart = Callable[[bytes, bytes], Iterable[bytes]]

SECRET_BYTES = 32
_MARK_BYTES = 32
_HEX = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z-]{1,20}")


class RoundSecrets:
    """The folder of secrets and marks. Whoever uses it holds the relay's lock: one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Made where it is not there, for its owner alone.

        Raises
        ------
        BadInputError
            Something else is there, or others may look into it.
        """
        self._folder = folder
        with or_bad_input(f"cannot make the folder for secrets {folder}"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
            raise BadInputError(
                f"the folder for secrets {folder} is not this account's alone", next_step=f"chmod 700 {folder}"
            )
        for left in folder.glob(".*.tmp"):
            # Of a process that was killed while it wrote.
            remove_secret(left)

    def __repr__(self) -> str:
        return "RoundSecrets(...)"

    @property
    def is_memory(self) -> bool:
        """Whether the folder lies in memory, as far as the system says."""
        return _file_system(self._folder) in ("tmpfs", "ramfs")

    # ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def make(self, experiment: str, round_number: int, dice: RandomBytes) -> bytes:
        """The secret of this round: the one that is there, else a new one, whole before anybody sees it."""
        known = self.find(experiment, round_number)
        if known is None:
            known = throw(dice, SECRET_BYTES)
            make_secret(self._secret(experiment, round_number), known)
        return known

    def find(self, experiment: str, round_number: int) -> bytes | None:
        """What is there of this round: the secret, or what ``narrow`` put in its place; None: nothing, for ever."""
        path = self._secret(experiment, round_number)
        return read_secret(path) if path.exists() else None

    def narrow(self, experiment: str, round_number: int, seeds: bytes) -> None:
        """Put what is still needed of a secret in its place; from these bytes the rest does not follow."""
        path = self._secret(experiment, round_number)
        if not path.exists():
            raise LocalProtocolError("a secret that is gone cannot be narrowed")
        write_secret(path, seeds)

    def forget(self, experiment: str, round_number: int) -> None:
        """Overwrite and remove it. Twice is once."""
        remove_secret(self._secret(experiment, round_number))

    # ── marks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def mark(self, label: bytes, kind: str, value: bytes) -> bool:
        """Whether this value is the one that stands here; the first one stands, for ever."""
        if len(value) != _MARK_BYTES:
            raise LocalProtocolError(f"a mark has {_MARK_BYTES} bytes")
        known = self.marked(label, kind)
        if known is None:
            make_secret(self._mark(label, kind), value)
        return known in (None, value)

    def marked(self, label: bytes, kind: str) -> bytes | None:
        """The value that stands here."""
        path = self._mark(label, kind)
        return read_secret(path) if path.exists() else None

    def _secret(self, experiment: str, round_number: int) -> Path:
        if not _HEX.fullmatch(experiment) or round_number < 1:
            raise LocalProtocolError("a round is named by its experiment's digest and a number from 1")
        return self._folder / f"{experiment}-{round_number}.secret"

    def _mark(self, label: bytes, kind: str) -> Path:
        if len(label) != _MARK_BYTES or not _KIND.fullmatch(kind):
            raise LocalProtocolError("a mark is named by a label and a kind")
        return self._folder / f"{label.hex()}.{kind}"


def _file_system(folder: Path) -> str | None:
    """The kind of file system that a folder is on; None where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        device = folder.stat().st_dev
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0]
    return None


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
