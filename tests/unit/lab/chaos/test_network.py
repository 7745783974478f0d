"""Cables between network namespaces: cut, slowed, healed, and gone at the end. Where there can be none, it is said."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from secvm_lab.chaos import network as networks
from secvm_lab.chaos.network import HUB_ADDRESS, Network, NetworkUnavailableError, why_no_network

_ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("listening", flush=True)
    while True:
        one, _ = server.accept()
        with one:
            one.sendall(one.recv(100))
"""


def echoed(address: str, port: int, *, patience_s: float) -> bytes | None:
    try:
        with socket.create_connection((address, port), timeout=patience_s) as one:
            one.sendall(b"hello")
            return one.recv(100)
    except OSError:
        return None


def ours() -> list[str]:
    folder = Path("/run/netns")
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if name.startswith(f"secvm-{os.getpid()}-")]


def where() -> Path:
    """The namespace that this thread is in."""
    return Path("/proc/thread-self/ns/net").readlink()


def test_cables_are_cut_slowed_and_healed_and_nothing_is_left() -> None:
    why = why_no_network()
    if why is not None:
        # Said in a sentence, and nothing is left of the trial.
        assert why
        assert not ours()
        return
    home = where()
    with Network() as network:
        assert where() != home
        address = network.add("node-0")
        network.add("node-1")
        assert len(ours()) == 3
        place = network.place("node-0")
        server = subprocess.Popen(
            [sys.executable, "-c", _ECHO, address, "7000"],
            stdout=subprocess.PIPE,
            preexec_fn=lambda: networks.enter(place),  # noqa: PLW1509  (one system call)
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n"
            assert echoed(address, 7000, patience_s=5) == b"hello"
            network.cut("node-0")
            assert echoed(address, 7000, patience_s=0.2) is None
            network.heal("node-0")
            assert echoed(address, 7000, patience_s=5) == b"hello"
            assert network.slowed_by in ("netem", "tbf", None)
            if network.slowed_by is not None:
                network.slow("node-0")
                assert echoed(address, 7000, patience_s=10) == b"hello"
                network.heal("node-0")
        finally:
            server.kill()
            server.wait()
            assert server.stdout is not None
            server.stdout.close()
        # The hub is a place of its own: this machine's other addresses are not there.
        assert echoed(HUB_ADDRESS, 1, patience_s=1) is None
    assert where() == home
    assert not ours()


def test_a_failure_leaves_no_namespace() -> None:
    if why_no_network() is not None:
        assert not ours()
        return
    with pytest.raises(KeyError), Network() as network:
        # A machine that was never added.
        network.cut("node-0" if network.add("node-1") else "")
    assert not ours()


def test_what_is_missing_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "iproute2" in str(why_no_network())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in str(why_no_network())


def test_a_program_that_fails_is_told_of_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    false = tmp_path / "ip"
    false.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    false.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _name: str(false))
    before = where()
    with pytest.raises(NetworkUnavailableError, match="not permitted"), Network():
        pass
    assert where() == before


def test_other_threads_stay_where_they_are() -> None:
    if why_no_network() is not None:
        assert not ours()
        return
    inside, go = threading.Event(), threading.Event()
    seen: list[Path] = []

    def look() -> None:
        inside.set()
        go.wait()
        seen.append(where())

    thread = threading.Thread(target=look)
    home = where()
    thread.start()
    inside.wait()
    with Network():
        go.set()
        thread.join()
    assert seen == [home]
