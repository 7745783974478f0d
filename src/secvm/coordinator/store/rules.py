"""What every store refuses, said once: all ask here before they write. And to which shard a record belongs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.store.port import SHARDS, Standing, StoredExperiment, StoredKey, StoredNote, StoredRound
from secvm.coordinator.store.records import view_records
from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import TRANSITIONS, RoundState

_CONCLUDED = (RoundState.TALLIED, RoundState.ABANDONED)
_FOR_GOOD = (Standing.STOPPED, Standing.FINISHED)


def same_experiment(there: StoredExperiment, given: StoredExperiment) -> None:
    """An experiment that is there already is the same one, whatever its standing is now."""
    if (there.envelope, there.settings) != (given.envelope, given.settings):
        raise LocalProtocolError("an experiment of this digest is there, with another envelope or other settings")


def agreed_name(name: str) -> str:
    """Where something that all nodes have in common stands among the blobs: a name that is no digest of any."""
    return hashlib.sha256(f"secvm-v1-agreed {name}".encode()).hexdigest()


def may_stand(there: Standing, given: Standing) -> None:
    """What is stopped or finished stays so, whoever asks at which node: its ending may be public already."""
    if there in _FOR_GOOD and given is not there:
        raise LocalProtocolError(f"an experiment that is {there.value} stays so")


def may_announce(there: StoredRound | None, given: StoredRound, standing: Standing) -> None:
    """Only ever one manifest for a round, and none once its operator has said that there shall be no more."""
    if there is None and standing is not Standing.RUNNING:
        raise LocalProtocolError(f"the experiment is {standing.value}: no round is announced")
    if given.state is not RoundState.ANNOUNCED or given.tally is not None or given.next_state is not None:
        raise LocalProtocolError("a round begins announced, without a tally")
    if there is not None and (there.epoch, there.envelope) != (given.epoch, given.envelope):
        raise LocalProtocolError("this round is announced already, with another manifest or epoch")


def moves(there: StoredRound | None, state: RoundState) -> bool:
    """Whether the round changes its state; refused if it may not."""
    if there is None:
        raise LocalProtocolError("there is no such round")
    if there.state is state:
        return False
    if state in _CONCLUDED or state not in TRANSITIONS[there.state].values():
        raise LocalProtocolError(f"a round that is {there.state.value} does not become {state.value} like this")
    return True


def concludes(there: StoredRound | None, tally: str | None, next_state: str) -> bool:
    """Whether the round is concluded only now; refused if it was otherwise, or may not be yet."""
    if there is None:
        raise LocalProtocolError("there is no such round")
    if there.next_state is not None:
        if (there.tally, there.next_state) != (tally, next_state):
            raise LocalProtocolError("this round is concluded already, with another outcome")
        return False
    if there.state is not RoundState.CLOSING:
        raise LocalProtocolError(f"a round that is {there.state.value} cannot be concluded")
    return True


def key_fits(key: StoredKey, *, scrubbed: bool) -> None:
    """A key id is one byte; what is scrubbed stays so."""
    if scrubbed:
        raise LocalProtocolError("the epoch is scrubbed: it gets no key any more")
    if not 0 <= key.key_id < 256:
        raise LocalProtocolError("a key id is one byte")


def replaces(numbers: Sequence[int], n_there: int) -> bool:
    """Whether groups are replaced only now; refused if only some of them are there."""
    if len(set(numbers)) != len(numbers):
        raise LocalProtocolError("a group is named twice")
    if n_there not in (0, len(numbers)):
        raise LocalProtocolError("some of these groups are opened already, others are not")
    return n_there > 0


def may_append(size: int, at: int) -> None:
    """A log goes on where it ends: whoever thinks that it ends elsewhere has not read it."""
    if at != size:
        raise LocalProtocolError(f"the log has {size} entries, and these are to come after {at}: read it again")


def may_follow(there: StoredNote | None, *, size: int, root: bytes) -> None:
    """A log only grows; of one size it has one root."""
    if there is not None and (size < there.size or (size == there.size and root != there.root)):
        raise LocalProtocolError("a checkpoint of the log is there that this one does not follow from")


def same_beacon(there: bytes | None, record: bytes) -> None:
    """Refuse another record of a beacon that has one."""
    if there is not None and there != record:
        raise LocalProtocolError("another record of this beacon is there")


def may_lead(holder: str, lease_s: float) -> None:
    """Refuse a lease without a holder or without an end."""
    if not holder or not 0 < lease_s < 86_400:
        raise LocalProtocolError("a lease has a holder, and lasts less than a day")


def may_keep_shard(shard: int, n_shards: int, *, complete: bool) -> None:
    """Refuse the count of a shard of an epoch that is not complete."""
    if not 0 <= shard < n_shards:
        raise LocalProtocolError("there is no such shard")
    if not complete:
        raise LocalProtocolError("the epoch is open, or something of it is sealed: it cannot be counted yet")


def begun_seed(seed: bytes | None) -> bytes:
    """The seed of a batch that has begun; one that is forgotten has none, ever."""
    if seed is None:
        raise LocalProtocolError("the batch of this round is forgotten: its count key is not made again")
    return seed


def is_new_piece(there: bytes | None, given: bytes, *, whole: bool) -> bool:
    """Whether a piece is not there yet; refused if another one is, or if nothing is missing."""
    if there is not None and there != given:
        raise LocalProtocolError("a piece of this number is there, with other bytes")
    if there is None and whole:
        raise LocalProtocolError("the batch is whole: it has no such piece")
    return there is None


def may_keep_run(*, whole: bool) -> None:
    """Refuse the result of a run of a batch that is not whole."""
    if not whole:
        raise LocalProtocolError("the batch is not whole: it cannot be counted yet")


def shard_of(digest: bytes) -> int:
    """The shard of a capsule's digest. Shards are in the order of the digests: sorted ones, shard after shard, are
    sorted.
    """
    return digest[0] * SHARDS // 256


def shards_of(block: bytes) -> NDArray[np.int64]:
    """The shard of each record of a block."""
    return view_records(block)[:, 0].astype(np.int64) * SHARDS // 256


def of_shard(block: bytes, shard: int) -> bytes:
    """Those records of a block that belong to a shard."""
    records: NDArray[np.uint8] = view_records(block)[shards_of(block) == shard]
    return records.tobytes()


def by_shard(block: bytes) -> tuple[bytes, list[int]]:
    """The block's records, shard after shard, and at which byte each shard ends."""
    shards = shards_of(block)
    order = np.argsort(shards, kind="stable")
    records = view_records(block)
    ends = np.cumsum(np.bincount(shards, minlength=SHARDS)) * records.shape[1]
    return records[order].tobytes(), [int(end) for end in ends]
