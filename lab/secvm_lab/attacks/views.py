"""What each attacker can see, as types.

The rule of the lab: a guess is a function of one view, and of what its attacker knows anyhow, and of nothing else. A
*world* (a play of some attack) holds people, labels and senders; it makes views; the guess is made from the view; the
world then compares the guess with the truth. Who reads the signature of a guess knows what the attack needs.
``tests/system/attacks/test_frame.py`` holds every attack to it: no field of a view or of knowledge has a person in it.

Views hold numbers, bytes and arrays. A view made by a world leaves empty what that world's attacker does not see: times
are None where the relay hands a whole round on at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import HashBinning


class View:
    """What one attacker sees of a run."""

    __slots__ = ()


class Knowledge:
    """What an attacker knows from elsewhere: a person's words, the hash that everybody knows, its own capsules."""

    __slots__ = ()


# ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Opened:
    """A package after its capsule was opened."""

    kind: str
    #: Where it counts: a bin for a train package, a cohort or a pair of labels for the other kinds.
    cell: int
    #: Its sign; a real number only where the protocol would let one through.
    value: float
    model: int = 0
    #: When it came, in milliseconds. None where the relay hands a whole round on at once.
    arrived_at: int | None = None
    #: The number that the device gave it. None where packages have none (ours).
    serial: int | None = None
    #: Digest of the capsule that it was in.
    capsule: bytes = b""


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """One round, as its coordinator sees it."""

    #: What it opened, in an order that tells nothing.
    packages: tuple[Opened, ...] = ()
    #: The same, counted: ``[model, bin, sign]``, sign 0 for minus. For attacks that need no single package. Further
    #: axes in front are plays that are looked at together.
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    #: Participation packages of the train cohort by label, likewise.
    participants: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class CoordinatorView(View):
    """The coordinator: it publishes weights, opens packages and counts them. It does not see who sent them."""

    rounds: tuple[RoundSeen, ...]


# ── those who see traffic ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Deposit:
    """A capsule that somebody left at the relay."""

    who: str
    at: int
    size: int
    #: Digest of the sealed bytes. It says nothing of what is inside, but the same bytes have the same.
    capsule: bytes = b""


@dataclass(frozen=True, slots=True)
class RelayView(View):
    """The relay: who, when, how many, how large. Nothing of what is inside."""

    deposits: tuple[Deposit, ...]


@dataclass(frozen=True, slots=True)
class CollusionView(View):
    """Relay and coordinator together: both views, side by side."""

    relay: RelayView
    coordinator: CoordinatorView


# ── everybody else ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PublicView(View):
    """Anybody who reads what is published: tallies, manifests, weights, the last model."""

    #: One array a round, ``[model, bin, sign]``.
    tallies: tuple[NDArray[np.int64], ...] = ()
    weights: tuple[NDArray[np.float64], ...] = ()
    #: Participants of each round, as its manifest tells.
    participants: tuple[int, ...] = ()
    #: How words become bins, as the experiment's document says: a salt and a number of bins.
    salt: bytes = b""
    bins: int = 0

    def bins_of(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The bin of each word, which anybody can compute."""
        keys = HashBinning(self.bins, self.salt).keys
        return kernels().hash_strings(words, keys, self.bins)[:, 0].astype(np.int64)


@dataclass(frozen=True, slots=True)
class ParticipantView(View):
    """One device that takes part, and obeys nobody: what is public, and what it was given."""

    public: PublicView
    #: Packages that it may send in a round.
    budget: int
    #: With two relays' cover: a round with more than this in a cell is not stepped.
    most_in_a_cell: int | None = None


# ── what an attacker may know besides ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Nothing(Knowledge):
    """No knowledge at all."""


NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class KnownCrowd(Knowledge):
    """How many devices take part, which manifests tell everybody."""

    devices: int


@dataclass(frozen=True, slots=True)
class KnownDictionary(Knowledge):
    """The words that people use, and the one that the attacker is after."""

    words: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True)
class KnownTimes(Knowledge):
    """Times that concern the target, such as when it fetched the weights, in milliseconds."""

    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownWindow(Knowledge):
    """The window of a round, which its manifest tells, and how late packages come at most; in milliseconds."""

    opens_at: int
    closes_at: int
    late: int


@dataclass(frozen=True, slots=True)
class KnownCopies(Knowledge):
    """How often the attacker sent somebody's capsule again."""

    copies: int
