"""A device sends nothing but what ``participant.sending.transport`` sends: no other module of it opens a connection."""

import ast
import asyncio
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
CLIENT, DOOR = "secvm.runtime.http.client", "secvm.participant.sending.transport"
#: Connects to Tor's proxy of this machine, for the client.
TOR = "secvm.runtime.http.tor"
#: A person starts these: the device itself, and its commands.
STARTS = ("participant", "cli/participant")
#: All that a device takes from elsewhere and that reaches nobody by itself; whatever is not here is taken for a means.
HARMLESS = frozenset(
    {
        "__future__", "abc", "array", "asyncio", "base64", "binascii", "bisect", "collections", "concurrent",
        "configparser", "contextlib", "contextvars", "copy", "cryptography", "csv", "dataclasses", "datetime",
        "decimal", "email", "enum", "fcntl", "fractions", "functools", "getpass", "glob", "gzip", "hashlib",
        "heapq", "hmac", "html", "http", "importlib", "io", "ipaddress", "itertools", "json", "llvmlite",
        "logging", "math", "mmap", "numba", "numpy", "operator", "orjson", "os", "pathlib", "platform",
        "py_arkworks_bls12381", "pydantic", "pydantic_core",
        "re", "resource", "rich", "secvm", "shutil", "signal", "sqlite3",
        "stat", "statistics", "struct", "sys", "tempfile", "threading", "time", "tomllib", "traceback",
        "typer", "types", "typing", "unicodedata", "urllib", "yarl", "zlib", "zoneinfo",
    }
)  # fmt: skip
#: Of these, what can open a connection, or start a program that can.
MEANS = ("asyncio.subprocess", "http.client", "http.server", "logging.config", "logging.handlers", "urllib.request")
#: Functions and methods that can, or that look a name up, or that load a module by a name which is not to be seen here.
CALLS = {
    name
    for name in {*dir(os), *dir(asyncio), *dir(asyncio.AbstractEventLoop)}
    if re.match("exec|fork|popen|posix_spawn|spawn|startfile|system$", name)
    or re.search("connection|endpoint|getaddrinfo|getnameinfo|server|sock_|subprocess", name)
} | {"__import__", "entry_points", "eval", "exec", "exec_module", "import_module"}
#: These listen on this machine and answer its own browser; the first of them holds the only listening socket.
LISTENERS = {"secvm.pages.serving", "secvm.participant.status_page", "secvm.participant.ui.server"}
#: Modules that have a means and send nothing with it, and what they have it for.
OTHERS = {
    "secvm.runtime.lanes": "starts a C compiler when an operator asks, which no device does: find_lanes only looks",
    "secvm.crypto.sealing.lanes": "calls the library that this compiler made",
    "secvm.participant.ui.guard": "starts the person's browser with a file of this machine, never with an address",
    "secvm.crypto.tokens": "loads the group's arithmetic by its name",
    "secvm.runtime.service": "loads uvloop by its name",
    "secvm.participant.sources.registry": "loads sources of features that the person has installed",
    "secvm.learning.declared": "loads descent rules and losses that the person has installed",
    "secvm.cli.commands": "loads commands that the person has installed",
}


def path_of(module: str) -> Path | None:
    place = SOURCE.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all that is imported, anywhere in a module; of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def device_modules() -> dict[str, ast.AST]:
    """Every module of ours that the participant or one of its commands loads, by any way round."""
    paths = [path for start in STARTS for path in (SOURCE / "secvm" / start).rglob("*.py")]
    waiting = {".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for path in paths}
    loaded: dict[str, ast.AST] = {}
    while waiting:
        module = waiting.pop()
        path = path_of(module)
        if module not in loaded and path is not None:
            loaded[module] = ast.parse(path.read_text())
            waiting |= {name for name in imports_of(loaded[module]) if name.startswith("secvm.")}
        # Whoever loads a module has loaded the folders around it.
        waiting |= {module.rpartition(".")[0]} - {""} - set(loaded)
    return loaded


def opens_connections(tree: ast.AST) -> bool:
    """Whether a module has any means to reach somebody."""
    names = set(imports_of(tree))
    strange = any(name.partition(".")[0] not in HARMLESS for name in names)
    named = any(name == means or name.startswith(f"{means}.") for name in names for means in MEANS)
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    called |= {name.rpartition(".")[2] for name in names if not name.startswith("secvm.")}
    return strange or named or bool(called & CALLS)


def test_one_module_of_a_device_opens_connections_and_one_uses_it() -> None:
    loaded = device_modules()
    assert len(loaded) > 100
    means = {module for module, tree in loaded.items() if opens_connections(tree)}
    assert means == {CLIENT, TOR, *LISTENERS, *OTHERS}
    # Also by way of the door, which has the client's names among its own.
    taken = {name.removeprefix(CLIENT) for name in imports_of(loaded[DOOR]) if name.startswith(CLIENT)}
    client = {place + name for name in taken for place in (CLIENT, DOOR)} - {DOOR}
    assert {module for module, tree in loaded.items() if client & set(imports_of(tree))} == {DOOR}
    # Of Tor's others know where its proxy is, and nothing that connects to it.
    known = {f"{TOR}.{name}" for name in ("DEFAULT_PROXY", "TorProxy")} | {TOR}
    tors = {module: {name for name in imports_of(tree) if name.startswith(TOR)} for module, tree in loaded.items()}
    assert {module for module, names in tors.items() if names - known} == {CLIENT, DOOR}


@pytest.mark.parametrize(
    "violation",
    [
        "import socket",
        "import requests",
        "import xmlrpc.client",
        "import webbrowser",
        "import multiprocessing",
        "import logging.handlers",
        "from http import client",
        "import os; os.system('')",
        "from os import posix_spawn",
        "from asyncio import open_connection",
        "import asyncio; asyncio.get_running_loop().getaddrinfo('', 1)",
        "import importlib; importlib.import_module('so' + 'cket')",
        "__import__('socket')",
    ],
)
def test_repro_every_way_out_is_seen_not_only_the_usual_ones(violation: str) -> None:
    assert opens_connections(ast.parse(violation))


def test_repro_folders_around_a_module_and_a_persons_commands_are_looked_at() -> None:
    assert {"secvm", "secvm.runtime", "secvm.runtime.http", "secvm.cli.participant.vault"} <= set(device_modules())


def test_what_listens_takes_the_servers_half_of_aiohttp_and_no_client() -> None:
    for module in LISTENERS:
        tree = device_modules()[module]
        taken = {name for name in imports_of(tree) if name.startswith("aiohttp")}
        assert taken <= {"aiohttp", "aiohttp.web"}
        assert not any(isinstance(node, ast.Import) and node.names[0].name == "aiohttp" for node in ast.walk(tree))
