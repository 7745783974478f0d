"""A role in rounds of two relays, put together from settings: ledger, secrets, rounds, doors, and what runs them.

One program has both roles' code, and one process has one role: the folder, the secrets and the lock are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from secvm.crypto.sealing.kem import RandomBytes, X25519PublicKey
from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, BulkSealer
from secvm.crypto.signing import SigningKey
from secvm.files import or_bad_input
from secvm.learning._kernels.dispatch import kernels
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.terms import RelayRole
from secvm.protocol.relays.batches import PIECE_CAPSULES, cut
from secvm.protocol.relays.cover_parts import derive_part, seal_part
from secvm.protocol.relays.statements import RelayedTerms
from secvm.relay.admission import Identify
from secvm.relay.batches.doors import RoleDoors
from secvm.relay.batches.experiments import CoordinatorFollower, Experiments, OwnRelay, check_worth
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import DrawPart, RoundCustody, RoundPlan, RoundSecrets
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.batches.running_rounds import RoundMeter, RunningRounds
from secvm.relay.database import RelayDatabase
from secvm.relay.entry.intake import IntakeLimits
from secvm.relay.entry.rounds import EntryDoors, EntryRound
from secvm.relay.gateway import GatewayClient
from secvm.relay.mix import MixDoors, MixRound
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.clock import Clock
from secvm.runtime.http.messages import HttpResponse
from secvm.runtime.lanes import find_lanes
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics

#: Of a document in its envelope, the longest thing that is fetched.
_MOST_FETCHED = 2**21


def own_terms(settings: RelayServiceSettings) -> RelayedTerms:
    """What the settings say that we take on."""
    rounds = settings.rounds
    assert rounds is not None
    assert settings.relay.url is not None
    return RelayedTerms(
        url=settings.relay.url,
        operator=rounds.operator,
        role=rounds.role,
        quota=rounds.quota,
        cells=rounds.cells,
        packages=rounds.packages,
        capsules=rounds.capsules,
        seconds_per_million=rounds.seconds_per_million,
    )


class Role:
    """One role of one relay. Files that are missing or wrong are told of here."""

    def __init__(
        self,
        settings: RelayServiceSettings,
        key: SigningKey,
        *,
        tokens: Mapping[str, str],
        identify: Identify,
        clock: Clock,
        steady: Clock,
        dice: RandomBytes,
        log: Log,
        metrics: Metrics,
    ) -> None:
        """``tokens``: of each coordinator, by URL."""
        assert settings.rounds is not None
        self._settings, self._rounds_settings = settings, settings.rounds
        self._key, self._tokens, self._identify = key, tokens, identify
        self._clock, self._steady, self._dice = clock, steady, dice
        self._log, self._meter = log, RoundMeter(metrics)
        self._sealer = BulkSealer(find_lanes().lanes, threads=settings.rounds.threads)
        make_own_folder(settings.rounds.folder)
        self._keeping = RoundCustody(
            RoundLedger(settings.rounds.folder / "ledger.db"),
            RoundSecrets(settings.rounds.secrets),
            settings.rounds.folder,
        )
        if not self._keeping.secrets.is_memory:
            # Not refused: a container may have another name for memory. Whoever runs the relay is told.
            log.tell("secrets", state="on-disk")
        self._terms = own_terms(settings)
        own = OwnRelay(self._terms, key, settings.testing.seed)
        self._experiments = Experiments(self._keeping, own, check_worth, dice)

    @property
    def keys(self) -> RelayDatabase:
        """Where the gateway's key for fetches outlives the process."""
        return self._keeping.ledger

    @property
    def body_bytes(self) -> int:
        """The longest content of a request: a piece of a batch, or a submission."""
        if self._terms.role == "mix":
            return OUTER_BYTES * PIECE_CAPSULES
        return self._rounds_settings.submission_bytes

    @contextlib.asynccontextmanager
    async def serving(self, path: str) -> AsyncIterator[RoleDoors[Any]]:
        """The doors, while the rounds run behind them; should those fail, the block fails too."""
        settings = self._rounds_settings
        client = GatewayClient("", timeout_s=settings.piece_timeout_s, answer_bytes=_MOST_FETCHED)
        async with client, contextlib.AsyncExitStack() as held:
            rounds = self._running(client)
            held.push_async_callback(rounds.close)

            async def get(url: str) -> HttpResponse:
                return await client.ask("GET", url, None, {})

            following = CoordinatorFollower(
                experiments=self._experiments,
                ledger=self._keeping.ledger,
                get=get,
                named=rounds.add,
                log=self._log,
                poll_s=settings.poll_s,
            )
            for plan in self._experiments.plans():
                rounds.add(plan)
            doors = self._doors(path, rounds, following)
            if isinstance(doors, EntryDoors):
                held.push_async_callback(doors.close)
            looking = asyncio.get_running_loop().create_task(following.run())
            try:
                yield doors
            finally:
                looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await looking

    def close(self) -> None:
        """Let go of the ledger."""
        self._keeping.ledger.close()

    def _limits(self, plan: RoundPlan) -> IntakeLimits:
        settings = self._rounds_settings
        room = (settings.capsules - plan.packages) // plan.budget
        return IntakeLimits(settings.quota, settings.network_quota, room)

    def _document(self, plan: RoundPlan) -> ExperimentDocument:
        document = self._experiments.document(plan.experiment)
        assert document is not None, "rounds are made of documents that are served"
        return document

    def _make(self, plan: RoundPlan) -> BatchRound[Any]:
        draw = drawing(self._document(plan), plan, self._terms.role, self._sealer)
        if self._terms.role == "entry":
            return EntryRound(plan, self._keeping, self._key, draw, self._dice)
        return MixRound(plan, self._keeping, self._key, draw, self._sealer, most_capsules=self._terms.capsules)

    def _running(self, client: GatewayClient) -> RunningRounds[BatchRound[Any]]:
        entry = self._terms.role == "entry"

        async def put(url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
            return await client.ask("PUT", url, body, {**headers, **self._authorization(url)})

        def next_url(plan: RoundPlan) -> str:
            if entry:
                return self._document(plan).mix_relay.url
            return f"{self._experiments.coordinator(plan.experiment)}/v2"

        def other_url(plan: RoundPlan) -> str:
            document = self._document(plan)
            return (document.mix_relay if entry else document.entry_relay).url

        return RunningRounds(
            keeping=self._keeping,
            key=self._key,
            make=self._make,
            next_url=next_url,
            other_url=other_url,
            put=put,
            clock=self._clock,
            steady=self._steady,
            log=self._log,
            meter=self._meter,
            first_pause_s=self._rounds_settings.retry_ms / 1000,
            halt_after=self._settings.testing.halt_after,
        )

    def _authorization(self, url: str) -> dict[str, str]:
        """A coordinator's token goes to that coordinator, and to nobody else."""
        known = [token for base, token in self._tokens.items() if url.startswith(f"{base}/")]
        return {"authorization": f"Bearer {known[0]}"} if known else {}

    def _doors(
        self, path: str, rounds: RunningRounds[BatchRound[Any]], following: CoordinatorFollower
    ) -> RoleDoors[Any]:
        common: dict[str, Any] = {
            "path": path,
            "running": rounds,
            "terms": self._terms.signed(self._key),
            "tokens": self._tokens,
            "commit": following.commit,
            "retry_after_s": self._settings.limits.retry_after_s,
        }
        if self._terms.role == "mix":
            return MixDoors(**common)
        waiting = self._rounds_settings.waiting
        return EntryDoors(**common, identify=self._identify, limits=self._limits, waiting=waiting)


def make_own_folder(folder: Path) -> None:
    """A folder for its owner alone, where there is none yet."""
    with or_bad_input(f"cannot make the relay's folder {folder}"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


#: Packages of a part.
_SMALL_PART = 2**14


def drawing(document: ExperimentDocument, plan: RoundPlan, role: RelayRole, sealer: BulkSealer) -> DrawPart:
    """What draws the parts of this round: outer capsules at the entry relay, inner ones at the mixing relay."""
    count_key = X25519PublicKey(plan.count_key)
    mix_key = plan.mix_commitment.public_key if role == "entry" else None
    size = OUTER_BYTES if role == "entry" else INNER_BYTES
    # Both kernels give the same bytes; loading the compiled one takes longer than a small part.
    small = document.relay_cover.part_packages < _SMALL_PART

    def draw(seed: bytes, root: bytes) -> Iterable[bytes]:
        part = derive_part(
            document.experiment,
            experiment_id=document.experiment_id,
            round_number=plan.round_number,
            label=plan.label,
            root=root,
            seed=seed,
            kernel=kernels("reference") if small else None,
        )
        for block in seal_part(part, count_key=count_key, mix_key=mix_key, sealer=sealer):
            yield from cut(block.outer if role == "entry" else block.inner, size)

    return draw
