"""``secvm federation``: set up all parties to match, and try them on this machine."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError, UnreachableError

if TYPE_CHECKING:
    from secvm.testing.processes import Children

app = group("Set up a coordinator, relays and witnesses that match.")

#: How long a party may take until it answers, and how often it is asked.
_START_PATIENCE_S, _EVERY_S = 60.0, 0.2
_NOT_ONE_OPERATOR = (
    "For trying out: in earnest no two of coordinator, entry relay and mixing relay have one operator, nor do\n"
    "witnesses. Whoever runs both relays can tell who sent what."
)

Folder = Annotated[Path, typer.Argument(help="Folder that 'federation init' made.", metavar="DIR", show_default=False)]


def _host(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=f"Host of {what}.", metavar="HOST", show_default=False)
    return option


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="New folder for all parties.", metavar="DIR", show_default=False)],
    witnesses: Annotated[
        int | None, typer.Option(help="How many; 3 without.", min=1, max=9, show_default=False)
    ] = None,
    period: Annotated[
        int | None, typer.Option(help="Seconds of a slot; 40 on this machine, else 3600.", min=12, show_default=False)
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(help="Devices expected; 500 made up on this machine, else 20000.", min=2, show_default=False),
    ] = None,
    coordinator: Annotated[str | None, _host("the coordinator")] = None,
    entry: Annotated[str | None, _host("the entry relay")] = None,
    mix: Annotated[str | None, _host("the mixing relay")] = None,
    witness: Annotated[list[str] | None, _host("a witness; repeat for more")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Write matching settings and keys for all parties.

    Each party has a folder of its own, ready to be carried to its machine: coordinator, entry relay, mixing relay,
    witnesses, a person's device; and there is an experiment that fits them. Without host names all of them are for this
    machine, to be tried at once. Examples:

    \b
        ./secvm federation init trial
        ./secvm federation init trial --coordinator c.example --entry e.example --mix m.example \\
            --witness w1.example --witness w2.example --witness w3.example
    """
    from secvm.federation.folders import ADMIN_KEY_FILE, EXPERIMENT_FILE, Sites, Timing, write_folders

    named = [host for host in (coordinator, entry, mix) if host is not None]
    if named or witness:
        if len(named) < 3 or not witness or witnesses is not None:
            raise BadInputError("hosts are named for all parties: --coordinator, --entry, --mix and each --witness")
        for host in (*named, *witness):
            if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", host):
                raise BadInputError(f"{host!r} is no host: give a name such as relay.example, without https://")
        sites, timing = Sites.on_hosts(named[0], named[1:], witness), Timing.of(period or 3600)
        people = people or 20_000
    else:
        sites, timing = Sites.on_this_machine(3 if witnesses is None else witnesses), Timing.trying(period or 40)
        people = people or 500
    write_folders(folder, sites, timing, people=people)
    new = (
        f"./secvm experiment new {folder / EXPERIMENT_FILE} --coordinator http://127.0.0.1:{sites.coordinator.port}"
        f" --admin-key-file {folder / ADMIN_KEY_FILE}"
    )
    parties = sorted(path.name for path in folder.iterdir() if path.is_dir())
    text = f"{folder} holds {', '.join(parties)}, {EXPERIMENT_FILE} and {ADMIN_KEY_FILE}.\n\n"
    if sites.together:
        text += (
            f"Start all parties:      ./secvm federation run {folder}\n"
            f"Ask the question:       {new}\n"
            f"Let people take part:   ./secvm federation people {folder} DIGEST\n"
            f"\n{_NOT_ONE_OPERATOR}"
        )
    else:
        text += (
            "Carry each folder to its machine and serve it there, behind a proxy with TLS:\n"
            "docs/how-to/run-for-real.md.\n"
            f"On the coordinator's, ask the question:  {new}\n"
            "\n"
            "Whoever made these has seen every key. Where people take part, each operator makes a folder of their own\n"
            "instead: 'secvm coordinator init', 'secvm relay init', 'secvm witness init'."
        )
    emit({"folder": str(folder), "parties": parties, "new": new}, output_format, text=text)


@app.command()
def run(folder: Folder) -> None:
    """Run all servers of a folder on this machine, until Ctrl-C.

    Each is a process of its own, and tells what happens in a log beside its folder. When one of them ends, all do, and
    you are told which and why. For trying out only: in earnest they belong to different people on different machines.
    Example:

    \b
        ./secvm federation run trial
    """
    from secvm.testing.processes import ChildDiedError, Children

    servers = _servers(folder)
    children = Children(folder)
    # As Ctrl-C: all that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name, (_, _, port) in servers.items():
        _refuse_taken(name, port)
    try:
        for name, (party, config, _) in servers.items():
            children.start(name, [party, "serve", "--config", str(config)])
        for name, (party, _, port) in servers.items():
            _await(children, name, f"http://127.0.0.1:{port}/health")
            note(f"{name:12} {party:12} http://127.0.0.1:{port}   log {children.log(name)}")
        note(f"\nAll parties run. Ctrl-C ends them.\n{_NOT_ONE_OPERATOR}")
        while True:
            children.check()
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        note("Ending all parties.")
    except ChildDiedError as fault:
        raise BadInputError(
            fault.how + (f": {fault.why}" if fault.why else ""),
            next_step=f"All other parties were ended too. See the end of {children.log(fault.name)}.",
        ) from None
    finally:
        children.stop()


