"""The door before a federation's nodes: in turn, past those who are away, and not for ever at one who says nothing."""

import socket
import threading

from secvm.testing.processes import free_port
from secvm_lab.rigs.balancer import Balancer


class Answering:
    """Answers each connection with its name, or takes it and says nothing."""

    def __init__(self, name: bytes, *, silent: bool = False) -> None:
        self._name, self._silent = name, silent
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._held: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if self._silent:
                self._held.append(connection)
                continue
            with connection:
                connection.recv(100)
                connection.sendall(self._name)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._held:
            connection.close()


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"who?")
        return connection.recv(100)


def test_they_are_asked_in_turn_and_those_who_are_away_are_left_out() -> None:
    one, two = Answering(b"one"), Answering(b"two")
    door = Balancer(free_port(), [one.port, two.port, free_port()])
    door.start()
    try:
        assert {ask(door.port) for _ in range(6)} == {b"one", b"two"}
        one.close()
        assert {ask(door.port) for _ in range(4)} == {b"two"}
    finally:
        door.close()
        door.close()
        two.close()


def test_one_that_says_nothing_is_left_alone_for_a_while() -> None:
    quiet, two = Answering(b"", silent=True), Answering(b"two")
    door = Balancer(free_port(), [two.port, quiet.port], silence_s=0.05)
    door.start()
    try:
        answers = [ask(door.port) for _ in range(6)]
        # The connection to it is ended, and whoever asks again gets the other one.
        assert answers.count(b"") == 1
        assert answers.count(b"two") == 5
    finally:
        door.close()
        quiet.close()
        two.close()
