"""The doors of one coordinator process: all that answers requests, and what it needs for that.

The same for a process that is the whole coordinator and for one node of many. Who drives is not their business: they
are told what runs (``update``), and tell that something has changed (``wake``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from secvm.coordinator.experiments.beacon_choice import NewestPulse
from secvm.coordinator.experiments.operator_routes import Admin
from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.ingest import Limits as IngestLimits
from secvm.coordinator.intake.package_routes import BODY_LIMITS, PackageRoutes
from secvm.coordinator.intake.running import Present
from secvm.coordinator.problem_responses import too_large
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed.batch_routes import BODY_LIMITS as RELAYED_LIMITS
from secvm.coordinator.relayed.batch_routes import RelayedRoutes
from secvm.coordinator.relayed.relayed_events import Telling
from secvm.coordinator.relayed.shard_files import ShardFiles
from secvm.coordinator.relayed.shard_folder import ShardFolder
from secvm.coordinator.server import Routes
from secvm.coordinator.settings import CoordinatorSettings
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.terms import LogTerms
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import HttpServer, http_date
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics

#: A specification is a page or two.
_ADMIN_BODY_BYTES = 2**18


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a process holds from its start to its end: files, keys, clocks."""

    settings: CoordinatorSettings
    store: CoordinatorStore
    clock: Clock
    dice: RandomBytes
    log: Log
    metrics: Metrics
    #: Where public files are written; None: nowhere.
    public: Path | None
    #: That signs manifests; None where this node cannot, and so neither drives nor makes experiments.
    key: SigningKey | None
    #: What new experiments say of their log; None without one.
    terms: LogTerms | None
    #: None: nobody is the operator.
    admin_sha256: bytes | None
    newest_pulse: Callable[[], NewestPulse | None]
    #: To open capsules with; None: one by one.
    lanes: Lanes | None = None
    #: That nobody sets: commits are timed by it, where there is one.
    steady: Clock | None = None
    #: Tokens with which relays are asked, by URL.
    relay_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)


def ingest_limits(settings: CoordinatorSettings) -> IngestLimits:
    """What a relay may send must find room, or it would be told for ever to come later."""
    limits = IngestLimits()
    return replace(limits, content_bytes=max(limits.content_bytes, 2 * settings.limits.deposit_bytes))


class Doors:
    """Requests in, answers out."""

    def __init__(
        self,
        held: Held,
        *,
        refresh: Callable[[], Awaitable[None]] | None = None,
        look_s: float | None = None,
        health: Callable[[], dict[str, object]] | None = None,
    ) -> None:
        """``refresh``: see ``package_routes``, ``look_s``: see ``opener``, both where there are other nodes.
        ``health``: what else /health tells.
        """
        settings, grid = held.settings, held.settings.epochs.grid
        #: Told when the operator has changed something; set by whoever drives or follows.
        self.wake: Callable[[], None] = lambda: None
        shards = ShardFiles(held.store)
        self.publisher = Publisher(held.store, held.public, further=shards.find, log=held.log)
        self.shard_folder = ShardFolder(held.public, shards, held.log)
        self.ingest = Ingest(
            held.store,
            held.clock,
            metrics=held.metrics,
            log=held.log,
            limits=ingest_limits(settings),
            lanes=held.lanes,
            look_s=look_s,
            fresh=refresh,
            steady=held.steady,
        )
        held.metrics.gauge("start_time_seconds", "When this process began, since 1970.").set(held.clock.now() / 1000)
        gateway = Gateway(dice=held.dice, public=self.publisher.public, date=http_date(held.clock))
        self._packages = PackageRoutes(
            gateway,
            self.ingest,
            held.clock,
            tokens=[bytes.fromhex(relay.token_sha256) for relay in settings.relays],
            tests=settings.testing is not None,
            refresh=refresh,
            metrics=held.metrics,
        )
        self.telling = Telling(held.log, held.metrics)
        relayed = RelayedRoutes(
            held.store,
            held.clock,
            tokens=[bytes.fromhex(relay.token_sha256) for relay in settings.relays],
            most_bytes=settings.limits.deposit_bytes,
            telling=self.telling,
            wake=self._woken,
        )
        admin = None
        if held.admin_sha256 is not None:
            admin = Admin(
                store=held.store,
                key=held.key,
                admin_sha256=held.admin_sha256,
                grid=grid,
                clock=held.clock,
                dice=held.dice,
                wake=self._woken,
                only_tests=settings.testing is not None,
                log=held.terms,
                newest=held.newest_pulse,
                relays=held.relay_tokens,
                metrics=held.metrics,
                answer_bytes=settings.limits.answer_bytes,
            )
        routes = Routes(
            packages=self._packages,
            administration=admin,
            publisher=self.publisher,
            metrics=held.metrics,
            relayed=relayed,
            health=health,
            refresh=refresh,
        )
        self._server = HttpServer(
            routes.handle,
            limits=settings.limits.server_limits(
                # A few deposits at a time must find room.
                receiving_bytes=max(settings.limits.receiving_bytes, 4 * settings.limits.deposit_bytes)
            ),
            body_limits={
                **BODY_LIMITS,
                **RELAYED_LIMITS,
                "/v1/deposit": settings.limits.deposit_bytes,
                "/admin/experiments": _ADMIN_BODY_BYTES,
            },
            date=http_date(held.clock),
            refusals={413: too_large()},
            before_body=routes.before_body,
        )
        self._held = held

    def _woken(self) -> None:
        self.wake()

    def update(self, present: Present) -> None:
        """From now on this is what runs."""
        self._packages.update(present)

    async def finish(self, epoch: int) -> None:
        """Return when nothing of this closed epoch is sealed any more."""
        await self.ingest.finish(epoch)

    async def open(self) -> None:
        """Take requests from now on."""
        settings = self._held.settings
        port = await self._server.start(settings.listen.host, settings.listen.port)
        self._held.log.tell("listening", port=port, test=settings.testing is not None)

    async def close(self) -> None:
        """No more requests; those under way are answered, and what they brought is committed."""
        self._held.log.tell("stopping")
        await self._server.drain()
        await self.ingest.close()
