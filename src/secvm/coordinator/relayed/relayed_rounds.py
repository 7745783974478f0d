"""Rounds with two relays: what is due for one experiment now is done, and done once (docs/protocol.md §27, §31).

 1. Its window opens and closes with the clock.
 2. After it both relays are asked for counts and reveals, until all are here. A batch that is whole is counted. When
    everything is here the round is opened, or something of it is false and it is unopened; at open_by it is unopened
    whatever is missing. Opening and outcome are one transaction, so there is one opening of a round, ever.
 3. Without a round that runs, both relays are asked for their commitments. As long as one does not answer the round
    waits, and the operator is told. Then the count seed is made, durably and once; the manifest that names it is
    signed, stored and shown, and the store takes one only.

Whoever is killed anywhere in here begins again, and comes to the same bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from secvm.coordinator.alarms import Alarms
from secvm.coordinator.epochs import Grid
from secvm.coordinator.intake.running import make_fetch_key, published
from secvm.coordinator.log.beacon_records import has_salt
from secvm.coordinator.relayed.batch_routes import fault_mark
from secvm.coordinator.relayed.conclusion import Outcome, opened, unopened
from secvm.coordinator.relayed.relay_statements import RelayClient, RelayStatements, ask_commitments
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.relayed_history import (
    MISSING_BATCH,
    RESTARTED,
    STAYED,
    TOO_LATE,
    RelayedHistory,
    RelayedRound,
    figures_name,
    opening_name,
)
from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredRound, find_blob
from secvm.coordinator.store.rules import agreed_name
from secvm.crypto.sealing.kem import RandomBytes, X25519PrivateKey, throw
from secvm.crypto.sealing.layers import BulkSealer
from secvm.crypto.signing import SigningKey
from secvm.errors import BadExperimentError, LocalProtocolError, ProtocolError
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.recomputation import Model, Stayed
from secvm.protocol.relays.commitments import SEED_BYTES
from secvm.protocol.relays.manifest import Instants, RelayedManifest, manifest_faults
from secvm.protocol.relays.opening import clients_of
from secvm.protocol.round_state import RoundState, advance, due


class Remaining(enum.Enum):
    """What is left to do for an experiment."""

    #: Nothing before its next instant, or before somebody tells.
    NOTHING = "nothing"
    #: The next thing, at once.
    MORE = "more"
    #: The same again after a pause: relays were asked in vain, or the clock is in doubt.
    SOON = "soon"


@dataclass(eq=False, repr=False, kw_only=True)
class RoundAttendant:
    """Attends to experiments, each when it is asked to.

    ``now``: the time, or None while it is in doubt. ``may_grow``: whether the log takes another entry of an
    experiment.
    """

    store: CoordinatorStore
    now: Callable[[], int | None]
    key: SigningKey
    grid: Grid
    dice: RandomBytes
    relays: RelayClient
    may_grow: Callable[[RelayedHistory], bool]
    counting: RunCounting
    sealer: BulkSealer
    events: RelayedEvents
    alarms: Alarms = field(default_factory=Alarms)

    async def attend(self, history: RelayedHistory) -> Remaining:
        """Do the next thing that is due, and say what is left."""
        now = self.now()
        if now is None:
            return Remaining.SOON
        known = history.live
        if known is None:
            return await self._go_on(history, now)
        state = self._turn_clock(known, now)
        if state is not RoundState.CLOSING or now < known.manifest.instants.accept_until:
            return Remaining.NOTHING
        return await self._end(history, known, now)

    def _turn_clock(self, known: RelayedRound, now: int) -> RoundState:
        state, times = known.stored.state, known.manifest.instants
        while event := due(state, now=now, opens_at=times.opens_at, closes_at=times.closes_at):
            state = advance(state, event)
            self.store.set_state(*known.place, state)
            self.events.event("round-" + state.value, known)
        return state

    # ── the end of a round ───────────────────────────────────────────────────────────────────────────────────────────

    async def _end(self, history: RelayedHistory, known: RelayedRound, now: int) -> Remaining:
        """Open the round if all is here, end it if its time is up; else ask for what is missing."""
        statements, times = RelayStatements(self.store, history.document, known), known.manifest.instants
        if statements.missing and now >= times.batch_by:
            await self._ask(history, known, statements)
        batch = self.store.batch(*known.place)
        if now < times.open_by and batch is not None and batch.whole:
            await self.counting.whole(history, known)
            if not statements.missing:
                shards = await asyncio.to_thread(lambda: list(self.counting.shards(history, known)))
                outcome = await asyncio.to_thread(
                    opened, history, known, statements.all(), shards, self.store, self.sealer
                )
                now = self.now() or times.open_by
                if now >= times.open_by:
                    # What is opened is in the log by then, and this one would not be.
                    outcome = unopened(history, known, statements.all(), [TOO_LATE])
                await self._conclude(history, known, outcome)
                return Remaining.MORE
        if now >= times.open_by:
            whole = batch is not None and batch.whole
            reasons = [] if whole else [self._why_no_batch(known)]
            if self.alarms.began_after(times.opens_at):
                reasons.append(RESTARTED)
            await self._conclude(history, known, unopened(history, known, statements.all(), reasons))
            return Remaining.MORE
        return Remaining.SOON if now >= times.batch_by else Remaining.NOTHING

    async def _ask(self, history: RelayedHistory, known: RelayedRound, statements: RelayStatements) -> None:
        """What relays show. Both are asked: each shows what the other has told it."""
        asked = (history.document.mix_relay, history.document.entry_relay)
        shown = await asyncio.gather(*(self.relays.shown(relay, known.manifest.label) for relay in asked))
        for shown_by_relay in shown:
            await asyncio.to_thread(statements.offer_all, shown_by_relay)

    def _why_no_batch(self, known: RelayedRound) -> str:
        mark = find_blob(self.store, agreed_name(fault_mark(known.manifest.label)))
        return MISSING_BATCH if mark is None else mark.decode()

    async def _conclude(self, history: RelayedHistory, known: RelayedRound, outcome: Outcome) -> None:
        model, outcome = await asyncio.to_thread(self._step, history, known, outcome)
        digest, number = known.place
        blobs = {
            opening_name(digest, number): outcome.opening.signed([self.key]),
            figures_name(digest, number): outcome.figures.to_bytes(),
        }
        next_state = known.manifest.state
        if model is not None:
            next_state = model.names[0]
            blobs |= model.by_name
        if outcome.net is not None and outcome.opening.tally is not None:
            blobs[outcome.opening.tally] = encode_tally(outcome.net, history.document.experiment)
        self.store.conclude(digest, number, tally=outcome.opening.tally, next_state=next_state, blobs=blobs)
        if outcome.net is None:
            # Nobody will ask for its capsules, and nobody shall read them.
            await asyncio.to_thread(self.store.forget_batch, digest, number)
        self.events.concluded(known, outcome)
        self.alarms.ended(digest, number, outcome.figures.end)

    def _step(self, history: RelayedHistory, known: RelayedRound, outcome: Outcome) -> tuple[Model | None, Outcome]:
        """The model that follows, if another one does."""
        if outcome.net is None:
            return None, outcome
        after = history.after(known, outcome.net, clients=clients_of(outcome.opening))
        if after.stayed is None:
            return after.model, outcome.with_figures(stepped=True)
        if after.stayed is Stayed.RANGE:
            # No later round could step either: this experiment ends, and no other.
            with contextlib.suppress(LocalProtocolError):
                self.store.set_standing(history.stored.digest, Standing.STOPPED)
        return None, outcome.with_figures(reasons=(STAYED[after.stayed],))

    # ── the next round ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _go_on(self, history: RelayedHistory, now: int) -> Remaining:
        if history.stored.standing is not Standing.RUNNING or not has_salt(self.store, history.document):
            return Remaining.NOTHING
        if not self.may_grow(history):
            return Remaining.NOTHING
        number = len(history.rounds) + 1
        if number > history.document.rounds or history.watch(len(history.rounds)):
            with contextlib.suppress(LocalProtocolError):
                self.store.set_standing(history.stored.digest, Standing.FINISHED)
            return Remaining.NOTHING
        answers = await ask_commitments(self.relays, history.document, number)
        reasons = [answer for answer in answers.values() if isinstance(answer, str)]
        for reason in reasons:
            self.events.waiting(history, number, reason)
        commitments = {role: answer for role, answer in answers.items() if isinstance(answer, bytes)}
        if reasons:
            return Remaining.SOON
        try:
            self._announce(history, number, commitments, self.now() or now)
        except (BadExperimentError, ProtocolError):
            # Hours and grid no longer meet, say, or its operator has paused it meanwhile. Others go on.
            with contextlib.suppress(LocalProtocolError):
                self.store.set_standing(history.stored.digest, Standing.PAUSED)
            self.events.waiting(history, number, "announcing-failed")
        return Remaining.MORE

    def _announce(self, history: RelayedHistory, number: int, commitments: dict[str, bytes], now: int) -> None:
        before = history.rounds[-1] if history.rounds else None
        after = 0 if before is None else before.manifest.instants.mix_by
        opens_at = self.grid.next_opening(history.document.windows, now=now, after=after)
        # Durable before anything is signed; whoever was killed here before finds the same one.
        seed = self.store.begin_batch(history.stored.digest, number, throw(self.dice, SEED_BYTES))
        model = history.model(before)
        state, training, evaluation = model.names
        manifest = RelayedManifest(
            experiment=history.stored.digest,
            round_number=number,
            previous=None if before is None else before.manifest.digest,
            opening=None if before is None or before.opening is None else before.opening.digest,
            instants=Instants.planned(history.document, opens_at),
            state=state,
            training_weights=training,
            evaluation_weights=evaluation,
            count_key=X25519PrivateKey.derive(seed).public_key.to_bytes(),
            count_seed_hash=hashlib.sha256(seed).digest(),
            fetch_keys=published(make_fetch_key(self.store, self.grid, now, self.dice)),
            mix=commitments["mix"],
            entry=commitments["entry"],
        )
        faults = manifest_faults(manifest, history.document, None if before is None else before.manifest)
        if faults:
            raise LocalProtocolError(f"nobody would accept this manifest: {faults[0].value}")
        stored = StoredRound(
            experiment=history.stored.digest,
            number=number,
            epoch=self.grid.slot_of(opens_at),
            state=RoundState.ANNOUNCED,
            envelope=manifest.signed([self.key]),
        )
        self.store.announce(stored, model.by_name)
        self.events.event("round-announced", RelayedRound(stored, manifest))
