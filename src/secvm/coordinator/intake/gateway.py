"""The gateway: capsules are opened here, and nowhere else.

**Packages** (``open_block``) in blocks: the capsules are durable already, nobody waits for an answer, and each becomes
a record or is dropped under the name of its problem. Of a package only the form is looked at; whether it fits its round
is asked when the round is counted.

**Fetches** (``Gateway``) one at a time: opened with fetch keys, which open no packages, or with gateway keys, and
answered from the public files under their own seal. A package is refused there, and a fetch here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.store.records import DIGEST_BYTES, right_form
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.sealing.oblivious import GatewayKeys
from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.protocol import codec
from secvm.protocol.codec import PACKAGE_BYTES
from secvm.protocol.plain.sealed_requests import (
    REQUEST_BYTES,
    REQUEST_PREFIX,
    REQUEST_SUFFIX,
    FetchRequest,
    fetch_answer,
    package_in,
    read_request,
)
from secvm.protocol.problems import PROBLEMS

#: Content and media type of a public file, by its path (docs/protocol.md §19.2); None where there is none.
Public = Callable[[str], tuple[bytes, str] | None]


@dataclass(frozen=True, slots=True)
class OpenedBlock:
    """The outcome of opening many capsules."""

    #: A record for each that holds a package (``coordinator.store.records``).
    block: bytes = field(repr=False)
    #: How many of the others had which problem, by its name.
    refused: Counter[str]


#: Where the package stands in a request of ours, and what stands around it, where.
_AT = len(REQUEST_PREFIX)
_FRAME = np.frombuffer(REQUEST_PREFIX + REQUEST_SUFFIX, dtype=np.uint8)
_AROUND = np.r_[0:_AT, _AT + PACKAGE_BYTES : REQUEST_BYTES]


def open_block(keys: GatewayKeys, capsules: Sequence[bytes]) -> OpenedBlock:
    """Open many capsules; each is judged alone, by its form.

    Where all hold requests as our own devices write them, and nothing is wrong, they are compared and sliced all at
    once; else one by one, by the readable code. Both come to the same block.
    """
    opened = keys.open_unanswered(capsules)
    ours = [i for i, request in enumerate(opened) if isinstance(request, bytes) and len(request) == REQUEST_BYTES]
    requests = np.frombuffer(b"".join([opened[i] for i in ours]), dtype=np.uint8)  # type: ignore[misc]  # all bytes
    requests = requests.reshape(-1, REQUEST_BYTES)
    packages = requests[:, _AT : _AT + PACKAGE_BYTES]
    good = (requests[:, _AROUND] == _FRAME).all(axis=1) & right_form(packages)
    if len(ours) < len(capsules) or not good.all():
        return _judge(capsules, opened)
    digests = b"".join([hashlib.sha256(capsule).digest() for capsule in capsules])
    records = np.concatenate([np.frombuffer(digests, dtype=np.uint8).reshape(-1, DIGEST_BYTES), packages], axis=1)
    return OpenedBlock(records.tobytes(), Counter())


def _judge(capsules: Sequence[bytes], opened: Sequence[bytes | RemoteProtocolError]) -> OpenedBlock:
    """Judge opened capsules one after the other."""
    parts: list[bytes] = []
    refused: Counter[str] = Counter()
    for capsule, request in zip(capsules, opened, strict=True):
        if isinstance(request, RemoteProtocolError):
            refused[request.problem] += 1
            continue
        try:
            package = package_in(request)
            codec.decode(package)
        except RemoteProtocolError as error:
            refused[error.problem] += 1
        else:
            parts += (hashlib.sha256(capsule).digest(), package)
    return OpenedBlock(b"".join(parts), refused)


@dataclass(eq=False, repr=False, kw_only=True)
class Gateway:
    """Opens single capsules with fetches, and answers them.

    ``date``: the time of now, as HTTP writes dates (``runtime.http.messages.http_date``).
    """

    dice: RandomBytes
    public: Public
    date: Callable[[], str]

    def __post_init__(self) -> None:
        self._present = CurrentRounds()

    def update(self, present: CurrentRounds) -> None:
        """Open fetches with the keys of these rounds from now on."""
        self._present = present

    def fetch(self, capsule: bytes) -> bytes:
        """The sealed answer to a sealed fetch, at any time while its key is here. Raises ``RemoteProtocolError`` where
        the capsule does not open.
        """
        opened = self._present.open_fetch(capsule)
        return opened.seal_response(self._fetched(opened.request), self.dice)

    def _fetched(self, request: bytes) -> bytes:
        date = self.date()
        try:
            wanted = read_request(request)
            if not isinstance(wanted, FetchRequest):
                raise MalformedMessageError("a package where only fetches are taken")
        except RemoteProtocolError:
            problem = PROBLEMS["garbage"]
            return fetch_answer(problem.status, problem.to_bytes(), date)
        content = self.public(wanted.path)
        return fetch_answer(404, b"", date) if content is None else fetch_answer(200, content[0], date)
