"""A device sends nothing but what ``participant.sending.transport`` sends: no other module of it opens a connection."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
CLIENT, DOOR = "secvm.runtime.http.client", "secvm.participant.sending.transport"
#: A module that has one of these can open a connection, or start a program that can.
MEANS = ("_socket", "aiohttp", "ftplib", "http.client", "smtplib", "socket", "ssl", "subprocess", "urllib.request")
CALLS = {"create_connection", "create_datagram_endpoint", "create_subprocess_exec", "open_connection", "sock_connect"}
#: These listen on this machine and answer its own browser; the first of them holds the only listening socket.
LISTENERS = {"secvm.pages.serving", "secvm.participant.status_page", "secvm.participant.ui.server"}

#: It starts a C compiler when an operator asks for that, which no device does (``find_lanes`` only looks).
COMPILER = "secvm.runtime.lanes"


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


def device_modules() -> dict[str, ast.AST]:
    """Every module of ours that the participant loads, by any way round."""
    folder = SOURCE / "secvm" / "participant"
    waiting = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in folder.rglob("*.py")}
    loaded: dict[str, ast.AST] = {}
    while waiting:
        module = waiting.pop()
        path = path_of(module.removesuffix(".__init__"))
        if module not in loaded and path is not None:
            loaded[module] = ast.parse(path.read_text())
            waiting |= {name for name in imports_of(loaded[module]) if name.startswith("secvm.")}
    return loaded


def opens_connections(tree: ast.AST) -> bool:
    named = any(name == means or name.startswith(f"{means}.") for name in imports_of(tree) for means in MEANS)
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & CALLS
    return named or bool(called)


def test_one_module_of_a_device_opens_connections_and_one_uses_it() -> None:
    loaded = device_modules()
    assert len(loaded) > 100
    assert {module for module, tree in loaded.items() if opens_connections(tree)} == {CLIENT, COMPILER, *LISTENERS}
    assert {module for module, tree in loaded.items() if CLIENT in set(imports_of(tree))} == {DOOR}


def test_what_listens_takes_the_servers_half_of_aiohttp_and_no_client() -> None:
    for module in LISTENERS:
        tree = device_modules()[module]
        taken = {name for name in imports_of(tree) if name.startswith("aiohttp")}
        assert taken <= {"aiohttp", "aiohttp.web"}
        assert not any(isinstance(node, ast.Import) and node.names[0].name == "aiohttp" for node in ast.walk(tree))
