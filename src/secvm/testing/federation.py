"""Federation: coordinator, relays, witnesses and hosts as real processes on this machine, one clock for all of them.

    with Federation(folder, hosts=[HostOf(people, first=0, count=100)], seed="…") as federation:
        digest = federation.begin(specification)          # a dict as the coordinator's admin API takes it
        for number in range(1, rounds + 1):
            federation.play_round(number, attending=100)

With ``covered=True`` two relays add cover, an entry relay and a mixing relay, to experiments with a guarantee; else
there is one, for plain experiments. With ``dashboard=True`` the operator's page runs beside it, at ``page_url``;
``admin_key`` changes things there. With ``nodes`` and a ``database`` of PostgreSQL the coordinator is so many
processes on one PostgreSQL, and "coordinator" is the door before them (``testing.balancer``); each node is killed and
started by its own name.

The settings files are those of real services, in a folder of their own; every process can be killed and started again.
Time is steered by ``PatientClock``. In a round of two relays ``testing.relayed_play`` says where it stands still; in a
plain one it does

 1. before a window opens, until every device that attends has its capsules,
 2. before it closes, until every package is acknowledged,
 3. before accept_until, until the relay's deposit has been taken,
 4. at accept_until, until the coordinator has published what follows.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from secvm.crypto.signing import Envelope
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.manifest import RoundManifest
from secvm.runtime.clock import ClockSteering
from secvm.testing.balancer import Balancer
from secvm.testing.federation_relays import ROLES, cover_seeds
from secvm.testing.federation_settings import (
    ANYTHING,
    BEGIN_MS,
    COORDINATOR,
    DASHBOARD,
    ORIGIN_MS,
    RELAY,
    RELAY_PATH,
    RELAY_STEPS,
    FederationSettings,
    HostOf,
    Pace,
)
from secvm.testing.patient_clock import JOINING_QUIET_S, PatientClock
from secvm.testing.processes import Children, free_port
from secvm.testing.relayed_play import Between, RelayedPlay, settle

_START_PATIENCE_S = 60.0
#: A host answers once all its devices have joined: so much longer for each of them, on a machine that is busy.
_JOIN_PATIENCE_S = 0.3
_REQUEST_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """What the hosts say about a round, all together."""

    joined: int = 0
    waiting: int = 0
    acknowledged: int = 0
    lost: int = 0


class Door(Protocol):
    """A port before several nodes."""

    def start(self) -> None:
        """Listen from now on."""
        ...

    def close(self) -> None:
        """No more. Twice is once."""
        ...


class Federation:
    """A whole federation. Use it in a ``with``: at the end nothing runs any more."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: Sequence[HostOf],
        seed: str,
        pace: Pace | None = None,
        quota: int = 100_000,
        patience_s: float = 120.0,
        witnesses: int = 3,
        nodes: int = 0,
        database: str | None = None,
        dashboard: bool = False,
        audit_every_s: float = 20.0,
        covered: bool = False,
        consent: Mapping[str, Any] = ANYTHING,
    ) -> None:
        """``quota``: most capsules of one client in an epoch, as the relay has it. Without ``witnesses`` there is no
        log. ``tokens``: so many anonymous ones are issued to a client in an epoch, by the relay, and the experiment
        wants one with each package. ``nodes`` on the ``database`` of this address, in place of one coordinator.
        ``dashboard``: the operator's page beside it, with an audit every ``audit_every_s``. ``covered``: experiments
        have a guarantee, and two relays. ``consent``: of every device, as its settings say it.
        """
        self._dashboard, self._audit_every_s = dashboard, audit_every_s
        self.folder = folder
        self.covered = covered
        self.pace = pace or Pace()
        if covered and self.pace.relays is None:
            self.pace = replace(self.pace, relays=RELAY_STEPS)
        self._seed, self._consent = seed, consent
        self.document: ExperimentDocument | None = None
        self.children = Children(folder)
        self._hosts = list(hosts)
        self.witness_names = [f"witness-{number}" for number in range(witnesses)]
        self.node_names = [f"node-{number}" for number in range(nodes)]
        self._database = database
        names = (COORDINATOR, *self.server_names, *self.host_names, *self.door_names)
        self._ports = {name: free_port() for name in names}
        self._door: Door = self._make_door()
        self._settings = self._make_settings(seed=seed, quota=quota)
        self._steering = ClockSteering(folder / "clock", now=BEGIN_MS, rate=0.0, limit=BEGIN_MS)
        self.clock = PatientClock(self._steering, rate=self.pace.rate, patience_s=patience_s)
        #: Whether a round's window is open just now.
        self.window_open = False
        #: What the hosts said last, so that one that is away does not take back what it had.
        self._last_counts: dict[tuple[str, int], RoundCounts] = {}

    def _make_settings(self, *, seed: str, quota: int) -> FederationSettings:
        return FederationSettings(
            self.folder,
            pace=self.pace,
            ports=self._ports,
            witnesses=self.witness_names,
            seed=seed,
            quota=quota,
            nodes=self.node_names,
            database=self._database,
            consent=self._consent,
        )

    def _make_door(self) -> Door:
        """What stands before the nodes, where there are any."""
        return Balancer(self._ports[COORDINATOR], [self._ports[name] for name in self.node_names])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def host_names(self) -> list[str]:
        return [f"host-{number}" for number in range(len(self._hosts))]

    @property
    def server_names(self) -> list[str]:
        """All but the hosts."""
        coordinators = self.node_names or [COORDINATOR]
        return [*self.witness_names, *coordinators, *self.relay_names, *([DASHBOARD] * self._dashboard)]

    @property
    def relay_names(self) -> list[str]:
        """The two that add cover, or the only one."""
        return list(ROLES) if self.covered else [RELAY]

    @property
    def door_names(self) -> list[str]:
        """Ports that are no party's; there are none here."""
        return []

    @property
    def names(self) -> list[str]:
        """Every process."""
        return [*self.server_names, *self.host_names]

    # ── beginning and ending ─────────────────────────────────────────────────────────────────────────────────────────

    def start_servers(self) -> None:
        """Start witnesses, coordinator and relays, and wait until all answer."""
        self._settings.write_servers()
        if self._dashboard:
            self._settings.write_dashboard(self._audit_every_s)
        if self.node_names:
            self._door.start()
        for name in self.server_names:
            self._start_server(name)
        for name in self.server_names:
            self._await(lambda name=name: self.healthy(name), f"{name} to answer")  # type: ignore[misc]

    def _start_server(self, name: str) -> None:
        kinds = {**dict.fromkeys(self.witness_names, "witness"), **dict.fromkeys(self.node_names, COORDINATOR)}
        kinds |= dict.fromkeys(self.relay_names, "relay")
        kind = kinds.get(name, name)
        self.children.start(name, [kind, "serve", "--config", str(self.folder / f"{name}.toml")])

    def begin(self, specification: dict[str, Any]) -> str:
        """Make the experiment and start the hosts; the experiment's digest."""
        told = {
            **({} if self.covered else {"privacy": "none"}),
            **specification,
            "windows": self.pace.specified(),
            "relays": self._relays_told(),
            "test": True,
        }
        # As an operator, on a machine of the coordinator: planning takes longer than the door before nodes waits.
        asked = (self.node_names or [COORDINATOR])[0]
        made = self.ask(asked, "POST", "/admin/experiments", json.dumps(told).encode(), admin=True)
        digest: str = json.loads(made)["digest"]
        # Logged and cosigned first; then its beacons' rounds come, then its first round.
        served = self.patiently(lambda: self.public(f"/v1/experiment/{digest}"), "the experiment")
        self.document = read_published(served, digest=digest)
        self.clock.leap_to(ORIGIN_MS - 1000 * self.pace.lead_s)
        self._await(lambda: self.public(f"/v1/experiment/{digest}/manifest/1") is not None, "the first manifest")
        for name, host in zip(self.host_names, self._hosts, strict=True):
            self._settings.write_host(name, host, digest)
            self._start_host(name)
        patience_s = _START_PATIENCE_S + _JOIN_PATIENCE_S * sum(host.count for host in self._hosts)
        for name in self.host_names:
            self._await(lambda name=name: self.healthy(name), f"{name} to answer", patience_s)  # type: ignore[misc]
        return digest

    def _start_host(self, name: str) -> None:
        self.children.start(name, ["participant", "run", "--config", str(self.folder / f"{name}.toml")])

    def _relays_told(self) -> list[dict[str, str]]:
        """As an operator names them."""
        if self.covered:
            return [relay.specified() for relay in self._settings.role_relays]
        return [{"url": self.relay_url, "key": self._settings.relay_key}]

    def stop(self) -> None:
        """End everything: devices first, then all servers."""
        self.children.stop(self.host_names)
        self.children.stop()
        self._door.close()

    def look_after(self) -> bool:
        """Raise where a process has ended by itself; whether all that processes need is there."""
        self.children.check()
        return True

    def kill(self, name: str) -> None:
        """SIGKILL one process."""
        self.children.kill(name)

    def restart(self, name: str) -> None:
        """Start one process again; its state is what it had written."""
        self.children.restart(name)

    def driver(self, *, but: Sequence[str] = ()) -> str | None:
        """The node that says that it drives; None where none does just now. ``but``: those that are not asked."""
        for name in self.node_names:
            if name in but:
                continue
            told = self.answer(name, "/health")
            if told is not None and json.loads(told)["node"]["role"] == "driver":
                return name
        return None

    def port(self, name: str) -> int:
        """Where a process listens."""
        return self._ports[name]

    def address(self, name: str) -> str:  # noqa: ARG002  (others spread theirs)
        """On which address that is."""
        return "127.0.0.1"

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def relay_url(self) -> str:
        return self._settings.relay_url

    @property
    def relay_path(self) -> str:
        """What R's path is, of every relay."""
        return RELAY_PATH

    @property
    def cover_seeds(self) -> tuple[str, str]:
        """What the two relays draw their cover from, the entry relay first."""
        return cover_seeds(self._seed)

    @property
    def coordinator_url(self) -> str:
        """Where everybody reads what is public."""
        return f"http://127.0.0.1:{self._ports[COORDINATOR]}"

    @property
    def page_url(self) -> str:
        """Where the operator's page is."""
        assert self._dashboard
        return f"http://{self.address(DASHBOARD)}:{self._ports[DASHBOARD]}/"

    @property
    def admin_key(self) -> str:
        """What the operator types to change something."""
        return self._settings.admin_key

    @property
    def digest(self) -> str:
        assert self.document is not None
        return self.document.digest

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        admin: bool = False,
        patience_s: float = _REQUEST_PATIENCE_S,
    ) -> bytes:
        """What a process answers; ``OSError`` where it does not, or not with a success."""
        # An experiment's cover is planned while the operator waits.
        patience = _START_PATIENCE_S if admin else patience_s
        connection = http.client.HTTPConnection(self.address(name), self._ports[name], timeout=patience)
        headers = {"authorization": f"Bearer {self._settings.admin_key}"} if admin else {}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as fault:
            raise OSError(f"{name} does not answer in HTTP") from fault
        finally:
            connection.close()
        if answer.status >= 300:
            raise OSError(
                f"{name} answered {answer.status} to {method} {path}: {content[:300].decode(errors='replace')}"
            )
        return content

    def healthy(self, name: str) -> bool:
        """Whether a process answers."""
        self.children.check()
        with contextlib.suppress(OSError):
            self.ask(name, "GET", "/api/now" if name == DASHBOARD else "/health")
            return True
        return False

    def answer(self, name: str, path: str) -> bytes | None:
        """What a process has at this path, or none."""
        with contextlib.suppress(OSError):
            return self.ask(name, "GET", path)
        return None

    def public(self, path: str) -> bytes | None:
        """A public file of the coordinator, or none."""
        return self.answer(COORDINATOR, path)

    def counts(self, number: int) -> RoundCounts:
        """What all hosts say about a round. Of one that does not answer, what it said last."""
        for name in self.host_names:
            with contextlib.suppress(OSError):
                told = json.loads(self.ask(name, "GET", "/status")).get(self.digest, {})
                row = told.get("rounds", {}).get(str(number), {})
                fields = {key: row.get(key, 0) for key in ("joined", "waiting", "acknowledged", "lost")}
                self._last_counts[name, number] = RoundCounts(**fields)
        found = [self._last_counts.get((name, number), RoundCounts()) for name in self.host_names]
        return RoundCounts(
            joined=sum(one.joined for one in found),
            waiting=sum(one.waiting for one in found),
            acknowledged=sum(one.acknowledged for one in found),
            lost=sum(one.lost for one in found),
        )

    def status(self) -> list[dict[str, Any]]:
        """What each host that answers says of the experiment: devices, those that ended, canaries to be looked for."""
        found = [self.answer(name, "/status") for name in self.host_names]
        return [told[self.digest] for one in found if one is not None and self.digest in (told := json.loads(one))]

    def settle(self) -> None:
        """After the last round of two relays: wait for devices to fetch the ending and to look for their canaries."""
        settle(self)

    def arrived(self) -> int | None:
        """Capsules that came to the relay since it started; None where it does not answer, and of two relays."""
        if self.covered:
            return None
        with contextlib.suppress(OSError):
            page = self.ask(RELAY, "GET", "/metrics").decode()
            found = re.search(r'^secvm_relay_requests_total\{door="capsule"\} ([0-9.e+]+)', page, re.MULTILINE)
            return int(float(found[1])) if found else 0
        return None

    def deposited(self, epoch: int) -> bool:
        """Whether the relay has nothing left of this epoch."""
        with contextlib.suppress(OSError):
            page = self.ask(RELAY, "GET", "/metrics").decode()
            found = dict(
                re.findall(r"^secvm_relay_(deposits_waiting|last_sealed_epoch) ([0-9.e+-]+)$", page, re.MULTILINE)
            )
            return float(found["last_sealed_epoch"]) >= epoch and float(found["deposits_waiting"]) == 0
        return False

    def told(self, name: str, event: str, **fields: object) -> list[dict[str, Any]]:
        """Lines of a process's log, from all its lives, that tell of this event with these fields."""
        lines: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):
            for line in self.children.log(name).read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    if isinstance(found, dict) and found.get("event") == event:
                        lines.append(found)
        return [line for line in lines if all(line.get(key) == value for key, value in fields.items())]

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def epoch(self, number: int) -> int:
        """The slot of a round, while every round follows the one before."""
        return number - 1

    def opens_at(self, number: int) -> int:
        """When a round opens, while every round follows the one before."""
        return ORIGIN_MS + 1000 * self.pace.period_s * (number - 1)

    def play_round(
        self,
        number: int,
        *,
        attending: int,
        budget: int,
        look: Callable[[int], None] | None = None,
        before_closing: Callable[[], None] | None = None,
        wait_for_packages: bool = True,
        between: Between | None = None,
    ) -> tuple[RoundCounts, float]:
        """One whole round, up to the publication of what follows. What the hosts counted, and how long the end was
        waited for. Without ``wait_for_packages`` the window closes on time, whatever is still on its way. ``between``:
        told of every step of a round of two relays (``testing.relayed_play``), while time stands still.
        """
        if self.covered:
            return RelayedPlay(self, number, attending=attending).play(
                look=look, before_closing=before_closing, wait_for_packages=wait_for_packages, between=between
            )
        opens, pace = self.opens_at(number), self.pace
        closes = opens + 1000 * pace.length_s
        counts = RoundCounts()

        def all_joined() -> bool:
            nonlocal counts
            self.children.check()
            counts = self.counts(number)
            return counts.joined >= attending

        def all_acknowledged() -> bool:
            nonlocal counts
            self.children.check()
            counts = self.counts(number)
            return counts.joined >= attending and counts.acknowledged + counts.lost >= counts.joined * budget

        # Askings spread over the grace after the round before; then there is only computing to wait for.
        fetched_by = opens - 1000 * (pace.lead_s - pace.grace_s)
        self.clock.creep_to(
            opens,
            until=all_joined,
            what="devices to join",
            progress=lambda: counts,
            run_until=fetched_by + 500,
            quiet_s=JOINING_QUIET_S,
        )
        self.clock.leap_to(opens)
        waited = 0.0
        self.window_open = True
        if wait_for_packages:
            waited = self.clock.creep_to(
                closes, until=all_acknowledged, what="acknowledgements", progress=lambda: counts, look=look
            )
        else:
            self.clock.run_to(closes, until=lambda: True, what="the window to close", look=look)
        self.window_open = False
        if before_closing is not None:
            before_closing()
        epoch = self.epoch(number)
        self.clock.leap_to(opens + int(1000 * pace.deposit_after_s))
        accept_until = closes + 1000 * pace.grace_s
        self.clock.run_to(
            accept_until - 1,
            until=lambda: self.deposited(epoch),
            what="the relay's deposit",
        )
        self.clock.run_to(accept_until, until=lambda: self.following(number) is not None, what="what follows")
        return counts, waited

    def following(self, number: int) -> bytes | None:
        """The manifest after this round, or the ending; as it is served."""
        self.children.check()
        path = f"/v1/experiment/{self.digest}"
        return self.public(f"{path}/manifest/{number + 1}") or self.public(f"{path}/ending")

    def manifest(self, number: int) -> RoundManifest:
        """The manifest of a round."""
        served = self.ask(COORDINATOR, "GET", f"/v1/experiment/{self.digest}/manifest/{number}")
        return RoundManifest.from_bytes(Envelope.from_bytes(served).payload)

    def patiently(self, get: Callable[[], bytes | None], what: str) -> bytes:
        """What ``get`` returns once it returns something: a process may just be coming up."""
        found: list[bytes] = []

        def there() -> bool:
            found[:] = [data for data in [get()] if data is not None]
            return bool(found)

        self._await(there, what)
        return found[0]

    def _await(self, there: Callable[[], bool], what: str, patience_s: float = _START_PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not there():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            time.sleep(0.05)


__all__ = ["COORDINATOR", "ORIGIN_MS", "RELAY", "RELAY_PATH", "Federation", "HostOf", "Pace", "RoundCounts"]
