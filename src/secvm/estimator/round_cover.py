"""Two relays' cover of a round, offline: where it comes from, and its counts (docs/protocol.md §29, §31).

What a relay adds follows from the seeds of its parts, the round's label and the root of the batch that came to it. Of a
round that was opened, label, roots and the number of the opened part are public, so that somebody who knows the seeds
of both relays (they were started with ``[testing] seed``) counts the same cover again:

    CoverOrigin.of_opening(("north", "south"), round_number=3, parts=9, label=..., roots=(..., ...), opened=5)

A simulation has no batches. Its labels and roots are stand-ins from dice of its own, and all else is the same code:

    CoverOrigin.from_dice(b"any seed", round_number=3, parts=9)

What stays of a net tally's cover is S - 1 parts of each relay. Whole parts are counted, none of their packages made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.crypto.sealing.part_streams import ROOT_BYTES, PartStream, part_key, part_seed, seeded_round_secret
from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import Kernels
from secvm.learning.aggregate.tally import Tally
from secvm.learning.drawn_part import cover_of, draw_part, tally_of
from secvm.learning.experiment import Experiment

Role = Literal["entry", "mix"]
ROLES: Final[tuple[Role, Role]] = ("entry", "mix")
_PERSON = b"secvm-offline\0\0\0"
Counts = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True, repr=False)
class CoverOrigin:
    """All that decides the cover of one round. Secret where relays' seeds are: it does not print itself."""

    label: bytes
    #: Of the batch that came to the entry relay, and of the one that came to the mixing relay.
    roots: tuple[bytes, bytes]
    #: i: this part of each relay is opened, and off.
    opened: int
    #: Seeds of all parts, by relay.
    seeds: tuple[tuple[bytes, ...], tuple[bytes, ...]]

    def __post_init__(self) -> None:
        parts = len(self.seeds[0])
        if any(len(data) != ROOT_BYTES for data in (self.label, *self.roots)):
            raise BadInputError(f"a round's label and its batches' roots have {ROOT_BYTES} bytes each")
        if len(self.seeds[1]) != parts or not 0 <= self.opened < parts:
            raise BadInputError(f"part {self.opened} of {parts} was opened: parts are numbered 0 … {parts - 1}")

    @classmethod
    def of_opening(
        cls,
        relay_seeds: tuple[str, str],
        round_number: int,
        parts: int,
        *,
        label: bytes,
        roots: tuple[bytes, bytes],
        opened: int,
    ) -> CoverOrigin:
        """Of a round that took place, between relays that were started with these seeds (entry, mix)."""
        secrets = (seeded_round_secret(seed, role, round_number) for seed, role in zip(relay_seeds, ROLES, strict=True))
        entry, mix = (tuple(part_seed(secret, part) for part in range(parts)) for secret in secrets)
        return cls(label, roots, opened, (entry, mix))

    @classmethod
    def from_dice(cls, seed: bytes, round_number: int, parts: int) -> CoverOrigin:
        """Of a round that is simulated: label, roots and i are stand-ins."""

        def thrown(name: bytes) -> bytes:
            key = hashlib.sha256(seed).digest()
            data = name + b"\n" + round_number.to_bytes(4, "little")
            return hashlib.blake2b(data, digest_size=ROOT_BYTES, key=key, person=_PERSON).digest()

        return cls.of_opening(
            (seed.hex(), seed.hex()),
            round_number,
            parts,
            label=thrown(b"label"),
            roots=(thrown(b"entry"), thrown(b"mix")),
            opened=int.from_bytes(thrown(b"part"), "big") % parts,
        )

    def __repr__(self) -> str:
        return "CoverOrigin(...)"


#: The number of a round → where its cover comes from.
CoverOrigins = Callable[[int], CoverOrigin]


def simulated_origins(experiment: Experiment, seed: bytes) -> CoverOrigins:
    """Every round's cover from one seed."""
    parts = cover_of(experiment).parts
    return lambda round_number: CoverOrigin.from_dice(seed, round_number, parts)


def part_counts(
    experiment: Experiment, origin: CoverOrigin, relay: int, part: int, kernel: Kernels | None = None
) -> Counts:
    """Packages per cell of each kind that one part of one relay (0: entry, 1: mix) adds."""
    cover = cover_of(experiment)
    seed, root = origin.seeds[relay][part], origin.roots[relay]

    def stream(attempt: int, name: Literal["train", "participation", "test"]) -> Callable[[int], bytes]:
        return PartStream(part_key(seed, label=origin.label, root=root, attempt=attempt), name).take

    return draw_part(cover, stream, kernel).counts(cover)


def net_cover(experiment: Experiment, origin: CoverOrigin, kernel: Kernels | None = None) -> Tally:
    """What both relays' cover adds to a net tally: all parts but the opened one."""
    parts = cover_of(experiment).parts
    if len(origin.seeds[0]) != parts:
        raise BadInputError(f"cover from {len(origin.seeds[0])} parts for an experiment of {parts}")
    drawn = [
        part_counts(experiment, origin, relay, part, kernel)
        for relay in range(len(ROLES))
        for part in range(parts)
        if part != origin.opened
    ]
    return tally_of(experiment, tuple(np.sum(kind, axis=0) for kind in zip(*drawn, strict=True)))
