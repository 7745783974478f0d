"""A real nginx with the files of deploy/, as a process of the test's own, on loopback.

What is substituted in the shipped files, and nothing else:

 1. of nginx.conf: the account, the places of the process id, of the log and of sites-enabled/; and where requests are
    kept that do not fit into memory, which is not said there, is said, so that /var/lib/nginx is not touched;
 2. of nginx-*.conf: port 443 becomes a free port of 127.0.0.1, the one of IPv6 is left out, certificate and key are the
    test's, the log's place, and the addresses of the parties behind.
"""

import contextlib
import getpass
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from secvm.testing.processes import free_port
from tests.conftest import ROOT
from tests.deep.tls import Authority

DEPLOY = ROOT / "deploy"
#: Each of deploy/, whatever it is called.
SITES = sorted(path.name for path in DEPLOY.glob("nginx-*.conf"))
_PATIENCE_S = 30.0


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """The text with these patterns replaced; each must be there, or what is tested is not what was shipped."""
    for pattern, replacement in changes.items():
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, f"nothing is like {pattern!r} in\n{text}"
    return text


class Nginx:
    """nginx in a folder: first ``add`` sites, then ``running``."""

    def __init__(self, folder: Path, authority: Authority, **main: str) -> None:
        """``main``: directives of nginx.conf that have another value, to see what would be without the shipped one."""
        self._folder = folder
        self._sites = folder / "sites"
        self._sites.mkdir(parents=True)
        self._ports: list[int] = []
        key, certificate = authority.issue("127.0.0.1")
        (folder / "privkey.pem").write_bytes(key)
        (folder / "fullchain.pem").write_bytes(certificate)
        self._context = ssl.create_default_context(cafile=authority.file)
        kept = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        changes = {
            r"^user www-data;$": f"user {getpass.getuser()};",
            r"/run/nginx\.pid": f"{folder}/nginx.pid",
            r"/var/log/nginx/": f"{folder}/",
            r"^http \{$": "http {\n" + "".join(f"    {name}_temp_path {folder}/{name};\n" for name in kept),
            r"/etc/nginx/sites-enabled/": f"{self._sites}/",
            **{rf"^( *){name} [^;]+;$": rf"\g<1>{name} {value};" for name, value in main.items()},
        }
        shipped = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
        (folder / "nginx.conf").write_text(replaced(shipped, changes), encoding="utf-8")

    def add(self, site: str, more: Mapping[str, str], port: int | None = None) -> int:
        """One of ``SITES``, with ``more`` replaced, such as the addresses behind it; its port."""
        port = port or free_port()
        shipped = (DEPLOY / site).read_text(encoding="utf-8")
        changes = {
            r"^    listen 443 ssl;$": f"    listen 127.0.0.1:{port} ssl;",
            r"^    listen \[::\]:443 ssl;\n": "",
            r"/etc/letsencrypt/live/[a-z.]+/": f"{self._folder}/",
            **({r"/var/log/nginx/": f"{self._folder}/"} if "/var/log/nginx/" in shipped else {}),
            **{re.escape(theirs): ours for theirs, ours in more.items()},
        }
        # One file may stand before several parties.
        (self._sites / f"{port}-{site}").write_text(replaced(shipped, changes), encoding="utf-8")
        self._ports.append(port)
        return port

    def _command(self, *more: str) -> list[str]:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        files = ["-p", str(self._folder), "-c", str(self._folder / "nginx.conf"), "-e", str(self._folder / "early.log")]
        return [program, *files, *more]

    def check(self) -> str:
        """What ``nginx -t`` says of the files."""
        done = subprocess.run(self._command("-t"), capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stderr

    @contextmanager
    def running(self) -> Iterator["Nginx"]:
        """Until the end of the block; then it is gone, with its workers."""
        said = self._folder / "said"
        with said.open("wb") as log:
            process = subprocess.Popen(self._command("-g", "daemon off;"), stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while not all(self._listens(port) for port in self._ports):
                assert process.poll() is None, said.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, "nginx does not listen"
                time.sleep(0.02)
            yield self
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            finally:
                process.kill()
                process.wait()

    @staticmethod
    def _listens(port: int) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    def connect(self, port: int, *, timeout_s: float = _PATIENCE_S) -> ssl.SSLSocket:
        """A connection over TLS, whose handshake is done."""
        plain = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        try:
            return self._context.wrap_socket(plain, server_hostname="127.0.0.1")
        except OSError:
            plain.close()
            raise

    def status(
        self, port: int, path: str, *, method: str = "GET", body: bytes = b"", timeout_s: float = _PATIENCE_S
    ) -> int | None:
        """The status of a request on a connection of its own; None: no answer came in time."""
        told = f"host: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
        try:
            with self.connect(port, timeout_s=timeout_s) as connection:
                connection.sendall(f"{method} {path} HTTP/1.1\r\n{told}\r\n".encode() + body)
                head = connection.recv(2**12)
        except OSError:
            return None
        found = re.match(rb"HTTP/1\.1 ([0-9]{3}) ", head)
        return int(found[1]) if found else None
