"""The page's settings, as its TOML file and its command line have them. docs/how-to/look.md shows a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from secvm.errors import BadInputError
from secvm.runtime.settings import Listen, Settings, usual_port

#: Where it listens unless its settings say otherwise.
PORT = 8440
#: A host of a URL: a name, or an address without brackets.
PublicHost = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,250}[A-Za-z0-9])?$")]


class WatchedCoordinator(Settings):
    """``[coordinator]``: who is watched."""

    #: Where its public files are, and its /health, /metrics and /admin.
    url: str
    #: How often it is looked at, in seconds.
    poll_s: float = Field(default=1.0, ge=0.1, le=3600)


class PageSettings(Settings):
    """``[page]``: what is shown, and to whom."""

    #: Names besides the loopback's by which browsers may ask for this page, as they stand in its address.
    public_hosts: tuple[PublicHost, ...] = Field(default=(), max_length=16)
    #: IANA name of the zone in which nights are shaded for experiments that are always open.
    time_zone: str = "UTC"


class Audit(Settings):
    """``[audit]``: everything that is public, played again and again."""

    #: Seconds between the end of one and the next; 0: only one, at the start.
    every_s: float = Field(default=600, ge=0, le=10**7)
    #: Whether there is one at all.
    on: bool = True


class DashboardTesting(Settings):
    """``[testing]``: not for people's packages."""

    #: A file that steers the clock (``runtime.clock.SteeredClock``).
    clock: Path | None = None


class DashboardSettings(Settings):
    """All of it."""

    listen: Annotated[Listen, usual_port(PORT)] = Listen(port=PORT)
    coordinator: WatchedCoordinator
    page: PageSettings = PageSettings()
    audit: Audit = Audit()
    testing: DashboardTesting = DashboardTesting()


def read_listen(text: str) -> Listen:
    """HOST:PORT as it stands on a command line; an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise BadInputError("--listen must be a host and a port, such as 127.0.0.1:8440")
    return Listen(host=host, port=int(port))
