"""Pulses of NIST's beacon: verified down to a certificate that is trusted."""

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secvm.crypto.beacons.nist_pulse import HOST, PINS, NistPulse, verify_pulse
from secvm.errors import BadBeaconError
from tests.unit.crypto.recorded_beacons import CERTIFICATE, NIST_RECORD, OUTPUT, PULSE, RECORDED, SERVED_PULSE

Name = x509.Name
BEGIN, END = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 12, 31, tzinfo=dt.UTC)


def test_recorded_pulse_is_genuine() -> None:
    output = verify_pulse(1, PULSE, NIST_RECORD)
    assert output.value == OUTPUT
    assert output.at == dt.datetime(2018, 8, 30, 17, 44, tzinfo=dt.UTC).timestamp() * 1000


def test_certificate_that_is_not_pinned_is_not_believed() -> None:
    with pytest.raises(BadBeaconError, match="none that is trusted"):
        verify_pulse(1, PULSE, NIST_RECORD, pins=frozenset())


def test_letters_of_either_case_are_the_same_pulse() -> None:
    pulse = RECORDED["nist"]["served"]["pulse"]
    lower = {**pulse, **{name: pulse[name].lower() for name in ("outputValue", "signatureValue", "localRandomValue")}}
    assert verify_pulse(1, PULSE, json.dumps({"pulse": lower}).encode() + CERTIFICATE).value == OUTPUT


@pytest.mark.parametrize(
    "time",
    [
        "2018-08-30T17:44:00Z",
        "2018-08-30T17:44:30.000Z",
        "2018-08-30 17:44:00.000Z",
        "2018-02-30T17:44:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "2018-08-30T24:00:00.000Z",
        "2018-08-30T17:44:00.000+00:00",
        "",
    ],
)
def test_time_is_a_whole_minute_of_the_calendar(time: str) -> None:
    served = {"pulse": {**RECORDED["nist"]["served"]["pulse"], "timeStamp": time}}
    with pytest.raises(BadBeaconError):
        _ = NistPulse.from_bytes(json.dumps(served).encode()).at


# ── pulses signed by ourselves, to see whom the verifier believes ────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def beacon_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=4096)


@pytest.fixture(scope="module")
def root_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def named(name: str) -> Name:
    return Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate_of(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    name: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    host: str | None = None,
) -> x509.Certificate:
    """A certificate that a browser would take: an authority's, or with a host that host's."""
    public, issued_by = key.public_key(), x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    built = (
        x509.CertificateBuilder(named(issuer), named(name), public, 7, BEGIN, END)
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        .add_extension(issued_by, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    if host is None:
        usage = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
        rest = {"encipher_only": False, "decipher_only": False, "digital_signature": False}
        built = built.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage, **rest), critical=True)
    else:
        built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        built = built.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return built.sign(issuer_key, hashes.SHA256())


def pulse_of(key: rsa.RSAPrivateKey, certificate: x509.Certificate, time: str = "2026-06-01T12:00:00.000Z") -> bytes:
    """A pulse of our own, right in all but whose it is."""
    made: dict[str, Any] = json.loads(SERVED_PULSE)
    pulse = made["pulse"]
    pulse |= {"timeStamp": time, "certificateId": certificate.fingerprint(hashes.SHA512()).hex()}
    signed = NistPulse.from_bytes(json.dumps(made).encode()).signed
    signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA512())
    # A key of another size would be refused for its signature's length alone.
    pulse |= {"signatureValue": signature.hex().zfill(1024)}
    pulse |= {"outputValue": hashlib.sha512(signed + signature).hexdigest()}
    return json.dumps(made).encode()


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def pin(certificate: x509.Certificate) -> frozenset[str]:
    return frozenset({certificate.fingerprint(hashes.SHA512()).hex()})


Made = tuple[x509.Certificate, x509.Certificate, x509.Certificate]


@pytest.fixture(scope="module")
def path(beacon_key: rsa.RSAPrivateKey, root_key: ec.EllipticCurvePrivateKey) -> Callable[[str], Made]:
    between_key = ec.generate_private_key(ec.SECP256R1())
    root = certificate_of(root_key, "root", root_key, "root")
    between = certificate_of(between_key, "between", root_key, "root")
    return lambda host: (certificate_of(beacon_key, host, between_key, "between", host=host), between, root)


def test_certificate_may_lead_to_a_pinned_one(beacon_key: rsa.RSAPrivateKey, path: Callable[[str], Made]) -> None:
    leaf, between, root = path(HOST)
    pulse = pulse_of(beacon_key, leaf)
    for certificates, pinned in (((leaf, between, root), root), ((leaf, between), between), ((leaf,), leaf)):
        output = verify_pulse(1, PULSE, pulse + pem(*certificates), pins=pin(pinned))
        assert output.value.hex() == json.loads(pulse)["pulse"]["outputValue"]


def test_certificates_that_lead_nowhere_are_refused(beacon_key: rsa.RSAPrivateKey, path: Callable[[str], Made]) -> None:
    leaf, between, root = path(HOST)
    pulse = pulse_of(beacon_key, leaf)
    for certificates, pins in (
        ((leaf, between, root), PINS),
        ((leaf, root), pin(root)),
        ((leaf, between), pin(root)),
        ((between, leaf, root), pin(root)),
        ((leaf, between, root, root, root, root, root), pin(root)),
    ):
        with pytest.raises(BadBeaconError):
            verify_pulse(1, PULSE, pulse + pem(*certificates), pins=pins)


def test_certificate_for_another_host_is_refused(beacon_key: rsa.RSAPrivateKey, path: Callable[[str], Made]) -> None:
    certificates = path("beacon.example")
    with pytest.raises(BadBeaconError):
        verify_pulse(1, PULSE, pulse_of(beacon_key, certificates[0]) + pem(*certificates), pins=pin(certificates[2]))


@pytest.mark.parametrize("time", ["2025-12-31T23:59:00.000Z", "2027-01-01T00:00:00.000Z"])
def test_certificate_signs_only_while_it_is_valid(
    time: str, beacon_key: rsa.RSAPrivateKey, path: Callable[[str], Made]
) -> None:
    leaf, between, root = path(HOST)
    for pins in (pin(leaf), pin(root)):
        with pytest.raises(BadBeaconError, match="not valid at its time"):
            verify_pulse(1, PULSE, pulse_of(beacon_key, leaf, time) + pem(leaf, between, root), pins=pins)


def test_key_of_another_size_is_refused(root_key: ec.EllipticCurvePrivateKey) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    leaf = certificate_of(short, HOST, root_key, "root", host=HOST)
    with pytest.raises(BadBeaconError, match="4096"):
        verify_pulse(1, PULSE, pulse_of(short, leaf) + pem(leaf), pins=pin(leaf))


def test_key_of_another_kind_is_refused(beacon_key: rsa.RSAPrivateKey, root_key: ec.EllipticCurvePrivateKey) -> None:
    leaf = certificate_of(root_key, HOST, root_key, "root", host=HOST)
    with pytest.raises(BadBeaconError, match="4096"):
        verify_pulse(1, PULSE, pulse_of(beacon_key, leaf) + pem(leaf), pins=pin(leaf))
