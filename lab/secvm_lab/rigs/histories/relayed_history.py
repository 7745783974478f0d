"""The public files of an experiment with two relays, round after round, from the requests that devices sent.

Relays are honest unless told what to leave out; cover is made up, and nobody opens it. The net tally of a round is
what the caller says. Everything that is signed is signed by keys that everybody knows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from secvm.crypto.tokens import TokenKey, issue
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.participant.sending.transport import SendReply
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.relays.submission import receipt_for
from secvm_lab.rigs.histories.audited_history import KnownHistory
from secvm_lab.rigs.histories.relayed_rounds import ENTRY
from secvm_lab.rigs.histories.sealed_round import SealedRound, outers_in

#: From the end of a round to the next opening: several times what a device waits between two askings.
LEAD_MS = 1_200_000


class RelayedHistory(KnownHistory):
    """A coordinator and two relays, as far as a device can see."""

    def __init__(self, document: ExperimentDocument) -> None:
        super().__init__(document)
        self.rounds: list[SealedRound] = []
        self.requests: dict[bytes, bytes] = {}

    @property
    def running(self) -> SealedRound:
        """The newest round."""
        return self.rounds[-1]

    def announce(self, *, lead_ms: int = LEAD_MS, **lies: Callable[[Any], Any]) -> RelayedManifest:
        """The next round. ``lies``: what a liar makes of it, as a ``SealedRound`` is told."""
        before = self.rounds[-1] if self.rounds else None
        # Time for devices to hear of it.
        opens_at = None if before is None else before.manifest.instants.open_by + lead_ms
        self.rounds.append(SealedRound(**self.following(before), bodies=(), opens_at=opens_at, lies=lies))
        self.show_manifest(self.running.manifest)
        return self.running.manifest

    def give(self, label: bytes, request: bytes) -> SendReply:
        """The entry relay's answer to a request for a token."""
        if label != self.running.label:
            return SendReply()
        return SendReply(issue(self.token_key, request, random.Random(0).randbytes))  # noqa: S311  (of a token key that everybody knows)

    @property
    def token_key(self) -> TokenKey:
        """Of the newest round."""
        return TokenKey.of_round(self.running.secret("entry").token_seed, quick=False)

    def take(self, label: bytes, body: bytes) -> bytes | None:
        """The entry relay's answer to a request."""
        if label != self.running.label:
            return None
        receipt = receipt_for(label, [capsule_digest(one) for one in outers_in(body, self.document)])
        self.requests[receipt.root] = body
        return receipt.signed(ENTRY)

    def conclude(
        self,
        *,
        unopened: bool = False,
        net: Tally | None = None,
        publish_shards: bool = True,
        false_tallies: tuple[bytes, ...] | None = None,
        crowd: Sequence[bytes] = (),
        **left_out: frozenset[bytes],
    ) -> SealedRound:
        """The round that runs is over; ``unopened``: a reveal is missing. ``false_tallies``: signed for its shards.

        ``crowd``: requests of other people. ``left_out``: what a relay leaves out, as a ``SealedRound`` is told.
        """
        bodies, tally = (*self.requests.values(), *crowd), net or aggregate.empty_tally(self.document.experiment)
        lies: dict[str, Any] = dict(self.running.lies)
        if false_tallies is not None:
            lies["sub_tallies"] = lambda _true: list(false_tallies)
        if unopened:
            lies["opening"] = lambda true: replace(true, mix_reveal=None, count_seed=None, tally=None, shards=None)
        changes: dict[str, Any] = {"bodies": bodies, "clients": len(bodies), "drawn": tally, "lies": lies, **left_out}
        played = self.rounds[-1] = replace(self.running, **changes)
        self.requests = {}
        self.show_opening(played.opening, played)
        if publish_shards and not unopened:
            public = {f"shards/{played.round_number}": played.index, **played.public()}
            self.files |= {f"{self.place}/{path}": data for path, data in public.items()}
        return played

    def end(self) -> RelayedEnding:
        """The experiment is over."""
        return self.show_ending(self.running, "finished")


def terms_of_relays(document: ExperimentDocument, **changes: Any) -> dict[str, RelayedTerms]:
    """Terms of both relays of an experiment that have room for everybody, by URL."""
    roomy: dict[str, Any] = {"quota": 1, "cells": 10**9, "packages": 10**9, "capsules": 10**9, "seconds_per_million": 1}
    return {
        relay.url: RelayedTerms(
            **{"url": relay.url, "operator": relay.operator, "role": relay.role, **roomy, **changes}
        )
        for relay in (document.entry_relay, document.mix_relay)
    }
