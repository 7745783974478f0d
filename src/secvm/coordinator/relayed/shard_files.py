"""Shards of an opened round, for whoever looks for a capsule (docs/protocol.md §31, §32).

    /v1/experiment/D/shards/T       the first 8 bytes of each shard's first digest, side by side: which shard to ask for
    /v1/experiment/D/shard/T/K      number of hashes, 1 byte ‖ path of the shard's root in the mixing relay's tree
                                    ‖ the digests of its capsules, ascending

They are made when they are asked for, out of the batch, as long as it is kept: until the round after the next is over.
The capsules themselves and the sub-tallies beside them, with which everybody recounts a shard, belong below
``/v1/experiment/D/shard/T/K`` as well; they are not published yet.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from secvm.coordinator.publisher import BYTES_MEDIA_TYPE, IsShown, decimal
from secvm.coordinator.relayed.books import opening_name
from secvm.coordinator.relayed.run_results import CountedShard, read_run
from secvm.coordinator.relayed.showing import opening_path
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.merkle import Tree
from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.protocol.relays.batch_pieces import PIECE_CAPSULES, cut, piece_count
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.label import INNER_BYTES, capsule_digest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.shards import SHARD

_PREFIX_BYTES = 8
_SHARDS_OF_PIECE = PIECE_CAPSULES // SHARD
#: Rounds whose trees are kept in memory.
_REMEMBERED = 4


class ShardFiles:
    """Finds shards. Any thread may ask."""

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        self._rounds: OrderedDict[tuple[str, int], tuple[bytes, Tree]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, is_shown: IsShown) -> tuple[bytes, str] | None:
        """What is at a path below ``/v1/experiment/D/shard``, and its media type; None for anything else."""
        match path.split("/"):
            case ["", "v1", "experiment", digest, "shards", number]:
                shard: int | None = None
            case ["", "v1", "experiment", digest, "shard", number, named]:
                shard = decimal(named)
                if shard is None:
                    return None
            case _:
                return None
        round_number = decimal(number)
        if round_number is None or not is_shown(opening_path(digest, round_number)):
            return None
        found = self._round(digest, round_number)
        if found is None:
            return None
        data = found[0] if shard is None else self._shard(digest, round_number, shard, found[1])
        return None if data is None else (data, BYTES_MEDIA_TYPE)

    def _shard(self, digest: str, number: int, shard: int, tree: Tree) -> bytes | None:
        if shard >= tree.size:
            return None
        piece = self._store.piece(digest, number, shard // _SHARDS_OF_PIECE)
        if piece is None:
            return None
        at = shard % _SHARDS_OF_PIECE * SHARD * INNER_BYTES
        digests = [capsule_digest(capsule) for capsule in cut(piece[at : at + SHARD * INNER_BYTES], INNER_BYTES)]
        proof = tree.inclusion_proof(shard)
        return bytes([len(proof)]) + b"".join(proof) + b"".join(digests)

    def _round(self, digest: str, number: int) -> tuple[bytes, Tree] | None:
        """Prefixes of all shards, and the tree over their roots; None where the round is unopened or forgotten."""
        place = (digest, number)
        if self._store.batch(*place) is None:
            return None
        with self._lock:
            if place in self._rounds:
                self._rounds.move_to_end(place)
                return self._rounds[place]
        shards = self._shards(digest, number)
        if shards is None:
            return None
        found = b"".join(one.first[:_PREFIX_BYTES] for one in shards), Tree(one.root for one in shards)
        with self._lock:
            self._rounds[place] = found
            while len(self._rounds) > _REMEMBERED:
                self._rounds.popitem(last=False)
        return found

    def _shards(self, digest: str, number: int) -> list[CountedShard] | None:
        try:
            opening = Opening.from_bytes(Envelope.from_bytes(self._store.blob(opening_name(digest, number))).payload)
        except KeyError:
            return None
        if not opening.is_opened or opening.mix_count is None:
            return None
        results = [
            self._store.run_result(digest, number, run)
            for run in range(piece_count(MixCount.enclosed(opening.mix_count).capsules))
        ]
        try:
            return [shard for result in results for shard in read_run(result or b"")] if all(results) else None
        except MalformedMessageError:
            return None
