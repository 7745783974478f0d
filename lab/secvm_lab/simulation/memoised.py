"""While simulations are played, what was signed, verified or read once is remembered.

Thousands of lists begin alike: the same keys sign the same bytes, the same documents are read. Ed25519 gives equal
signatures for equal bytes, a signature that fits once fits always, and documents never change; so what is remembered is
no other answer, only a quicker one. What does **not** fit is not remembered: it is looked at each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast
from unittest import mock

from secvm.coordinator.intake import running as present
from secvm.coordinator.store import memory, rules
from secvm.crypto import notes, signing
from secvm.crypto.sealing import kem
from secvm.participant.consent.policies import Consent, Statement
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.log.terms import LogTerms

_MOST = 2**14
_SHARDS = 2
#: pyca's classes, where our own modules have them.
_PUBLIC, _PRIVATE = (vars(signing)[name] for name in ("Ed25519PublicKey", "Ed25519PrivateKey"))
_DOCUMENT, _MANIFEST = ExperimentDocument.from_bytes, RoundManifest.from_bytes
_STATEMENT, _NOTE = Consent.statement, notes.Note.from_bytes


@lru_cache(maxsize=_MOST)
def _verified(key: bytes, signature: bytes, message: bytes) -> None:
    _PUBLIC.from_public_bytes(key).verify(signature, message)


@lru_cache(maxsize=_MOST)
def _signed(seed: bytes, message: bytes) -> bytes:
    return cast("bytes", _PRIVATE.from_private_bytes(seed).sign(message))


_x25519_public = lru_cache(maxsize=_MOST)(kem._x25519_public)  # noqa: SLF001  (a function of the bytes alone)
_gateway_key = lru_cache(maxsize=_MOST)(present.gateway_key)
_read_document = lru_cache(maxsize=64)(_DOCUMENT)
_read_manifest = lru_cache(maxsize=_MOST)(_MANIFEST)
_read_ending = lru_cache(maxsize=_MOST)(Ending.from_bytes)
_witness_keys = lru_cache(maxsize=8)(LogTerms.witness_keys.fget)  # type: ignore[attr-defined]
_read_note = lru_cache(maxsize=_MOST)(_NOTE)


@lru_cache(maxsize=64)
def _statement(consent: Consent, document: ExperimentDocument) -> Statement:
    return _STATEMENT(consent, document)


def _statement_of(consent: Consent, document: ExperimentDocument) -> Statement:
    # A function in a class is a method; a cache in a class is none.
    return _statement(consent, document)


class _PublicKey:
    """As much of pyca's class as is used here."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @classmethod
    def from_public_bytes(cls, data: bytes) -> _PublicKey:
        return cls(data)

    def verify(self, signature: bytes, message: bytes) -> None:
        _verified(self._data, signature, message)


class _PrivateKey:
    """As much of pyca's class as is used to sign."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @classmethod
    def from_private_bytes(cls, seed: bytes) -> _PrivateKey:
        return cls(seed)

    def sign(self, message: bytes) -> bytes:
        return _signed(self._seed, message)

    def public_key(self) -> Any:
        return _PRIVATE.from_private_bytes(self._seed).public_key()


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Inside of this block everything is remembered; what was remembered before is still known."""
    with contextlib.ExitStack() as held:
        for module in (signing, notes):
            held.enter_context(mock.patch.object(module, "Ed25519PublicKey", _PublicKey))
            held.enter_context(mock.patch.object(module, "Ed25519PrivateKey", _PrivateKey))
        held.enter_context(mock.patch.object(kem, "_x25519_public", _x25519_public))
        held.enter_context(mock.patch.object(present, "gateway_key", _gateway_key))
        # An epoch of ten packages needs no sixteen shards.
        held.enter_context(mock.patch.object(memory, "SHARDS", _SHARDS))
        held.enter_context(mock.patch.object(rules, "SHARDS", _SHARDS))
        held.enter_context(mock.patch.object(ExperimentDocument, "from_bytes", _read_document))
        held.enter_context(mock.patch.object(RoundManifest, "from_bytes", _read_manifest))
        held.enter_context(mock.patch.object(Ending, "from_bytes", _read_ending))
        held.enter_context(mock.patch.object(LogTerms, "witness_keys", property(_witness_keys)))
        held.enter_context(mock.patch.object(notes.Note, "from_bytes", _read_note))
        held.enter_context(mock.patch.object(Consent, "statement", _statement_of))
        yield
