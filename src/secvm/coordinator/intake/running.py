"""Which rounds run now and which gateway keys open capsules: ``CurrentRounds``, one immutable value.

``running_rounds`` derives it from the experiments' history, the stored keys and the clock. The driver hands a new one
to the gateway and to ingest at each transition (``update``); a node that does not drive derives its own by the same
function, so two nodes with one store never differ in what they take. What is taken at an instant follows from this
value and the clock alone:

- a capsule is sealed, so only its key id tells where it belongs: to the epoch of that key;
- an epoch takes capsules from the first opening of its rounds until the last ``accept_until`` among them;
- a package, once opened, is for one round, and that round takes it from ``opens_at`` until ``accept_until``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secvm.coordinator.counting.epoch_count import RoundToCount
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.history import PlainHistory, PlainRound
from secvm.coordinator.store.port import CoordinatorStore, StoredKey
from secvm.crypto.sealing.kem import RandomBytes, X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, OpenedRequest, encode_key_configurations
from secvm.errors import (
    LocalProtocolError,
    MalformedMessageError,
    OpeningError,
    RefusedPackageError,
    UnknownKeyError,
)
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.relays.manifest import Instants


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that is announced and not concluded."""

    document: ExperimentDocument
    number: int
    epoch: int
    #: When it opens and until when it takes packages, in instants (docs/protocol.md §10).
    times: RoundManifest | Instants


@dataclass(frozen=True)
class CurrentRounds:
    """All rounds that are announced and not concluded, and all keys that are not scrubbed."""

    rounds: tuple[OpenRound, ...] = ()
    keys: tuple[StoredKey, ...] = ()
    #: What else opens fetches, and nothing but fetches.
    fetch_keys: tuple[StoredKey, ...] = ()

    def keys_of(self, epoch: int) -> GatewayKeys:
        """What opens the capsules of one epoch. Raises ``LocalProtocolError`` where its key is gone."""
        keys = self._opening.get(epoch)
        if keys is None:
            raise LocalProtocolError("the key of this epoch is not here")
        return keys

    @functools.cached_property
    def _opening(self) -> Mapping[int, GatewayKeys]:
        return {key.epoch: GatewayKeys([gateway_key(key)]) for key in self.keys}

    @functools.cached_property
    def _by_id(self) -> Mapping[int, StoredKey]:
        """The keys by their ids. An id comes again after 256 epochs, and a round may be announced so early: until the
        older epoch is over, which takes its key from here, the id is that one's.
        """
        return {key.key_id: key for key in sorted(self.keys, key=lambda key: -key.epoch)}

    @functools.cached_property
    def _opening_fetches(self) -> Mapping[int, tuple[GatewayKeys, ...]]:
        """All keys of an id, fetch keys first: a manifest that names one may be older than 256 epochs."""
        grouped: dict[int, tuple[GatewayKeys, ...]] = {}
        for key in (*self.fetch_keys, *self.keys):
            grouped[key.key_id] = (*grouped.get(key.key_id, ()), GatewayKeys([gateway_key(key)]))
        return grouped

    def open_fetch(self, capsule: bytes) -> OpenedRequest:
        """Open a capsule with a fetch. Raises ``UnknownKeyError`` and what ``GatewayKeys.open`` raises."""
        if not capsule:
            raise MalformedMessageError("too short for a capsule")
        candidates = self._opening_fetches.get(capsule[0])
        if candidates is None:
            raise UnknownKeyError
        *others, last = candidates
        for keys in others:
            with contextlib.suppress(OpeningError):
                return keys.open(capsule)
        return last.open(capsule)

    @functools.cached_property
    def _takes(self) -> Mapping[int, tuple[int, int]]:
        """For each epoch with rounds: from when, and until before when, it takes capsules."""
        spans: dict[int, tuple[int, int]] = {}
        for known in self.rounds:
            times = known.times
            opens_at, until = spans.get(known.epoch, (times.opens_at, times.accept_until))
            spans[known.epoch] = min(opens_at, times.opens_at), max(until, times.accept_until)
        return spans

    def epoch_of(self, key_id: int) -> int:
        """The epoch whose key has this id. Raises ``UnknownKeyError``."""
        key = self._by_id.get(key_id)
        if key is None:
            raise UnknownKeyError
        return key.epoch

    def check_epoch(self, epoch: int, now: int) -> None:
        """Whether the epoch takes capsules now. Raises ``RefusedPackageError``."""
        takes = self._takes.get(epoch)
        if takes is None or now >= takes[1]:
            raise RefusedPackageError("an epoch that takes no more capsules", problem="stale")
        if now < takes[0]:
            raise RefusedPackageError("an epoch whose windows are not open yet", problem="wrong-round")

    def epoch_opened_at(self, opens_at: int) -> int:
        """The epoch whose windows open at this instant. Raises ``RefusedPackageError``."""
        epoch = next((epoch for epoch, (begins, _) in self._takes.items() if begins == opens_at), None)
        if epoch is None:
            raise RefusedPackageError("an epoch that has no rounds here, or no more", problem="stale")
        return epoch