@app.command()
def people(
    folder: Folder,
    experiment: Annotated[
        str, typer.Argument(help="The experiment's digest, or how it begins.", metavar="DIGEST", show_default=False)
    ],
) -> None:
    """Let made-up people join an experiment and take part, until Ctrl-C.

    They have the consent of any device whose person has changed nothing, and answer with the experiment's own labels.
    The experiment must be marked as a test.
    Example:

    \b
        ./secvm federation people trial 3fa9…
    """
    from secvm.federation.example import made_up_people
    from secvm.federation.folders import DEVICE_FILE, PEOPLE
    from secvm.files import write_atomically
    from secvm.participant.main import make_clock, serve
    from secvm.participant.settings import ParticipantSettings
    from secvm.people.source import iter_people
    from secvm.runtime.logs import Log
    from secvm.runtime.service import run_service
    from secvm.runtime.settings import read_settings

    settings = read_settings(folder / PEOPLE / DEVICE_FILE, ParticipantSettings)
    if settings.testing is None or settings.testing.people is None:
        raise BadInputError(f"the devices of {folder / PEOPLE} are not those of made-up people")
    digest, labels = _asked(folder, experiment)
    update: dict[str, object] = {"join": (*settings.testing.join, digest)}
    if len(labels) > 1 and not {person.label for person in iter_people(settings.testing.people)} <= set(labels):
        update["people"] = file = settings.testing.people.with_name(f"{digest[:12]}.jsonl")
        # Once: people who come again later are the same.
        if not file.exists():
            lines = made_up_people(settings.testing.first + settings.testing.count, os.urandom, labels)
            write_atomically(file, lines.encode())
            note(
                f"{settings.testing.people} has other labels, so people who answer {' or '.join(labels)} are in {file}."
            )
    joining = settings.model_copy(update={"testing": settings.testing.model_copy(update=update)})
    note(f"{settings.testing.count} people who do not exist are joining. Ctrl-C ends their devices; later they go on.")
    run_service(lambda stop: serve(joining, stop), log=Log(sys.stderr, make_clock(joining), party="participant"))


def _asked(folder: Path, experiment: str) -> tuple[str, list[str]]:
    """Digest and labels of the experiment whose digest begins so; a whole one is waited for until witnesses have
    seen it.
    """
    from secvm.cli.experiment.remote import Remote

    ports = [port for party, _, port in _servers(folder).values() if party == "coordinator"]
    remote = Remote(f"http://127.0.0.1:{ports[0]}")
    digest = experiment if re.fullmatch("[0-9a-f]{64}", experiment) else remote.find(experiment)
    deadline = time.monotonic() + _START_PATIENCE_S
    while not remote.is_cosigned(digest):
        if time.monotonic() > deadline:
            raise BadInputError(
                f"the coordinator shows no experiment {digest[:12]}…",
                next_step=f"See which there are: ./secvm experiment list --coordinator http://127.0.0.1:{ports[0]}",
            )
        time.sleep(_EVERY_S)
    return digest, list(remote.experiment(digest).experiment.labels)


def _servers(folder: Path) -> dict[str, tuple[str, Path, int]]:
    """By name: the party, its settings, and its port; in the order in which they start."""
    from secvm.coordinator.main import SETTINGS_FILE as COORDINATOR_FILE
    from secvm.coordinator.settings import CoordinatorProgramSettings
    from secvm.federation.folders import COORDINATOR, ROLES
    from secvm.relay.setting_up import SETTINGS_FILE as RELAY_FILE
    from secvm.relay.settings import RelayServiceSettings
    from secvm.runtime.settings import read_settings
    from secvm.witness.main import SETTINGS_FILE as WITNESS_FILE
    from secvm.witness.settings import WitnessSettings

    if not (folder / COORDINATOR / COORDINATOR_FILE).exists():
        raise BadInputError(
            f"there is no federation in {folder}", next_step=f"Make one: ./secvm federation init {folder}"
        )
    servers: dict[str, tuple[str, Path, int]] = {}
    for path in sorted(folder.glob(f"witness-*/{WITNESS_FILE}")):
        servers[path.parent.name] = ("witness", path, read_settings(path, WitnessSettings).listen.port)
    path = folder / COORDINATOR / COORDINATOR_FILE
    servers[COORDINATOR] = ("coordinator", path, read_settings(path, CoordinatorProgramSettings).listen.port)
    for role in ROLES:
        path = folder / role / RELAY_FILE
        settings = read_settings(path, RelayServiceSettings)
        servers[role] = ("relay", path, settings.listen.port)
        if settings.relay.url is None or not settings.relay.url.startswith("http://127.0.0.1:"):
            raise BadInputError(
                f"the parties of {folder} are for machines of their own",
                next_step="Carry each folder to its machine, and serve it there. Without host names, 'federation init'"
                " makes one for this machine.",
            )
    return servers


def _refuse_taken(name: str, port: int) -> None:
    # Another federation that answers there would be taken for this one.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise BadInputError(
                f"port {port} of this machine is taken, and {name} listens there",
                next_step="End what has it, perhaps another federation, or change the port in the settings.",
            ) from None


def _await(children: Children, name: str, url: str) -> None:
    from secvm.runtime.http.client import ask_once

    deadline = time.monotonic() + _START_PATIENCE_S
    while True:
        children.check()
        try:
            if asyncio.run(ask_once(url, answer_s=_EVERY_S * 10, most=2**20)).status == 200:
                return
        except UnreachableError:
            pass
        if time.monotonic() > deadline:
            raise BadInputError(f"{name} does not answer at {url}; {children.log(name)} says why")
        time.sleep(_EVERY_S)
