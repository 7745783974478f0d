"""Pulses of NIST's Randomness Beacon, version 2.0 (NIST IR 8213): 512 bits a minute, signed by one institution.

A pulse is verified down to the certificate that signed it:

 1. it is the pulse of the chain and number that were asked for, and its plain fields are those of cipher suite 0;
 2. ``certificateId`` is SHA-512 of the first certificate in the record, which holds an RSA key of 4096 bits and was
    valid when the pulse says it was made;
 3. that certificate is pinned, or leads to a pinned one and is for the beacon's host;
 4. the key signed the fields: PKCS #1 v1.5, SHA-512, over the serialisation below;
 5. ``outputValue`` is SHA-512 of that serialisation and the signature.

**Not signed**, hence checked for plausibility and used for nothing: the addresses of the older pulses in
``listValues`` (their values are signed). A pulse's time is signed, and is the only place where it stands: minutes in
which no pulse was made leave no gap in the numbers.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509 import verification

from secvm.crypto.beacons.records import MAX_RECORD_BYTES, BeaconFields, BeaconOutput, read_object
from secvm.errors import BadBeaconError

OUTPUT_BYTES = 64
KEY_BITS = 4096
PERIOD_MS = 60_000
HOST = "engine.beacon.nist.gov"
#: SHA-512 of certificates, as ``certificateId`` writes them. A beacon's certificate lives about a year; what it leads
#: to is there for longer.
PINS = frozenset(
    {
        # engine.beacon.nist.gov, 2018-01-10 to 2019-01-11
        "5501e3d72bc42f3b96e16de4dcadcb16768e109662bd16d667d5fd9aee585af31bbdc5dd4f53592276064b53dddd76c8f3604b2a41db6e09f78f82bb5d6569e7",
        # DigiCert Global Root G2
        "5622207e1ba285f172756f6019af92ac808ed63286e24dfecc1e79873fb5d140f1ceb7133f2476e89a5f75f711f9813a9fbb8fd5287f64adfdcc53b864f9bdc5",
    }
)

_ADDRESS = "https://beacon.nist.gov/beacon/2.0/chain/{}/pulse/{}"
_LISTED = ("previous", "hour", "day", "month", "year")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z", re.ASCII)
_PEM = b"-----BEGIN CERTIFICATE-----"
#: The beacon's own, and a few that lead to a root.
_MAX_CERTIFICATES = 6
#: All that pyca says of certificates that are none, or lead nowhere.
_UNBELIEVABLE = (
    *(ValueError, TypeError, UnsupportedAlgorithm, verification.VerificationError),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
)


@dataclass(frozen=True, slots=True)
class NistPulse:
    """A pulse as it was served. **Nothing in it is checked** but its form: ``verify_pulse`` does the rest."""

    certificate_id: str
    chain_index: int
    pulse_index: int
    time_stamp: str
    signature: bytes
    output: bytes
    #: What is signed: integers big-endian, of 4 bytes or 8; text and bytes behind their length, 4 bytes.
    signed: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> NistPulse:
        """The pulse in the JSON that the beacon serves."""
        served = read_object(data, "a NIST answer").has_exactly("pulse").inner("pulse")
        served.has_exactly(
            *("uri", "version", "cipherSuite", "period", "certificateId", "chainIndex", "pulseIndex", "timeStamp"),
            *("localRandomValue", "external", "listValues", "precommitmentValue", "statusCode", "signatureValue"),
            "outputValue",
        )
        external = served.inner("external").has_exactly("sourceId", "statusCode", "value")
        chain, index = served.integer("chainIndex", bits=32), served.integer("pulseIndex", bits=53)
        address = _ADDRESS.format(chain, index)
        if served.text("uri") != address:
            raise BadBeaconError("a NIST pulse's address is another's")
        # Pulses that open a chain, come after a gap or from a test say so in their status. None of them is waited for.
        suite = (served.integer("cipherSuite", bits=32), served.integer("statusCode", bits=32))
        if suite != (0, 0) or served.integer("period", bits=32) != PERIOD_MS:
            raise BadBeaconError("a NIST pulse of another suite, period or status")
        version = served.text("version")
        # Both were served; it is under the signature either way.
        if version not in {"Version 2.0", "2.0"}:
            raise BadBeaconError("a NIST pulse of another version")
        certificate_id, time_stamp = served.hexadecimal("certificateId", 64), served.text("timeStamp")
        signed = (
            _long(address.encode()),
            _long(version.encode()),
            bytes(4),
            PERIOD_MS.to_bytes(4, "big"),
            _long(certificate_id),
            chain.to_bytes(8, "big"),
            index.to_bytes(8, "big"),
            _long(time_stamp.encode()),
            _long(served.hexadecimal("localRandomValue", 64)),
            _long(external.hexadecimal("sourceId", 64)),
            external.integer("statusCode", bits=32).to_bytes(4, "big"),
            _long(external.hexadecimal("value", 64)),
            # Outputs of the pulse before, and of the first ones of hour, day, month and year.
            *map(_long, _read_listed(served.inner_list("listValues"), chain, index)),
            _long(served.hexadecimal("precommitmentValue", 64)),
            bytes(4),
        )
        return cls(
            certificate_id=certificate_id.hex(),
            chain_index=chain,
            pulse_index=index,
            time_stamp=time_stamp,
            signature=served.hexadecimal("signatureValue", KEY_BITS // 8),
            output=served.hexadecimal("outputValue", OUTPUT_BYTES),
            signed=b"".join(signed),
        )

    @property
    def at(self) -> int:
        """The instant at which the beacon says it published the pulse, in milliseconds."""
        if not _TIME.fullmatch(self.time_stamp):
            raise BadBeaconError("a NIST pulse's time is no whole minute")
        try:
            moment = dt.datetime.fromisoformat(self.time_stamp)
        except ValueError:
            raise BadBeaconError("a NIST pulse's time is in no calendar") from None
        return int(moment.timestamp()) * 1000


def verify_pulse(chain_index: int, pulse_index: int, record: bytes, *, pins: AbstractSet[str] = PINS) -> BeaconOutput:
    """The output of this pulse. The record is the JSON that NIST serves, then certificates as PEM: the one that signed
    first, then those that lead from it to a pinned one, unless it is pinned itself.

    Raises
    ------
    BadBeaconError
        Whatever else the bytes are.
    """
    if len(record) > MAX_RECORD_BYTES:
        raise BadBeaconError(f"a NIST record of {len(record)} bytes; at most {MAX_RECORD_BYTES} are read")
    served, mark, certificates = record.partition(_PEM)
    pulse = NistPulse.from_bytes(served)
    if (pulse.chain_index, pulse.pulse_index) != (chain_index, pulse_index):
        raise BadBeaconError("this is another pulse, or of another chain")
    at = pulse.at
    key = _signing_key(mark + certificates, pulse.certificate_id, at, pins)
    try:
        key.verify(pulse.signature, pulse.signed, padding.PKCS1v15(), hashes.SHA512())
    except InvalidSignature:
        raise BadBeaconError("a NIST pulse is not signed by its certificate") from None
    if hashlib.sha512(pulse.signed + pulse.signature).digest() != pulse.output:
        raise BadBeaconError("a NIST pulse's output is not the digest of what is signed")
    return BeaconOutput(value=pulse.output, at=at)


def _signing_key(pem: bytes, certificate_id: str, at: int, pins: AbstractSet[str]) -> rsa.RSAPublicKey:
    """The key of the certificate of this id, if it may sign pulses at this instant."""
    try:
        certificates = x509.load_pem_x509_certificates(pem)
        named = [certificate.fingerprint(hashes.SHA512()).hex() for certificate in certificates]
        if named[0] != certificate_id or len(certificates) > _MAX_CERTIFICATES:
            raise BadBeaconError("a NIST pulse comes with another certificate than it names")
        first, last = (
            moment.timestamp() * 1000
            for moment in (certificates[0].not_valid_before_utc, certificates[0].not_valid_after_utc)
        )
        if not first <= at <= last:
            raise BadBeaconError("a NIST pulse's certificate was not valid at its time")
        if named[0] not in pins:
            _check_path(
                certificates,
                [certificate for certificate, name in zip(certificates, named, strict=True) if name in pins],
                at,
            )
        key = certificates[0].public_key()
    except _UNBELIEVABLE:
        raise BadBeaconError("a NIST pulse's certificate cannot be believed") from None
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size != KEY_BITS:
        raise BadBeaconError(f"a NIST pulse's certificate has no RSA key of {KEY_BITS} bits")
    return key


def _check_path(certificates: list[x509.Certificate], anchors: list[x509.Certificate], at: int) -> None:
    if not anchors:
        raise BadBeaconError("a NIST pulse's certificate leads to none that is trusted")
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store(anchors))
        .time(dt.datetime.fromtimestamp(at // 1000, tz=dt.UTC))
        .build_server_verifier(x509.DNSName(HOST))
    )
    verifier.verify(certificates[0], certificates[1:])


def _read_listed(items: list[BeaconFields], chain: int, index: int) -> tuple[bytes, ...]:
    values, later = [], index
    if len(items) != len(_LISTED):
        raise BadBeaconError("a NIST pulse lists other pulses than it should")
    for item, kind in zip(items, _LISTED, strict=True):
        item.has_exactly("uri", "type", "value")
        number = re.fullmatch(r".*/([1-9][0-9]{0,15})", item.text("uri"))
        listed = int(number[1]) if number else 0
        # The pulse before is just before; each of the others is not later than the one listed before it.
        fits = listed == index - 1 if kind == "previous" else 0 < listed <= later
        if item.text("type") != kind or not fits or item.text("uri") != _ADDRESS.format(chain, listed):
            raise BadBeaconError("a NIST pulse lists other pulses than it should")
        values.append(item.hexadecimal("value", 64))
        later = listed
    return tuple(values)


def _long(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
