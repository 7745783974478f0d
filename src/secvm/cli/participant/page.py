"""``secvm participant ui``: the person's own page, on this machine only."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.cli.participant.state import FolderOption, MaybeConfigOption, consent_of, device_folder, settings_of
from secvm.cli.parties import PassphraseFd, PassphraseFile, passphrase_of
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm.participant.settings import ParticipantSettings
    from secvm.participant.ui.desk import Desk
    from secvm.runtime.disk.secret_files import Passphrase


def ui(
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    listen: Annotated[
        str, typer.Option("--listen", help="Address of this machine and port; 0: any free one.")
    ] = "127.0.0.1:0",
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
    what you can do there, until Ctrl-C. It can run beside secvm participant run. Without --config nothing can be
    joined. Example:

    \b
        ./secvm participant ui --config device.toml --open
    """
    from secvm.participant.main import make_clock
    from secvm.participant.ui.guard import OpeningFile, new_secret
    from secvm.participant.ui.server import serve_page
    from secvm.runtime.clock import SystemClock
    from secvm.runtime.logs import Log
    from secvm.runtime.service import run_service

    settings = settings_of(config, folder)
    if settings is not None and settings.testing is not None and settings.testing.people is not None:
        raise BadInputError(
            "these settings carry many made-up people", next_step="Name the folder of one of them with --folder."
        )
    place = device_folder(folder) if settings is None else settings.device.folder
    if not place.is_dir():
        raise BadInputError(f"{place}: there is no device here", next_step="Name it with --config or --folder.")
    passphrase = passphrase_of(passphrase_file, passphrase_fd)
    clock = SystemClock() if settings is None else make_clock(settings)
    log = Log(sys.stderr, clock, party="participant")

    async def serve(stop: asyncio.Event) -> None:
        desk, close = _desk(settings, config, place, passphrase)
        opening = OpeningFile(place)
        try:
            page = await serve_page(listen, desk, new_secret(os.urandom), log=log, entered=opening.remove)
            try:
                text = f"Your page: {page.address}\nKeep the address to yourself. Ctrl-C ends it."
                emit({"page": page.address}, output_format, text=text)
                if open_browser and not opening.lead(page.address):
                    note("No browser was found: open the address yourself.")
                try:
                    async with asyncio.timeout(None if minutes is None else 60 * minutes):
                        await stop.wait()
                except TimeoutError:
                    note("The time is over.")
            finally:
                await page.close()
        finally:
            opening.remove()
            await close()

    run_service(serve, log=log)


def _desk(
    settings: ParticipantSettings | None, config: Path | None, place: Path, passphrase: Passphrase
) -> tuple[Desk, Callable[[], Awaitable[None]]]:
    """The desk of this device, and what lets go of its connections."""
    from secvm.participant.device import DAILY_BYTES
    from secvm.participant.main import make_clock, make_transport, way_of
    from secvm.participant.storage.device_lock import open_lock
    from secvm.participant.ui.desk import Desk
    from secvm.runtime.clock import SteadyClock, SystemClock

    steady = SteadyClock().now
    lock = open_lock(place, passphrase, os.urandom)
    consent = consent_of(config)
    if settings is None:

        async def nothing() -> None:
            pass

        desk = Desk(place, now=SystemClock().now, consent=consent, daily_bytes=DAILY_BYTES, lock=lock, steady=steady)
        return desk, nothing
    transport = make_transport(settings, passphrase)
    way = way_of(settings, transport)
    desk = Desk(
        place,
        now=make_clock(settings).now,
        consent=consent,
        daily_bytes=settings.traffic.daily_bytes,
        lock=lock,
        way=way,
        steady=steady,
    )
    return desk, transport.close
