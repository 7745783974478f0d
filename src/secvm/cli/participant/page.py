"""``secvm participant ui``: the person's own page, on this machine only."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note, program
from secvm.cli.participant.state import ConfigOption, FolderOption, consent_of, device_of
from secvm.cli.parties import PassphraseFd, PassphraseFile, passphrase_of
from secvm.errors import BadInputError


def ui(
    config: ConfigOption = None,
    folder: FolderOption = None,
    listen: Annotated[
        str, typer.Option("--listen", help="Address of this machine and port; 0: any free one.")
    ] = "127.0.0.1:0",
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Take part while it is open, unless another process does.")
    ] = True,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0, help="End after so many minutes.", show_default="at Ctrl-C")
    ] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Serve your own page, on this machine alone.

    It answers on this machine only, at an address with a secret that is new each time. Whoever has the address can do
    what you can do there, until Ctrl-C. While it is open your device takes part in what you have joined, unless secvm
    participant run does so already. Without settings nothing can be joined. Example:

    \b
        ./secvm participant ui --open
    """
    from secvm.participant.device import DAILY_BYTES
    from secvm.participant.main import make_clock, make_transport, way_of
    from secvm.participant.main import serve as run_device
    from secvm.participant.storage.device_lock import open_lock
    from secvm.participant.ui.desk import Desk
    from secvm.participant.ui.guard import OpeningFile, new_secret
    from secvm.participant.ui.server import serve_page
    from secvm.runtime.clock import SteadyClock, SystemClock
    from secvm.runtime.disk.process_lock import is_carried
    from secvm.runtime.logs import Log
    from secvm.runtime.service import run_service

    settings, place = device_of(config, folder)
    if settings is not None and settings.testing is not None and settings.testing.people is not None:
        raise BadInputError(
            "these settings carry many made-up people", next_step="Name the folder of one of them with --folder."
        )
    if not place.is_dir():
        raise BadInputError(
            f"{place}: there is no device here", next_step=f"Make one with: {program()} participant init INVITE"
        )
    passphrase = passphrase_of(passphrase_file, passphrase_fd)
    clock = SystemClock() if settings is None else make_clock(settings)
    log = Log(sys.stderr, clock, party="participant")

    async def serve(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            way = None
            if settings is not None:
                transport = make_transport(settings, passphrase)
                opened.push_async_callback(transport.close)
                way = way_of(settings, transport)
            desk = Desk(
                place,
                now=clock.now,
                consent=consent_of(settings),
                daily_bytes=DAILY_BYTES if settings is None else settings.traffic.daily_bytes,
                lock=open_lock(place, passphrase, os.urandom),
                way=way,
                steady=SteadyClock().now,
            )
            opening = OpeningFile(place)
            opened.callback(opening.remove)
            page = await serve_page(listen, desk, new_secret(os.urandom), log=log, entered=opening.remove)
            opened.push_async_callback(page.close)
            text = f"Your page: {page.address}\nKeep the address to yourself. Ctrl-C ends it."
            emit({"page": page.address}, output_format, text=text)
            if open_browser and not opening.lead(page.address):
                note("No browser was found: open the address yourself.")
            invited = asyncio.create_task(desk.take_up_invitations())
            waits: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
            if run and settings is not None and not is_carried(place):
                waits.append(asyncio.create_task(run_device(settings, stop, passphrase)))
            done, _ = await asyncio.wait(
                waits, timeout=None if minutes is None else 60 * minutes, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                note("The time is over.")
            stop.set()
            invited.cancel()
            await asyncio.gather(*waits)

    run_service(serve, log=log)