def gateway_key(key: StoredKey) -> GatewayKey:
    """A stored key, ready to open with. Stored are keys of the suite that everybody must have (§18.1)."""
    return GatewayKey(key.key_id, X25519PrivateKey(key.private))


def published(key: StoredKey) -> bytes:
    """What everybody is told of a stored key: one key configuration (§18.4)."""
    return encode_key_configurations([gateway_key(key).configuration])


def is_over(histories: Sequence[PlainHistory], epoch: int, *, grid: Grid, now: int) -> bool:
    """Whether an epoch is needed no more: its rounds are concluded, or it had none and has passed."""
    rounds = [known for history in histories for known in history.rounds if known.stored.epoch == epoch]
    return not any(known.is_live for known in rounds) if rounds else now >= grid.end(epoch)


def running_rounds(
    histories: Sequence[PlainHistory],
    keys: Sequence[StoredKey],
    fetch_keys: Sequence[StoredKey],
    *,
    grid: Grid,
    now: int,
) -> CurrentRounds:
    """All rounds that run, and all keys that are still needed."""
    return CurrentRounds(
        rounds=tuple(
            OpenRound(history.document, live.stored.number, live.stored.epoch, live.times)
            for history in histories
            if (live := history.live) is not None
        ),
        keys=tuple(key for key in keys if not is_over(histories, key.epoch, grid=grid, now=now)),
        fetch_keys=tuple(fetch_keys),
    )


def keys_of_now(present: CurrentRounds, *, grid: Grid, now: int) -> bytes | None:
    """The fetch key as it is published: all through a slot that of the next slot, for everybody the same. None where it
    is not made yet.
    """
    wanted = fetch_epoch(grid, now)
    return next((published(key) for key in present.fetch_keys if key.epoch == wanted), None)


def fetch_epoch(grid: Grid, now: int) -> int:
    """The epoch whose fetch key is handed out now."""
    return max(0, grid.slot_of(now) + 1)


def make_fetch_key(store: CoordinatorStore, grid: Grid, now: int, dice: RandomBytes) -> StoredKey:
    """The fetch key that is handed out now, durably: the one that is there, or a new one."""
    epoch = fetch_epoch(grid, now)
    return store.add_fetch_key(StoredKey(epoch, epoch % 256, X25519PrivateKey.generate(dice).secret_bytes()))


def rounds_of_epoch(histories: Sequence[PlainHistory], epoch: int) -> list[tuple[PlainHistory, PlainRound]]:
    """All rounds of an epoch, in the order of the books. Those that a crashed driver concluded already are among them:
    their packages are no strangers' there.
    """
    return [(history, known) for history in histories for known in history.rounds if known.stored.epoch == epoch]


def rounds_to_count(ended: Sequence[tuple[PlainHistory, PlainRound]]) -> list[RoundToCount]:
    """The rounds as the count takes them."""
    return [
        RoundToCount(history.document.experiment_id, history.document.experiment, known.stored.number)
        for history, known in ended
    ]
