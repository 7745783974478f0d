"""The folders of a federation's parties, each with settings and keys that match the others'.

    DIR/coordinator      DIR/entry      DIR/mix      DIR/witness-1 …      one for each machine
    DIR/person           a device's settings                              DIR/people       devices of people made up
    DIR/experiment.toml  the question                                     DIR/admin.key    of who runs the coordinator

Whoever makes them has seen every key. So they are for trying out, or for one laboratory: where people take part, each
operator makes a key of their own, with ``init`` of their party, on their own machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secvm.coordinator import main as coordinator
from secvm.coordinator import settings as coordinator_settings
from secvm.errors import BadInputError
from secvm.federation.example import experiment_text, made_up_people
from secvm.federation.tables import coordinator_tables, device_tables, named_witness
from secvm.files import write_atomically
from secvm.relay import setting_up as relay
from secvm.relay import settings as relay_settings
from secvm.relay.setting_up import KnownRelay
from secvm.runtime.disk.new_folder import making_in
from secvm.runtime.disk.secret_files import make_secret, read_secret
from secvm.runtime.settings import Tables, merged, settings_text
from secvm.witness import main as witness
from secvm.witness import settings as witness_settings

COORDINATOR, ROLES, PERSON, PEOPLE = "coordinator", ("entry", "mix"), "person", "people"
EXPERIMENT_FILE, ADMIN_KEY_FILE, DEVICE_FILE = "experiment.toml", "admin.key", "participant.toml"
STATUS_PORT = 8500
#: Where a party stands on this machine alone: no proxy names clients, and all of them have one address.
_ONE_ADDRESS: dict[str, Mapping[str, Any]] = {
    "clients": {"quota": 1_000_000, "fetches": 1_000_000, "network_quota": 1_000_000},
    "rounds": {
        "quota": 10_000,
        "network_quota": 10_000,
        "secrets": "secrets",
        "poll_s": 1.0,
        "retry_ms": 100,
        # Of a small experiment, in steps that are short enough to wait for.
        "seconds_per_million": 150,
    },
}
_DEVICES: dict[str, Mapping[str, Any]] = {
    "status": {"listen": f"127.0.0.1:{STATUS_PORT}"},
    "trust": {"refetches": 1},
    "traffic": {"daily_bytes": 10**12},
}


@dataclass(frozen=True, slots=True)
class Timing:
    """The grid of epochs, and the windows of the example experiment, in seconds."""

    period_s: int
    lead_s: int
    windows: Mapping[str, int]

    @classmethod
    def of(cls, period_s: int) -> Timing:
        """Windows that fit into slots of this length, half of it for sending."""
        lead_s, grace_s = max(1, period_s // 12), max(1, period_s // 30)
        return cls(period_s, lead_s, {"length_s": max(1, period_s // 2), "grace_s": grace_s})

    @classmethod
    def trying(cls, period_s: int) -> Timing:
        """The same, with steps of the two relays that are short enough to wait for."""
        lead_s, step_s = max(1, period_s // 4), max(1, period_s // 4)
        steps = dict.fromkeys(("batch_s", "mix_s", "reveal_s", "open_s"), step_s)
        windows = {"length_s": max(1, period_s // 2), "grace_s": max(1, period_s // 10), **steps}
        # Hundreds of devices on a busy machine take a minute to join; a window that is open goes by without them.
        return cls(period_s, lead_s, windows | {"first_opening_s": 90})


@dataclass(frozen=True, slots=True)
class Site:
    """Where a party is: what others ask, and which port of its machine it listens on."""

    url: str
    port: int

    @property
    def name(self) -> str:
        """Host, and port where it is not the usual one."""
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class Sites:
    """Where all parties are."""

    coordinator: Site
    relays: Sequence[Site]
    witnesses: Sequence[Site]
    #: All on this machine, without a proxy.
    together: bool

    @classmethod
    def on_this_machine(cls, witnesses: int) -> Sites:
        """At the parties' usual ports of the loopback."""

        def at(port: int) -> Site:
            return Site(f"http://127.0.0.1:{port}", port)

        relays = [at(relay_settings.PORT + number) for number in range(len(ROLES))]
        return cls(
            at(coordinator_settings.PORT), relays, [at(witness_settings.PORT + n) for n in range(witnesses)], True
        )

    @classmethod
    def on_hosts(cls, coordinator_host: str, relay_hosts: Sequence[str], witness_hosts: Sequence[str]) -> Sites:
        """At these names, each behind a proxy with TLS."""
        hosts = [coordinator_host, *relay_hosts, *witness_hosts]
        if len(set(hosts)) < len(hosts):
            raise BadInputError("two parties have one host: each runs on a machine of its own")
        return cls(
            Site(f"https://{coordinator_host}", coordinator_settings.PORT),
            [Site(f"https://{host}", relay_settings.PORT) for host in relay_hosts],
            [Site(f"https://{host}", witness_settings.PORT) for host in witness_hosts],
            together=False,
        )


