"""TorControl: what a Tor client tells of its circuits and streams, over its control port (Tor's control-spec)."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from secvm.errors import UnreachableError

_LONGEST_WAIT_S = 30.0
_REACHED = re.compile(r'STREAM \d+ SUCCEEDED (\d+) (\S+) .*SOCKS_PASSWORD="([^"]*)"')


@dataclass(frozen=True)
class Stream:
    """A connection over Tor that reached its server."""

    #: What kept it apart from others, as the SOCKS client said it.
    isolation: str
    circuit: int
    target: str


class TorControl:
    """A control port. Each question has a connection of its own, but for ``watch``, which stays open."""

    def __init__(self, port: int, cookie: Path) -> None:
        self.port, self.cookie = port, cookie

    def ask(self, command: str) -> list[str]:
        """The lines of one answer, without their numbers."""
        with self._open() as connection:
            return connection.ask(command)

    def paths(self) -> dict[int, tuple[str, ...]]:
        """Names of the relays of each circuit that is built, in order."""
        circuits = {}
        for line in self.ask("GETINFO circuit-status"):
            number, status, path, *_ = [*line.split(" "), "", ""]
            if status == "BUILT":
                circuits[int(number)] = tuple(hop.partition("~")[2] or hop for hop in path.split(","))
        return circuits

    def add_onion(self, port: int, *, at: int) -> tuple[str, Conversation]:
        """An onion service at this virtual port, for a server on loopback: its address, and the conversation that keeps
        it alive.
        """
        connection = self._open()
        lines = connection.ask(f"ADD_ONION NEW:ED25519-V3 Flags=DiscardPK Port={port},127.0.0.1:{at}")
        return lines[0].removeprefix("ServiceID=") + ".onion", connection

    def watch(self) -> Conversation:
        """A conversation that is told of every stream from now on."""
        connection = self._open()
        connection.ask("SETEVENTS STREAM")
        return connection

    def _open(self) -> Conversation:
        try:
            cookie = self.cookie.read_bytes()
            connection = Conversation(socket.create_connection(("127.0.0.1", self.port), _LONGEST_WAIT_S))
        except OSError as error:
            raise UnreachableError(f"Tor's control port {self.port} cannot be asked: {error.strerror}") from None
        connection.ask("AUTHENTICATE " + cookie.hex())
        return connection


class Conversation:
    """An open connection to a control port."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._file = connection, connection.makefile("rb")
        self._events: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; what it kept alive ends with it."""
        self._file.close()
        self._connection.close()

    def ask(self, command: str) -> list[str]:
        """The lines of the answer to a command; events that come before it are kept."""
        self._connection.sendall(command.encode("ascii") + b"\r\n")
        said: list[str] = []
        while True:
            line = self._line()
            code, mark, rest = line[:3], line[3:4], line[4:]
            if code == "650":
                self._events.append(rest)
                continue
            if code != "250":
                raise UnreachableError(f"Tor refuses {command.split(maxsplit=1)[0]}: {rest}")
            said.append(rest)
            if mark == "+":
                while (data := self._line()) != ".":
                    said.append(data)
            elif mark == " ":
                return said

    def streams(self) -> list[Stream]:
        """Every stream that reached its server since ``watch``, in order."""
        self.ask("GETINFO version")
        matches = [_REACHED.match(event) for event in self._events]
        return [Stream(each[3], int(each[1]), each[2]) for each in matches if each is not None]

    def _line(self) -> str:
        line = self._file.readline()
        if not line:
            raise UnreachableError("Tor has closed its control port")
        return line.decode("ascii").rstrip("\r\n")
