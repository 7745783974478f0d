"""Redeeming anonymous tokens (docs/protocol.md §24): which packages must carry one, and whether it was issued.

A token is looked at when its capsule is opened, under the key of the epoch that the capsule is sealed for. That it is
used once is the count's business (``coordinator.counting``): of two capsules with one token one is counted, whatever
their order, and also after a crash. Who waits for an answer, at the gateway, is told at once where this process has
seen the token before.

The coordinator can verify tokens because it has the issuer's seed, so it can mint them too. They bind outsiders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.present import Present
from secvm.coordinator.records import view_words
from secvm.crypto.tokens import TokenKey, redeem
from secvm.errors import LocalProtocolError, MalformedMessageError, RefusedPackageError
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.tokens import split_content

#: Tokens whose use is remembered for whoever waits for an answer; about 200 bytes of memory each.
REMEMBERED = 1_000_000
_ID_AT = 2


class Redeemer:
    """Looks at tokens. Without a seed no experiment here has some."""

    def __init__(self, seed: bytes | None = None, *, remembered: int = REMEMBERED) -> None:
        self._seed = seed
        self._keys: dict[int, TokenKey] = {}
        self._remembered = remembered
        #: Which capsule, by digest, has used a token, by nonce; the oldest first.
        self._used: dict[bytes, bytes] = {}

    def __repr__(self) -> str:
        return "Redeemer(...)"

    @property
    def can(self) -> bool:
        """Whether there is a seed."""
        return self._seed is not None

    def public_key(self, epoch: int) -> bytes:
        """What the manifests of this epoch say."""
        return self._key(epoch).public

    def check(self, content: bytes, epoch: int, present: Present) -> tuple[bytes, bytes]:
        """The package in what was under a seal, and the nonce of its token; an empty one where it needs none.

        Raises
        ------
        MalformedMessageError
            It has another length than packages of its experiment have.
        RefusedPackageError
            It has no token that was issued for this epoch.
        """
        package, token = split_content(content)
        identity = ExperimentId(package[_ID_AT : _ID_AT + EXPERIMENT_ID_BYTES])
        if not any(one.document.tokens is not None for one in present.by_experiment.get(identity, ())):
            if token is not None:
                raise MalformedMessageError("a token where none is taken", problem="wrong-size")
            return package, b""
        nonce = None if token is None else redeem(self._key(epoch), token)
        if nonce is None:
            raise RefusedPackageError("a package without a token", problem="no-token")
        return package, nonce

    def checker(self, epoch: int, present: Present) -> Callable[[bytes], tuple[bytes, bytes]] | None:
        """``check`` for one epoch of what runs now; None where nothing that runs has tokens. Then a package is told by
        its length alone, and whoever decodes it says so.
        """
        if not any(one.document.tokens is not None for one in present.rounds):
            return None
        return lambda content: self.check(content, epoch, present)

    def use(self, nonce: bytes, digest: bytes) -> None:
        """Remember that this capsule has used the token. Raises ``RefusedPackageError`` where another one has."""
        if self._used.setdefault(nonce, digest) != digest:
            raise RefusedPackageError("a token that was used before", problem="spent-token")
        if len(self._used) > self._remembered:
            del self._used[next(iter(self._used))]

    def _key(self, epoch: int) -> TokenKey:
        if self._seed is None:
            raise LocalProtocolError("an experiment with tokens, and no [tokens] in the settings")
        found = self._keys.get(epoch)
        if found is None:
            # Of several epochs at most: those that run, and the one that is announced.
            self._keys = {number: key for number, key in self._keys.items() if abs(number - epoch) < 8}
            found = self._keys[epoch] = TokenKey.of_epoch(self._seed, epoch)
        return found


class Doubles:
    """Capsules that are not counted, because another one has used their token."""

    def __init__(self, blocks: Iterable[bytes] = ()) -> None:
        """``blocks``: digest of the capsule and nonce of its token, 32 bytes each, side by side.

        Of the capsules with one token the one with the smallest digest counts: nobody knows which came first, and so
        every count comes to the same.
        """
        words = view_words(b"".join(blocks)).astype("<u8").view(">u8")
        # The last key decides first: by nonce, then by digest.
        words = words[np.lexsort(words[:, [3, 2, 1, 0, 7, 6, 5, 4]].T)]
        words = words[_differs(words)]
        later = words[~_differs(words[:, 4:]), :4]
        self._digests = {later[i].tobytes() for i in range(len(later))}
        self._heads = np.unique(later[:, 0].view("<u8")).astype(np.uint64)

    def __len__(self) -> int:
        return len(self._digests)

    def among(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these records (``records.view_words``) are of such capsules."""
        found = np.isin(words[:, 0], self._heads)
        for i in np.flatnonzero(found):
            found[i] = words[i, :4].astype("<u8").tobytes() in self._digests
        return found


def _differs(rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether a row is another than the one before it; the first is."""
    differs = np.ones(len(rows), dtype=np.bool_)
    differs[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return differs