def write_folders(folder: Path, sites: Sites, timing: Timing, *, people: int) -> None:
    """Make the folders of all parties; ``people`` is how many devices the example experiment expects.

    Raises
    ------
    BadInputError
        When they cannot be made; nothing was.
    """
    with making_in(folder, private=True) as made:
        admin_key = coordinator.initialise(made / COORDINATOR)
        make_secret(made / ADMIN_KEY_FILE, admin_key.encode() + b"\n")
        relays = [_relay(made, role, site, sites, timing) for role, site in zip(ROLES, sites.relays, strict=True)]
        log_key = coordinator.log_key(made / COORDINATOR / "state").data.hex()
        witnesses = []
        for number, site in enumerate(sites.witnesses, start=1):
            log = f"{sites.coordinator.name} {log_key}"
            more = {"listen": {"port": site.port}}
            key = witness.initialise(made / f"witness-{number}", name=site.name, logs=[log], more=more)
            witnesses.append(named_witness(key, site.url))
        _coordinator(made, relays, witnesses, sites, timing)
        # The table alone says that this device is for tests: one that is for a person's own data joins none.
        _write_device(made / PERSON, relays, {"testing": {}} if sites.together else {})
        if sites.together:
            # Hundreds of made-up devices on one disk: waiting for it, they would miss the first round.
            testing = {"people": "people.jsonl", "count": people, "unsafe_unsynced": True}
            _write_device(made / PEOPLE, relays, {**_DEVICES, "testing": testing})
            write_atomically(made / PEOPLE / "people.jsonl", made_up_people(people, os.urandom).encode())
        text = experiment_text(
            people=people,
            trying=sites.together,
            windows=timing.windows,
            relays=[known.specified for known in relays],
        )
        write_atomically(made / EXPERIMENT_FILE, text.encode())


def _relay(made: Path, role: str, site: Site, sites: Sites, timing: Timing) -> KnownRelay:
    listen: dict[str, Mapping[str, Any]] = {"listen": {"port": site.port}}
    return relay.initialise(
        made / role,
        role=role,
        operator=_operator(f"{role} relay"),
        url=site.url,
        coordinator=sites.coordinator.url,
        grid={"period_s": timing.period_s},
        more=listen | (_ONE_ADDRESS if sites.together else {}),
    )


def _coordinator(
    made: Path, relays: Sequence[KnownRelay], witnesses: Sequence[Mapping[str, str]], sites: Sites, timing: Timing
) -> None:
    own = made / COORDINATOR
    for known in relays:
        make_secret(own / f"{known.role}.token", read_secret(made / known.role / relay.TOKEN_FILE))
    tables = coordinator_tables(
        state="state",
        grid={"period_s": timing.period_s, "lead_s": timing.lead_s},
        relays={f"{known.role}.token": known for known in relays},
        log_name=sites.coordinator.name,
        witnesses=witnesses,
    )
    beside = {"public": {"folder": "public"}, "listen": {"port": sites.coordinator.port}}
    _write(own / coordinator.SETTINGS_FILE, tables | beside)


def _write_device(folder: Path, relays: Sequence[KnownRelay], more: Mapping[str, Mapping[str, Any]]) -> None:
    folder.mkdir(mode=0o700)
    tables = device_tables("device", relays, coordinator=_operator(COORDINATOR))
    _write(folder / DEVICE_FILE, merged(tables, more))


def _operator(party: str) -> str:
    return f"Operator of the {party}"


def _write(path: Path, tables: Tables) -> None:
    text = f"# deploy/{path.name} shows every setting.\n\n" + settings_text(tables)
    write_atomically(path, text.encode())
