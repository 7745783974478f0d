"""RoundPlan: all that a relay needs to know of one round, from its document and its manifest."""

from __future__ import annotations

from dataclasses import dataclass

from secvm.crypto.signing import VerifyKey
from secvm.protocol.relays.cover.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.manifest import Instants


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
