"""Which rounds run now and which gateway keys open capsules: ``Present``, one immutable value.

``present_of`` derives it from the experiments' history, the stored keys and the clock. The driver hands a new one to
the gateway and to ingest at each transition (``update``); a node that does not drive derives its own by the same
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
from secvm.coordinator.experiments.history import Book, LiveRound
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
from secvm.protocol.codec import ExperimentId
from secvm.protocol.documents.experiment import ExperimentDocument


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that is announced and not concluded. Its times are instants (docs/protocol.md §10)."""

    document: ExperimentDocument
    number: int
    epoch: int
    opens_at: int
    closes_at: int
    accept_until: int


@dataclass(frozen=True)
class Present:
    """All rounds that are announced and not concluded, and all keys that are not scrubbed."""

    rounds: tuple[OpenRound, ...] = ()
    keys: tuple[StoredKey, ...] = ()
    #: What else opens fetches, and nothing but fetches.
    fetch_keys: tuple[StoredKey, ...] = ()

    def keys_of(self, epoch: int) -> GatewayKeys:
        """What opens the capsules of one epoch. Raises ``LocalProtocolError`` where its key is gone."""
        found = self._opening.get(epoch)
        if found is None:
            raise LocalProtocolError("the key of this epoch is not here")
        return found

    @functools.cached_property
    def _opening(self) -> Mapping[int, GatewayKeys]:
        return {key.epoch: GatewayKeys([gateway_key(key)]) for key in self.keys}

    @functools.cached_property
    def by_experiment(self) -> Mapping[ExperimentId, tuple[OpenRound, ...]]:
        """Rounds by the id that packages carry, in the order of their numbers."""
        found: dict[ExperimentId, list[OpenRound]] = {}
        for one in sorted(self.rounds, key=lambda one: one.number):
            found.setdefault(one.document.experiment_id, []).append(one)
        return {experiment_id: tuple(rounds) for experiment_id, rounds in found.items()}

    @functools.cached_property
    def _by_id(self) -> Mapping[int, StoredKey]:
        """The keys by their ids. An id comes again after 256 epochs, and a round may be announced so early: until the
        older epoch is over, which takes its key from here, the id is that one's.
        """
        return {key.key_id: key for key in sorted(self.keys, key=lambda key: -key.epoch)}

    @functools.cached_property
    def _opening_fetches(self) -> Mapping[int, tuple[GatewayKeys, ...]]:
        """All keys of an id, fetch keys first: a manifest that names one may be older than 256 epochs."""
        found: dict[int, tuple[GatewayKeys, ...]] = {}
        for key in (*self.fetch_keys, *self.keys):
            found[key.key_id] = (*found.get(key.key_id, ()), GatewayKeys([gateway_key(key)]))
        return found

    def open_fetch(self, capsule: bytes) -> OpenedRequest:
        """Open a capsule with a fetch. Raises ``UnknownKeyError`` and what ``GatewayKeys.open`` raises."""
        if not capsule:
            raise MalformedMessageError("too short for a capsule")
        found = self._opening_fetches.get(capsule[0])
        if found is None:
            raise UnknownKeyError
        *others, last = found
        for keys in others:
            with contextlib.suppress(OpeningError):
                return keys.open(capsule)
        return last.open(capsule)

    @functools.cached_property
    def _takes(self) -> Mapping[int, tuple[int, int]]:
        """For each epoch with rounds: from when, and until before when, it takes capsules."""
        found: dict[int, tuple[int, int]] = {}
        for one in self.rounds:
            opens_at, until = found.get(one.epoch, (one.opens_at, one.accept_until))
            found[one.epoch] = min(opens_at, one.opens_at), max(until, one.accept_until)
        return found

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
        found = next((epoch for epoch, (begins, _) in self._takes.items() if begins == opens_at), None)
        if found is None:
            raise RefusedPackageError("an epoch that has no rounds here, or no more", problem="stale")
        return found


def gateway_key(key: StoredKey) -> GatewayKey:
    """A stored key, ready to open with. Stored are keys of the suite that everybody must have (§18.1)."""
    return GatewayKey(key.key_id, X25519PrivateKey(key.private))


def published(key: StoredKey) -> bytes:
    """What everybody is told of a stored key: one key configuration (§18.4)."""
    return encode_key_configurations([gateway_key(key).configuration])


def is_over(books: Sequence[Book], epoch: int, *, grid: Grid, now: int) -> bool:
    """Whether an epoch is needed no more: its rounds are concluded, or it had none and has passed."""
    rounds = [one for book in books for one in book.rounds if one.stored.epoch == epoch]
    return not any(one.is_live for one in rounds) if rounds else now >= grid.end(epoch)


def present_of(
    books: Sequence[Book], keys: Sequence[StoredKey], fetch_keys: Sequence[StoredKey], *, grid: Grid, now: int
) -> Present:
    """All rounds that run, and all keys that are still needed."""
    return Present(
        rounds=tuple(_open_round(book, book.live) for book in books if book.live is not None),
        keys=tuple(key for key in keys if not is_over(books, key.epoch, grid=grid, now=now)),
        fetch_keys=tuple(fetch_keys),
    )


def keys_of_now(present: Present, *, grid: Grid, now: int) -> bytes | None:
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


def rounds_of_epoch(books: Sequence[Book], epoch: int) -> list[tuple[Book, LiveRound]]:
    """All rounds of an epoch, in the order of the books. Those that a crashed driver concluded already are among them:
    their packages are no strangers' there.
    """
    return [(book, one) for book in books for one in book.rounds if one.stored.epoch == epoch]


def rounds_to_count(ended: Sequence[tuple[Book, LiveRound]]) -> list[RoundToCount]:
    """The same as the count takes them."""
    return [
        RoundToCount(book.document.experiment_id, book.document.experiment, one.stored.number) for book, one in ended
    ]


def _open_round(book: Book, one: LiveRound) -> OpenRound:
    return OpenRound(
        document=book.document,
        number=one.stored.number,
        epoch=one.stored.epoch,
        opens_at=one.manifest.opens_at,
        closes_at=one.manifest.closes_at,
        accept_until=one.manifest.accept_until,
    )
