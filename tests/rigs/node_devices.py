"""Devices of the browser extension's code in node, beside Python's, in one federation."""

from __future__ import annotations

import json
from typing import Any

from secvm.testing.federation import RELAY_PATH, Federation, HostOf
from secvm_lab.node import link_packages, node
from tests.conftest import ROOT

EXTENSION = ROOT / "extension"


class MixedFederation(Federation):
    """A federation whose last host carries its people's devices in node."""

    @property
    def node_host(self) -> str:
        return self.host_names[-1]

    def write_host(self, name: str, host: HostOf, digest: str) -> None:
        if name != self.node_host:
            super().write_host(name, host, digest)
            return
        people = [json.loads(line) for line in host.people.read_text(encoding="utf-8").splitlines()]
        carried = range(host.first, host.first + host.count)
        settings = {
            "clock": str(self.folder / "clock"),
            "port": self.port(name),
            "seed": self.seed,
            "experiment": digest,
            "relay": self.url(self.relay_names[0]) + RELAY_PATH,
            "people": [{"number": number, **people[number]} for number in carried],
        }
        (self.folder / f"{name}.json").write_text(json.dumps(settings), encoding="utf-8")

    def start_host(self, name: str) -> None:
        if name != self.node_host:
            super().start_host(name)
            return
        link_packages(EXTENSION)
        program = [str(node()), str(EXTENSION / "test/rigs/host.ts")]
        self.children.start(name, [str(self.folder / f"{name}.json")], program=program)

    def kept(self, number: int) -> dict[str, Any]:
        """What the device of this number in node keeps and believes."""
        said: dict[str, Any] = json.loads(self.ask(self.node_host, "GET", f"/device/{number}"))
        return said
