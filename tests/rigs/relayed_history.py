"""The public files of an experiment with two relays, round after round, from the requests that devices sent.

Relays are honest unless told what to leave out; cover is made up, and nobody opens it. The net tally of a round is
what the caller says. Everything that is signed is signed by keys that everybody knows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from secvm.crypto.sealing.layers import INNER_BYTES, open_inner, open_outer
from secvm.crypto.tokens import TokenKey, issue
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Package
from secvm.participant.sending.transport import SendReply
from secvm.protocol.codec import decode
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.recomputation import Model, ModelNames, first_model, next_model
from secvm.protocol.log.entries import Entry, experiment_entry
from secvm.protocol.relays.batches import RUN, capsule_digest
from secvm.protocol.relays.counting import BulkReader, CapsuleReader, sub_tally_of
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import ShardTree
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.relays.submission import read_request, receipt_for, token_bytes
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY
from secvm_lab.rigs.histories.sealed_round import SealedRound
from secvm_lab.rigs.histories.witnessed_log import KnownLog

#: From the end of a round to the next opening: several times what a device waits between two askings.
LEAD_MS = 1_200_000


@dataclass(frozen=True, kw_only=True)
class PlayedRound(SealedRound):
    """A round of the model of these names, with the requests that came."""

    names: ModelNames
    bodies: tuple[bytes, ...] = ()
    net: Tally | None = None

    @cached_property
    def manifest(self) -> RelayedManifest:
        state, training, evaluation = self.names
        made: RelayedManifest = super().manifest
        # Time for devices to hear of it.
        instants = Instants.planned(self.document, made.instants.opens_at + (0 if self.before is None else LEAD_MS))
        return replace(made, instants=instants, state=state, training_weights=training, evaluation_weights=evaluation)

    #: Signed in place of what shards count; the true ones by default.
    false_tallies: tuple[bytes, ...] | None = None

    @cached_property
    def _opened(self) -> dict[bytes, bytes]:
        """Every device's inner capsule, by the digest of the outer one."""
        key = self.secret("mix").mix_key
        outers = [outer for body in self.bodies for outer in outers_in(body, self.document)]
        return {capsule_digest(outer): open_outer(key, self.label, outer) for outer in outers}

    @cached_property
    def inner_of(self) -> dict[bytes, bytes]:
        return {outer: capsule_digest(inner) for outer, inner in self._opened.items()}

    @cached_property
    def packages_of(self) -> dict[bytes, Package]:
        """What every device's capsule says, by inner digest."""
        return {
            capsule_digest(inner): decode(open_inner(self.count_key, self.label, inner)).package
            for inner in self._opened.values()
        }

    @cached_property
    def capsules(self) -> list[bytes]:
        """The inner capsules of every shard, side by side."""
        known = {capsule_digest(inner): inner for inner in self._opened.values()}
        made = (self._capsule("inner", number, INNER_BYTES) for number in range(len(self.mixed)))
        known |= {capsule_digest(capsule): capsule for capsule in made}
        return [b"".join(known[one] for one in self.mixed[at : at + RUN]) for at in range(0, len(self.mixed), RUN)]

    @cached_property
    def sub_tallies(self) -> list[bytes]:
        """What every shard counts, as the coordinator signs it."""
        reader = BulkReader(CapsuleReader.of(self.document, self.manifest, self.count_seed))
        return list(self.false_tallies or [sub_tally_of(reader.cells(capsules)) for capsules in self.capsules])

    @cached_property
    def shards(self) -> ShardTree:
        tree = ShardTree(self.label)
        for shard, sub_tally in enumerate(self.sub_tallies):
            tree.append(self.mixed[shard * RUN : (shard + 1) * RUN], sub_tally)
        return tree

    @cached_property
    def opening(self) -> Opening:
        made: Opening = super().opening
        return made if self.net is None else replace(made, tally=tally_digest(self.net))


