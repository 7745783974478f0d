"""A federation of ``secvm federation init`` at ports that nobody else has: tests run beside one another."""

import re
from pathlib import Path

from secvm.testing.processes import free_port

_PORT = re.compile(r"\b8(?:480|481|490|491|492|500|750)\b")


def move_to_free_ports(folder: Path) -> str:
    """Put other ports in the place of the usual ones in all settings; the coordinator's URL."""
    others: dict[str, str] = {}

    def other(found: re.Match[str]) -> str:
        return others.setdefault(found[0], str(free_port()))

    for path in folder.rglob("*.toml"):
        path.write_text(_PORT.sub(other, path.read_text(encoding="utf-8")), encoding="utf-8")
    return f"http://127.0.0.1:{others['8750']}"
