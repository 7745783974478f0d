"""Measure what it costs a device to submit over Tor, beside the same submissions sent directly.

A private Tor network of Debian's ``tor`` runs on this machine, and a server stands where the entry relay would. The
submissions go through the device's own transport, each on a connection and, over Tor, on a circuit of its own; so many
are under way at once. CPU seconds are those of the sender, and beside them those of the Tor client that carries it; all
relays of the network run on this machine too, so submissions a second are fewer than a person's Tor would reach.
``bootstrap_s`` is from the start of the client, on a network that is there, to its first circuit.

    ./secvm bench tor [--submissions 60] [--bytes 20000] [--at-once 8]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._measuring import memory_mb, say
from secvm.crypto.signing import SigningKey
from secvm.participant.sending.transport import RelayTransport
from secvm.protocol.documents.experiment import Relay
from secvm.runtime.http.client import HttpClient
from secvm.runtime.http.tor import TorProxy
from secvm_lab.rigs.tor_network import TorNetwork

_CLIENT = "client"
_SERVER = """
import asyncio
from secvm.runtime.http.server import HttpResponse, HttpServer, Limits
from secvm.runtime.logs import SILENT
from secvm.runtime.service import run_service
async def main(stop):
    server = HttpServer(lambda request: HttpResponse(200, b"receipt"), limits=Limits(body_bytes=2**24))
    print(await server.start("127.0.0.1", 0), flush=True)
    await stop.wait()
    await server.drain(patience_s=0)
run_service(main, log=SILENT)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--submissions", type=int, default=60, help="each way")
    parser.add_argument("--bytes", type=int, default=20_000, help="of a submission")
    parser.add_argument("--at-once", type=int, default=8, help="under way at a time")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Both ways, one after the other."""
    with tempfile.TemporaryDirectory() as folder, TorNetwork(Path(folder) / "network") as network:
        say("a private Tor network starts, half a minute or so")
        network.client("first")
        began = time.monotonic()
        client = network.client(_CLIENT)
        bootstrap_s = time.monotonic() - began
        pid = network.children.pid(_CLIENT)
        with subprocess.Popen([sys.executable, "-P", "-c", _SERVER], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                port = int(server.stdout.readline())
                direct = _submit(arguments, port, None, pid)
                say("over Tor")
                over_tor = _submit(arguments, port, client.proxy, pid)
            finally:
                server.terminate()
        return {
            "submissions": arguments.submissions,
            "bytes": arguments.bytes,
            "at_once": arguments.at_once,
            "direct": direct,
            "tor": over_tor,
            "slower": round(direct["a_second"] / over_tor["a_second"], 1),
            "sender_cpu_ratio": round(over_tor["sender_cpu_ms"] / direct["sender_cpu_ms"], 2),
            "bootstrap_s": round(bootstrap_s, 1),
            "tor_client_mb": round(memory_mb("VmHWM", pid)),
            "tor_network_mb": round(
                sum(memory_mb("VmRSS", network.children.pid(one)) for one in network.children.names())
            ),
        }


def _submit(arguments: argparse.Namespace, port: int, tor: TorProxy | None, tor_pid: int) -> dict[str, float]:
    return asyncio.run(_submit_all(arguments, port, tor, tor_pid))


async def _submit_all(arguments: argparse.Namespace, port: int, tor: TorProxy | None, tor_pid: int) -> dict[str, float]:
    url = f"http://127.0.0.1:{port}/relay"
    way = Relay(url=url, key=SigningKey(os.urandom(32)).public)
    transport = RelayTransport(HttpClient(connections=1), [url], os.urandom, tor=tor)
    body, room, again = os.urandom(arguments.bytes), asyncio.Semaphore(arguments.at_once), 0

    async def one(number: int) -> None:
        nonlocal again
        async with room:
            # A circuit that fails costs another try, as it costs a device.
            while (await transport.submit(body, number.to_bytes(16, "big"), way)).content is None:
                again += 1

    await one(0)
    began, own, tors = time.monotonic(), time.process_time(), _cpu_s(tor_pid)
    await asyncio.gather(*(one(number) for number in range(arguments.submissions)))
    seconds, count = time.monotonic() - began, arguments.submissions
    return {
        "a_second": round(count / seconds, 1),
        "sender_cpu_ms": round(1000 * (time.process_time() - own) / count, 2),
        "tor_client_cpu_ms": round(1000 * (_cpu_s(tor_pid) - tors) / count, 2),
        "tries_again": again,
    }


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