@dataclass
class RelayedHistory:
    """A coordinator and two relays, as far as a device can see."""

    document: ExperimentDocument
    #: Public files by path.
    files: dict[str, bytes] = field(default_factory=dict)
    rounds: list[PlayedRound] = field(default_factory=list)
    requests: dict[bytes, bytes] = field(default_factory=dict)
    #: In which others of the coordinator's experiments may stand as well. Not read where the document names no log.
    log: KnownLog = field(default_factory=KnownLog)

    def __post_init__(self) -> None:
        self.model: Model = first_model(self.document)
        self._path = f"/v1/experiment/{self.document.digest}"
        self.files[self._path] = publish(self.document, keys=(COORDINATOR,))
        self.enter(experiment_entry(self.document.digest))

    @property
    def running(self) -> PlayedRound:
        """The newest round."""
        return self.rounds[-1]

    def announce(self) -> RelayedManifest:
        """The next round."""
        before = self.rounds[-1] if self.rounds else None
        told: dict[str, Any] = {"document": self.document, "round_number": len(self.rounds) + 1}
        if before is not None:
            told |= {"before": before.manifest, "opening_before": before.opening}
        self.rounds.append(PlayedRound(names=self.model.names, **told))
        manifest = self.running.manifest
        envelope = manifest.signed([COORDINATOR])
        for name in ("latest", f"{manifest.round_number}"):
            self.files[f"{self._path}/manifest/{name}"] = envelope
        self.enter(manifest.log_entry)
        return manifest

    def enter(self, entry: Entry) -> None:
        """One more line of the log, where there is one."""
        if self.document.log is not None:
            self.log.enter(self.files, entry)

    def give(self, label: bytes, request: bytes) -> SendReply:
        """The entry relay's answer to a request for a token."""
        if label != self.running.label:
            return SendReply()
        return SendReply(issue(self.token_key, request, random.Random(0).randbytes))

    @property
    def token_key(self) -> TokenKey:
        """Of the newest round."""
        return TokenKey.of_round(self.running.secret("entry").token_seed, quick=False)

    def take(self, label: bytes, body: bytes) -> bytes | None:
        """The entry relay's answer to a request."""
        if label != self.running.label:
            return None
        digests = [capsule_digest(one) for one in outers_in(body, self.document)]
        receipt = receipt_for(label, digests)
        self.requests[receipt.root] = body
        return receipt.signed(ENTRY)

    def conclude(
        self,
        *,
        unopened: bool = False,
        entry_leaves_out: frozenset[bytes] = frozenset(),
        mix_leaves_out: frozenset[bytes] = frozenset(),
        net: Tally | None = None,
        publish_shards: bool = True,
        false_tallies: tuple[bytes, ...] | None = None,
    ) -> PlayedRound:
        """The round that runs is over; ``unopened``: a reveal is missing. ``false_tallies``: signed for its shards."""
        number, tally = self.running.round_number, net or aggregate.empty_tally(self.document.experiment)
        played = replace(
            self.running,
            bodies=tuple(self.requests.values()),
            clients=len(self.requests),
            entry_leaves_out=entry_leaves_out,
            mix_leaves_out=mix_leaves_out,
            net=tally,
            false_tallies=false_tallies,
        )
        self.requests = {}
        if unopened:
            missing = replace(played.opening, mix_reveal=None, count_seed=None, tally=None, shards=None)
            object.__setattr__(played, "opening", missing)
        elif played.clients >= self.document.floor and aggregate.explains(
            self.document.relay_cover, tally, played.clients
        ):
            self.model = next_model(self.document, self.model.state, tally)
        self.rounds[-1] = played
        self.files[f"{self._path}/opening/{number}"] = played.opening.signed([COORDINATOR])
        self.enter(played.opening.log_entry)
        self.files[f"/v1/blob/{tally_digest(tally)}"] = encode_tally(tally, self.document.experiment)
        if publish_shards and not unopened:
            self.files |= self.shard_files(played)
        return played

    def shard_files(self, played: PlayedRound) -> Mapping[str, bytes]:
        """What a canary is looked for in, and what is counted again."""
        number = played.round_number
        found = {f"shards/{number}": played.index}
        for shard, (capsules, sub_tally) in enumerate(zip(played.capsules, played.sub_tallies, strict=True)):
            found |= {
                f"shard/{number}/{shard}": played.run(shard).to_bytes(),
                f"capsules/{number}/{shard}": capsules,
                f"tally/{number}/{shard}": ShardTally(played.shards.proof(shard).path, sub_tally).to_bytes(),
            }
        return {f"{self._path}/{path}": data for path, data in found.items()}

    def end(self) -> RelayedEnding:
        """The experiment is over."""
        last = self.running
        state, training, evaluation = self.model.names
        ending = RelayedEnding(
            experiment=self.document.digest,
            round_number=last.round_number,
            manifest=last.manifest.digest,
            opening=last.opening.digest,
            state=state,
            training_weights=training,
            evaluation_weights=evaluation,
            why="finished",
        )
        self.files[f"{self._path}/ending"] = ending.signed([COORDINATOR])
        self.enter(ending.log_entry)
        return ending


def terms_of_relays(document: ExperimentDocument, **changes: Any) -> dict[str, RelayedTerms]:
    """Terms of both relays of an experiment that have room for everybody, by URL."""
    roomy: dict[str, Any] = {"quota": 1, "cells": 10**9, "packages": 10**9, "capsules": 10**9, "seconds_per_million": 1}
    return {
        relay.url: RelayedTerms(
            **{"url": relay.url, "operator": relay.operator, "role": relay.role, **roomy, **changes}
        )
        for relay in (document.entry_relay, document.mix_relay)
    }


def outers_in(body: bytes, document: ExperimentDocument) -> tuple[bytes, ...]:
    """The outer capsules of a request, behind its token where it has one."""
    return read_request(body, budget=document.budget, token=token_bytes(document))
