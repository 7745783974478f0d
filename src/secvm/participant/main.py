"""The program on a person's device: the one place that picks the real clock, the system's dice, and files.

``run`` goes on until it is told to stop; then it sends nothing new, writes everything and ends. The next start goes on
where this one stopped. For tests one process can carry many people of a file, each with a folder, a vault and a state
of its own; they join what the settings name, and only experiments that are marked as a test.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path

from secvm.crypto.sealing.layers import BulkSealer
from secvm.errors import BadInputError, BeaconUnavailableError, RemoteProtocolError
from secvm.participant.device import Device
from secvm.participant.dice import DiceFor, safe_dice, unsafe_seeded_dice
from secvm.participant.host import Host
from secvm.participant.person.decisions import Way
from secvm.participant.person.pinning import fetch_salt
from secvm.participant.sending.transport import RelayTransport, Transport, open_transport
from secvm.participant.settings import ParticipantSettings, TestingSettings
from secvm.participant.status_page import serve_status
from secvm.participant.storage.device_lock import open_lock
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.model_files import ModelShelf
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.people.reader import read_vocabulary
from secvm.people.source import iter_people
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.runtime.clock import Clock, SteeredClock, SystemClock
from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.disk.secret_files import Passphrase, read_secret
from secvm.runtime.lanes import find_lanes
from secvm.runtime.logs import Log
from secvm.runtime.service import run_service

#: How long an experiment is asked for again that test people are to join, and how often.
_PATIENCE_S, _EVERY_S = 60.0, 0.2


def run(settings: ParticipantSettings, passphrase: Passphrase | None = None) -> None:
    """Run a device, or the devices of many test people, until SIGTERM or SIGINT."""
    run_service(
        lambda stop: serve(settings, stop, passphrase), log=Log(sys.stderr, make_clock(settings), party="participant")
    )


async def serve(settings: ParticipantSettings, stop: asyncio.Event, passphrase: Passphrase | None = None) -> None:
    """Carry the devices of these settings until ``stop`` is set; nobody else may run them meanwhile."""
    folder, testing, clock = settings.device.folder, settings.testing, make_clock(settings)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be made: {error.strerror}") from None
    # Several hosts may carry the people of one test from one folder, each its own part of them.
    name = LOCK_FILE if testing is None or testing.people is None else f"{testing.first:06d}.lock"
    log = Log(sys.stderr, clock, party="participant")
    with only_one(folder / name, "device"):
        async with AsyncExitStack() as opened_here:
            transport = make_transport(settings, passphrase)
            opened_here.push_async_callback(transport.close)
            devices = await open_devices(settings, transport, clock, stop, passphrase)
            host = Host(devices, clock=clock, log=log)
            page = None if settings.status is None else await serve_status(settings.status.listen, host.status)
            log.tell("started", participants=len(devices))
            if settings.consent.consent().unsafe:
                # Loud, each time: nobody's own data should be here.
                log.tell("unsafe-consent", participants=len(devices))
            if page is not None:
                opened_here.push_async_callback(page.close)
                log.tell("listening", port=page.port)
            await host.run(stop)


def make_clock(settings: ParticipantSettings) -> Clock:
    """The machine's clock, or the one that a test steers."""
    steered = settings.testing.clock if settings.testing else None
    return SystemClock() if steered is None else SteeredClock(steered)


def make_transport(settings: ParticipantSettings, passphrase: Passphrase | None = None) -> Transport:
    """The way that the settings name."""
    return open_transport(
        settings.relay.urls if settings.relay else (),
        os.urandom,
        credential=_credential(settings, passphrase),
        tor=settings.relay.tor() if settings.relay else None,
        unsafe_direct_url=settings.coordinator.unsafe_direct_url if settings.coordinator else None,
    )


def _credential(settings: ParticipantSettings, passphrase: Passphrase | None) -> str | None:
    if settings.relay is None or settings.relay.credential_file is None:
        return None
    try:
        text = read_secret(settings.relay.credential_file, passphrase=passphrase).decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise BadInputError("a relay's credential is one line of ASCII")
    return text


def open_device(
    settings: ParticipantSettings,
    transport: Transport,
    clock: Clock,
    *,
    folder: Path | None = None,
    number: int = 0,
    shelf: ModelShelf | None = None,
    checks: SharedChecks | None = None,
    sealer: BulkSealer | None = None,
    passphrase: Passphrase | None = None,
) -> Device:
    """The device in the settings' folder, or that of one test person."""
    testing = settings.testing
    unsynced = testing is not None and testing.unsafe_unsynced
    place = folder or settings.device.folder
    return Device(
        DeviceState(place, unsafe_unsynced=unsynced, lock=open_lock(place, passphrase, os.urandom)),
        transport,
        now=clock.now,
        random_bytes=os.urandom,
        dice_for=_dice(testing, number),
        shelf=shelf,
        checks=checks,
        sealer=sealer,
        policy=settings.policy(),
        consent=settings.agreed(),
        daily_bytes=settings.traffic.daily_bytes,
        parallel_sends=settings.traffic.parallel_sends,
        only_tests=settings.only_tests,
    )


