"""A throw-away authority, and a proxy that ends TLS before a party, as deploy/nginx-*.conf has nginx do."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import itertools
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secvm.runtime.tasks import stop_listening
from secvm_lab.rigs.conversations import Conversations

_NOW = dt.datetime.now(dt.UTC)
_NUMBERS = itertools.count()


class Authority:
    """Signs certificates, for an hour."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(
                    **dict.fromkeys(
                        (
                            *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
                            *("key_agreement", "encipher_only", "decipher_only"),
                        ),
                        False,
                    ),
                    key_cert_sign=True,
                    crl_sign=True,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )
        #: What whoever trusts this authority is told, as SSL_CERT_FILE.
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - dt.timedelta(minutes=5))
            .not_valid_after(_NOW + dt.timedelta(hours=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Private key and certificate of a server by this name or address, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            said: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            said = x509.DNSName(name)
        certificate = (
            self._begun(x509.Name([]), key.public_key())
            .add_extension(x509.SubjectAlternativeName([said]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private, certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, name: str) -> ssl.SSLContext:
        """Of a server by this name or address: TLS 1.3 and nothing older."""
        file = self._folder / f"server-{next(_NUMBERS)}.pem"
        file.write_bytes(b"".join(self.issue(name)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(file)
        return context


class TlsProxy:
    """Takes TLS on loopback, and speaks plainly with the port behind it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._conversations = Conversations()
        #: Where requests go.
        self.behind = 0
        self.port = 0
        #: Versions of TLS of the connections that were made, whole.
        self.versions: list[str] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator["TlsProxy"]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._stop(server), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _start(self) -> asyncio.Server:
        # A failed handshake is the other side's to tell.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        server = await asyncio.start_server(self._taken, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _stop(self, server: asyncio.Server) -> None:
        await stop_listening(server)
        await self._conversations.end()

    def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._conversations.begin(self._connected(reader, writer), writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.versions.append(writer.get_extra_info("ssl_object").version())
        inner_writer = None
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.behind)
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        except OSError:
            pass
        finally:
            for one in (writer, inner_writer):
                if one is not None:
                    one.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
