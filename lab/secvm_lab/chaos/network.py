"""Network: one hub and a namespace for each machine around it, joined by cables that can be cut and slowed.

    if (why := why_no_network()) is None:
        with Network() as network:              # from here on this thread is in the hub
            address = network.add("node-0")     # a machine; processes are started in ``network.place("node-0")``
            network.cut("node-0")
            network.heal("node-0")

Hub and machines are network namespaces of their own, so that nothing can leave them: no cable leads to the machine that
all of this runs on. Their names have this process's id, and they are gone at the end, also when something failed. It
takes root and iproute2. A cable is slowed by ``netem`` where the kernel has it, else by ``tbf``, which only limits how
much goes through; ``slowed_by`` says which.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Self

from secvm_lab.chaos.small_disk import run

_CLONE_NEWNET = 0x40000000
#: Found before any process is started: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
#: The hub's own address, which every machine reaches over its cable.
HUB_ADDRESS = "10.77.255.1"
_NAMESPACES = Path("/run/netns")
#: A bad line over land, and the same as a limit: a manifest takes a second or so.
_SLOW = {
    "netem": ("netem", "delay", "120ms", "40ms", "loss", "1%"),
    "tbf": ("tbf", "rate", "200kbit", "burst", "4kb", "latency", "800ms"),
}


class NetworkUnavailableError(Exception):
    """No namespaces, no cables: why, in a sentence."""


def why_no_network() -> str | None:
    """Why there can be no namespaces here; None where there can."""
    if _LIBC is None:
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need iproute2"
    try:
        with Network() as network:
            network.add("trial")
    except NetworkUnavailableError as error:
        return str(error)
    return None


def enter(place: Path) -> None:
    """Move this thread, and all that it starts, into a namespace."""
    assert _LIBC is not None
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(handle)


class Network:
    """The hub and its cables. Use it in a ``with``, in one thread."""

    def __init__(self) -> None:
        # The thread's id: two networks of one process would have the same names otherwise.
        self._mark = f"secvm-{os.getpid()}-{threading.get_native_id()}"
        self._machines: dict[str, int] = {}
        self._home = -1
        #: What slows a cable here; None: nothing does.
        self.slowed_by: str | None = None

    def __enter__(self) -> Self:
        assert sys.platform == "linux"
        self._home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._ip("netns", "add", self._hub)
            self._ip("-n", self._hub, "link", "set", "lo", "up")
            self._ip("-n", self._hub, "address", "add", f"{HUB_ADDRESS}/32", "dev", "lo")
            enter(_NAMESPACES / self._hub)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise NetworkUnavailableError("network namespaces cannot be entered here") from None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Go home; take everything down. A cable goes with its namespaces. Twice is once."""
        if self._home < 0:
            return
        assert _LIBC is not None
        _LIBC.setns(self._home, _CLONE_NEWNET)
        os.close(self._home)
        self._home = -1
        for name in [*self._machines, None]:
            with contextlib.suppress(NetworkUnavailableError):
                self._ip("netns", "delete", self._hub if name is None else self._namespace(name))
        self._machines.clear()

    def add(self, name: str) -> str:
        """A machine with a cable to the hub; its address. It reaches the hub and nobody else."""
        number = len(self._machines)
        space, cable = self._namespace(name), self._cable(number)
        self._ip("netns", "add", space)
        self._machines[name] = number
        self._ip("-n", self._hub, "link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", space)
        self._ip("-n", self._hub, "address", "add", f"10.77.{number}.1/30", "dev", cable)
        self._ip("-n", space, "address", "add", f"10.77.{number}.2/30", "dev", "cable")
        self._ip("-n", self._hub, "link", "set", cable, "up")
        for device in ("lo", "cable"):
            self._ip("-n", space, "link", "set", device, "up")
        self._ip("-n", space, "route", "add", f"{HUB_ADDRESS}/32", "via", f"10.77.{number}.1")
        if number == 0:
            self.slowed_by = self._find_slowing(cable)
        return f"10.77.{number}.2"

    def place(self, name: str) -> Path:
        """The namespace in which a machine's processes are started."""
        assert name in self._machines
        return _NAMESPACES / self._namespace(name)

    def cable(self, name: str) -> str:
        """The device in the hub at which a machine's cable ends."""
        return self._cable(self._machines[name])

    def cut(self, name: str) -> None:
        """Nothing goes through any more; connections do not notice at once."""
        self._ip("-n", self._hub, "link", "set", self.cable(name), "down")

    def slow(self, name: str) -> None:
        """What goes through takes its time, in both directions."""
        if self.slowed_by is None:
            raise NetworkUnavailableError("this kernel slows no cable: neither netem nor tbf")
        cable = self.cable(name)
        for space, device in ((self._hub, cable), (self._namespace(name), "cable")):
            self._run("tc", "-n", space, "qdisc", "replace", "dev", device, "root", *_SLOW[self.slowed_by])

    def heal(self, name: str) -> None:
        """As if nothing had been."""
        cable = self.cable(name)
        self._ip("-n", self._hub, "link", "set", cable, "up")
        for space, device in ((self._hub, cable), (self._namespace(name), "cable")):
            # There is nothing to be deleted where nothing was slowed.
            with contextlib.suppress(NetworkUnavailableError):
                self._run("tc", "-n", space, "qdisc", "delete", "dev", device, "root")

    def _find_slowing(self, cable: str) -> str | None:
        for name, words in _SLOW.items():
            with contextlib.suppress(NetworkUnavailableError):
                self._run("tc", "-n", self._hub, "qdisc", "replace", "dev", cable, "root", *words)
                self._run("tc", "-n", self._hub, "qdisc", "delete", "dev", cable, "root")
                return name
        return None

    @property
    def _hub(self) -> str:
        return f"{self._mark}-hub"

    def _namespace(self, name: str) -> str:
        return f"{self._mark}-{name}"

    @staticmethod
    def _cable(number: int) -> str:
        # Fifteen letters are all that a device's name may have; it is alone with its like in the hub.
        return f"v{os.getpid()}-{number}"

    def _ip(self, *words: str) -> None:
        self._run("ip", *words)

    @staticmethod
    def _run(*words: str) -> None:
        said = run(*words)
        if said is not None:
            raise NetworkUnavailableError(f"'{' '.join(words[:4])} …' did not work: {said}")