@contextmanager
def opened(settings: ParticipantSettings, passphrase: Passphrase | None = None) -> Iterator[tuple[DeviceState, Vault]]:
    """State and vault of the device of these settings, to decide for it, whether it runs meanwhile or not."""
    folder, testing = settings.device.folder, settings.testing
    lock = open_lock(folder, passphrase, os.urandom)
    unsynced = testing is not None and testing.unsafe_unsynced
    with closing(DeviceState(folder, unsafe_unsynced=unsynced, lock=lock)) as state, Vault(folder, lock=lock) as vault:
        yield state, vault


def way_of(settings: ParticipantSettings, transport: Transport) -> Way:
    """How the device of these settings reaches others, and what it demands of them."""
    return Way(
        transport, settings.policy(), _dice(settings.testing, 0), settings.agreed(), only_tests=settings.only_tests
    )


async def open_devices(
    settings: ParticipantSettings,
    transport: Transport,
    clock: Clock,
    stop: asyncio.Event,
    passphrase: Passphrase | None = None,
) -> list[Device]:
    """All devices of this process; people of a test join what they have not joined yet."""
    testing = settings.testing
    if testing is None or testing.people is None:
        return [open_device(settings, transport, clock, passphrase=passphrase)]
    _allow_files(8 * testing.count + 256)
    first = transport
    if testing.credentials and isinstance(transport, RelayTransport):
        first = transport.for_client("test-host")
    wanted = [await _experiment(digest, first, settings.policy(), clock, stop) for digest in testing.join]
    if None in wanted:
        return []
    shelf, checks = ModelShelf(settings.device.folder / "models"), SharedChecks(devices=testing.count)
    # Hundreds of requests to seal: with this machine's lanes, where somebody has built them.
    sealer = BulkSealer(find_lanes().lanes)
    credential = _credential(settings, passphrase)
    vocabulary = None if testing.vocabulary is None else read_vocabulary(testing.vocabulary)
    devices = []
    people = itertools.islice(enumerate(iter_people(testing.people)), testing.first, testing.first + testing.count)
    for number, person in people:
        assert person.label is not None  # the reader has asked for it
        folder = settings.device.folder / f"{number:06d}"
        own = transport
        if isinstance(transport, RelayTransport):
            named = credential is not None or testing.credentials
            own = transport.for_client(f"{credential or 'test-person'}-{number}" if named else None)
        device = open_device(
            settings, own, clock, folder=folder, number=number, shelf=shelf, checks=checks, sealer=sealer
        )
        devices.append(device)
        for experiment in wanted:
            assert experiment is not None
            document, envelope, salt = experiment
            if device.state.record(document.digest) is None:
                with Vault(folder, unsafe_unsynced=testing.unsafe_unsynced) as vault:
                    vault.put(document.features.source, person.features)
                    vault.set_label(document.digest, person.label)
                    device.join(document.digest, envelope, vault, salt=salt, vocabulary=vocabulary)
    return devices


async def _experiment(
    digest: str, transport: Transport, policy: TrustPolicy, clock: Clock, stop: asyncio.Event
) -> tuple[ExperimentDocument, bytes, bytes | None] | None:
    """An experiment's document, envelope and salt; its coordinator may still be starting. None: told to stop."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    missing = "the experiment that the test's people are to join cannot be fetched"
    while not stop.is_set():
        fetched = await transport.fetch(f"/v1/experiment/{digest}")
        if fetched is not None:
            try:
                document = read_published(fetched.content, digest=digest)
            except RemoteProtocolError as fault:
                raise BadInputError(f"the experiment cannot be believed: {fault}") from None
            try:
                return document, fetched.content, await fetch_salt(document, transport, policy, now=clock.now())
            except BeaconUnavailableError as fault:
                missing = str(fault)
        if fetched is None and transport.refused_with in (401, 403):
            # Waiting changes nothing.
            raise BadInputError(
                f"the relay wants a credential, and refuses these devices (status {transport.refused_with})",
                next_step="Test people have one each with credentials = true under [testing], or are told apart by the"
                " credential_file under [relay].",
            )
        if asyncio.get_running_loop().time() > deadline:
            raise BadInputError(missing)
        await asyncio.sleep(_EVERY_S)
    return None


def _dice(testing: TestingSettings | None, number: int) -> DiceFor:
    if testing is None or testing.seed is None:
        return safe_dice(os.urandom)
    return unsafe_seeded_dice(testing.seed.encode(), number)


def _allow_files(count: int) -> None:
    """Three files for each device, and sockets: more than many systems allow at first."""
    if os.name != "posix":
        return
    import resource  # noqa: PLC0415  (not on every system)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )
