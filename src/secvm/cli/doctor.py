"""``secvm doctor``: whether the Tor of this machine does what a device needs of it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, table
from secvm.cli.participant.state import ConfigOption, FolderOption, device_of
from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.http.client import HttpClient, checked_url
from secvm.runtime.http.tor import ANSWER_S, DEFAULT_PROXY, ISOLATION_BYTES, Circuit, TorProxy, greet
from secvm.runtime.http.tor_control import Conversation, TorControl

#: Where Debian's Tor keeps what opens its control port.
_COOKIE = Path("/run/tor/control.authcookie")
#: Of an answer; what it says is looked at by nobody.
_MOST_BYTES = 2**13


def doctor(
    relay: Annotated[
        str | None, typer.Argument(help="A relay to reach.", show_default="that of your device's settings")
    ] = None,
    config: ConfigOption = None,
    folder: FolderOption = None,
    tor_proxy: Annotated[
        str | None, typer.Option(help="Tor's SOCKS port.", show_default=f"that of the settings, or {DEFAULT_PROXY}")
    ] = None,
    control_port: Annotated[
        int | None, typer.Option(help="Tor's control port: which circuits were taken is asked there.", min=1, max=65535)
    ] = None,
    cookie: Annotated[Path, typer.Option(help="What opens the control port.")] = _COOKIE,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Look whether Tor works here, and keeps circuits apart.

    A relay is asked for its public key twice, each time on a circuit of its own, as a device asks. With the control
    port it is said which relays of Tor each circuit went through. Example:

    \b
        ./secvm doctor https://relay.example/relay --control-port 9051
    """
    settings, _ = device_of(config, folder)
    own = None if settings is None else settings.relay
    if relay is None and own is None:
        raise BadInputError(
            "there is no relay to reach", next_step="Name one: secvm doctor https://relay.example/relay"
        )
    url = checked_url(relay or (own.urls[0] if own is not None else ""), "a relay's address")
    try:
        proxy = TorProxy.from_text(tor_proxy or (DEFAULT_PROXY if own is None else own.tor_proxy))
    except ValueError:
        raise BadInputError(f"--tor-proxy is an address of this machine and a port, such as {DEFAULT_PROXY}") from None
    control = None if control_port is None else TorControl(control_port, cookie)
    asyncio.run(greet(proxy))
    watching = None if control is None else control.watch()
    names = [os.urandom(ISOLATION_BYTES) for _ in range(2)]
    took = [asyncio.run(_ask(url, Circuit(proxy, name))) for name in names]
    circuits = [] if watching is None else _circuits(watching, names)
    if len(set(circuits)) < len(circuits):
        raise BadInputError(
            f"Tor put both connections on circuit {circuits[0]}: it does not keep them apart",
            next_step="Its SOCKS port needs IsolateSOCKSAuth, which is the default.",
        )
    paths = {} if control is None else control.paths()
    went = [" → ".join(paths.get(number, ("gone since",))) for number in circuits]
    rows = [
        ("proxy", f"{proxy} takes passwords, so Tor can keep circuits apart"),
        ("relay", f"{url} answered over Tor after {took[0]:.1f} s and {took[1]:.1f} s"),
        *(("circuit", f"{number}: {path}") for number, path in zip(circuits, went, strict=True)),
    ]
    if control is None:
        rows.append(("circuits", "not looked at: --control-port tells which were taken"))
    content = {
        "proxy": str(proxy),
        "relay": url,
        "seconds": [round(seconds, 3) for seconds in took],
        "circuits": [{"number": number, "path": path} for number, path in zip(circuits, went, strict=True)],
    }
    emit(content, output_format, text="\n".join(table(rows)))


async def _ask(url: str, circuit: Circuit) -> float:
    began = time.monotonic()
    async with HttpClient(connections=1, answer_s=ANSWER_S, circuit=circuit) as client:
        try:
            answer = await client.ask(f"{url}/keys", most=_MOST_BYTES)
        except UnreachableError as fault:
            raise BadInputError(f"{url} is not reached over Tor: {fault}") from None
    if answer.status != 200:
        raise BadInputError(f"{url} answers over Tor, and is no relay: it has no keys (status {answer.status})")
    return time.monotonic() - began


def _circuits(watching: Conversation, names: list[bytes]) -> list[int]:
    """The circuit that each of these took."""
    with watching:
        of = {stream.isolation: stream.circuit for stream in watching.streams()}
    return [of[name.hex()] for name in names if name.hex() in of]
