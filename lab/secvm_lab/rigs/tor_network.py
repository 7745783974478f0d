"""TorNetwork: a private Tor network on loopback, of Debian's tor, for tests and benchmarks.

    with TorNetwork(folder) as network:
        client = network.client("alice")
        client.proxy                    # its SOCKS port
        client.ask("GETINFO circuit-status")
        network.children.kill("relay1")

Three directory authorities agree every ten seconds on who takes part; five relays are guards, middles and exits alike.
Clients hold a relay for an exit only where its policy lets it connect to most of the world; ours are asked for loopback
alone, so nothing leaves this machine. Keys of authorities take seconds to
make: with ``keys`` they are kept in a folder for the next network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from secvm.errors import BadInputError
from secvm.runtime.http.tor import TorProxy
from secvm.runtime.http.tor_control import TorControl
from secvm.testing.processes import Children, free_port

#: From the start to a working circuit; 7 to 21 s on two cores.
PATIENCE_S = 60.0
_NAP_S = 0.1
_AUTHORITIES, _RELAYS = 3, 5
_EVERYBODY = """\
TestingTorNetwork 1
PathsNeededToBuildCircuits 0.67
AssumeReachable 1
ShutdownWaitLength 0
Address 127.0.0.1
Log notice stdout
EnforceDistinctSubnets 0
ServerDNSResolvConfFile /dev/null
ServerDNSDetectHijacking 0
ServerDNSTestAddresses
ServerDNSAllowBrokenConfig 1
"""
#: With shorter delays authorities miss each other's votes, and end.
_AUTHORITY = """\
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
V3AuthNIntervalsValid 2
V3AuthVotingInterval 10
V3AuthVoteDelay 2
V3AuthDistDelay 2
TestingV3AuthInitialVotingInterval 5
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
TestingDirAuthVoteExit *
TestingDirAuthVoteGuard *
TestingDirAuthVoteHSDir *
TestingMinExitFlagThreshold 0
ContactInfo nobody
ExitPolicy reject *:*
SocksPort 0
"""
_RELAY = """\
ExitRelay 1
ExitPolicyRejectPrivate 0
ExitPolicy accept 127.0.0.0/8:*, accept private:*, accept *:*
SocksPort 0
"""


@dataclass(frozen=True)
class _Authority:
    name: str
    folder: Path
    or_port: int
    directory_port: int
    identity: str
    fingerprint: str

    @property
    def line(self) -> str:
        return (
            f"DirAuthority {self.name} orport={self.or_port} no-v2 v3ident={self.identity}"
            f" 127.0.0.1:{self.directory_port} {self.fingerprint}\n"
        )


class OnionDoor:
    """An onion service before a party of a ``Federation``, from its start to its end."""

    def __init__(self, control: TorControl, port: int) -> None:
        """``port``: where the party listens."""
        self._address, self._conversation = control.add_onion(80, at=port)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://{self._address}"

    def start(self) -> None:
        """It is there since it has an address."""

    def close(self) -> None:
        """Take it down."""
        self._conversation.close()


@dataclass(frozen=True)
class TorClient:
    """One Tor client of the network."""

    name: str
    proxy: TorProxy
    control: TorControl


class TorNetwork:
    """Authorities, relays and clients; all of them end with the block."""

    def __init__(self, folder: Path, *, keys: Path | None = None) -> None:
        """``folder``: for everything but ``keys``, which authorities have from network to network."""
        if shutil.which("tor") is None or shutil.which("tor-gencert") is None:
            raise BadInputError("Tor is not installed", next_step="As root: apt-get install tor.")
        self.folder, self._keys = folder, keys or folder / "keys"
        self.children = Children(folder)
        self._directory = ""

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with ThreadPoolExecutor(_AUTHORITIES) as pool:
                authorities = list(pool.map(self._authority, range(_AUTHORITIES)))
            self._directory = "".join(authority.line for authority in authorities)
            for authority in authorities:
                ports = f"ORPort 127.0.0.1:{authority.or_port}\nDirPort 127.0.0.1:{authority.directory_port}\n"
                self._start(authority.name, _AUTHORITY + ports, authority.folder)
            for number in range(_RELAYS):
                self._start(f"relay{number}", f"{_RELAY}ORPort 127.0.0.1:{free_port()}\n")
        except BaseException:
            self.children.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.children.stop()

    def client(self, name: str = "client", *, host: str = "127.0.0.1", isolated: bool = True) -> TorClient:
        """A client that is ready, with its SOCKS port at this address of the machine. ``isolated``: it keeps circuits
        apart by passwords.
        """
        proxy, control = TorProxy(host, free_port()), free_port()
        socks = f"SocksPort {proxy} {'' if isolated else 'No'}IsolateSOCKSAuth\n"
        lines = f"{socks}ControlPort 127.0.0.1:{control}\nCookieAuthentication 1\n"
        self._start(name, lines)
        self.wait_for(name)
        return TorClient(name, proxy, TorControl(control, self.folder / name / "control_auth_cookie"))

    def wait_for(self, name: str, *, since: int = 0) -> None:
        """Return when it has a circuit, said after so many bytes of its log."""
        deadline = time.monotonic() + PATIENCE_S
        while b"Bootstrapped 100%" not in (said := self.children.log(name).read_bytes()[since:]):
            self.children.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} has no circuit after {PATIENCE_S:g} s: {said[-2000:].decode()}")
            time.sleep(_NAP_S)

    def revive(self) -> None:
        """Start those relays again that were killed, with the keys that they had."""
        for number in range(_RELAYS):
            if f"relay{number}" not in self.children.names():
                self.children.restart(f"relay{number}")

    # ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, name: str, lines: str, place: Path | None = None) -> None:
        place = place or self.folder / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        nickname = f"Nickname {name}\n" if "ORPort" in lines else ""
        settings = place / "torrc"
        settings.write_text(f"{_EVERYBODY}{self._directory}{nickname}{lines}DataDirectory {place}\n", encoding="ascii")
        self.children.start(name, ["-f", str(settings)], program=("tor",))

    def _authority(self, number: int) -> _Authority:
        name = f"authority{number}"
        kept, place = self._keys / name, self.folder / name
        if not kept.exists():
            self._keys.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_keys(kept)
        place.mkdir(mode=0o700)
        shutil.copytree(kept, place / "keys")
        identity = re.search(
            r"^fingerprint ([0-9A-F]{40})$", (place / "keys" / _CERTIFICATE).read_text("ascii"), re.MULTILINE
        )
        options = {
            "--list-fingerprint": (),
            "-f": ("/dev/null",),
            "--ignore-missing-torrc": (),
            "--orport": ("1",),
            "--dirserver": ("x 127.0.0.1:1 " + "f" * 40,),
            "--datadirectory": (str(place),),
            "--nickname": (name,),
            "--hush": (),
        }
        said = _run("tor", *(word for option, values in options.items() for word in (option, *values)))
        fingerprint = "".join(said.strip().splitlines()[-1].split()[1:])
        assert identity is not None
        return _Authority(name, place, free_port(), free_port(), identity[1], fingerprint)


_CERTIFICATE = "authority_certificate"


def _make_keys(place: Path) -> None:
    """Keys of an authority, for a year. Other processes may make them at the same time: the first counts."""
    made = Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
    files = {"-i": "authority_identity_key", "-s": "authority_signing_key", "-c": _CERTIFICATE}
    _run(
        *("tor-gencert", "--create-identity-key", "-m", "12", "-a", "127.0.0.1:1", "--passphrase-fd", "0"),
        *(word for option, file in files.items() for word in (option, str(made / file))),
        said="made for a test\n",
    )
    try:
        made.rename(place)
    except OSError:
        shutil.rmtree(made)


def _run(*command: str, said: str = "") -> str:
    """What one of Tor's own programs says."""
    ran = subprocess.run(command, check=True, capture_output=True, text=True, input=said, timeout=PATIENCE_S)  # noqa: S603
    return ran.stdout
