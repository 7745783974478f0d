"""A throw-away authority, and certificates of servers."""

import datetime as dt
import ipaddress
import itertools
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NOW = dt.datetime.now(dt.UTC)
_NUMBERS = itertools.count()


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Authority":
    """The one that everybody trusts here."""
    made = Authority(tmp_path, "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


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
