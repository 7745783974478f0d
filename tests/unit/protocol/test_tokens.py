"""Tokens in documents, manifests, sessions and under the seal."""

from dataclasses import replace

import pytest

from secvm.errors import InconsistentManifestError, LocalProtocolError, MalformedMessageError
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import PACKAGE_BYTES
from secvm.protocol.documents import decode_document, encode_document
from secvm.protocol.events import ManifestArrived, PackagesReady
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import accept
from secvm.protocol.sealed_requests import PackageRequest, package_in, package_request, read_request, request_bytes
from secvm.protocol.session import ParticipantSession, unsafe_no_seal
from secvm.protocol.tokens import TokenTerms, split_content, with_token
from tests.unit.protocol.helpers import COORDINATOR, START, document, manifests, packages, served, words

TERMS = TokenTerms(issuer="https://relay.example/r")
WITH = document(tokens=TERMS)
KEY = b"k" * 32


def test_an_experiment_says_who_issues_its_tokens_and_one_without_says_nothing() -> None:
    assert ExperimentDocument.from_bytes(WITH.data) == WITH
    assert decode_document(WITH.data, max_bytes=2**18)["tokens"] == {"issuer": TERMS.issuer}
    assert "tokens" not in decode_document(document().data, max_bytes=2**18)
    for tokens in (None, {}, {"issuer": 3}, {"issuer": "ftp://x"}, {"issuer": TERMS.issuer, "more": 1}):
        bad = encode_document({**decode_document(WITH.data, max_bytes=2**18), "tokens": tokens})
        with pytest.raises(MalformedMessageError):
            ExperimentDocument.from_bytes(bad)


def test_issuers_without_encryption_and_batches_beyond_what_is_issued_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="https"):
        assert document(tokens=TokenTerms(issuer="http://relay.example/r")).data
    assert document(tokens=TokenTerms(issuer="http://relay.example/r"), test=True).data
    with pytest.raises(LocalProtocolError, match="so many tokens"):
        assert document(tokens=TERMS, experiment=Experiment(n_bins=10, labels=("a", "b"), budget=2**16)).data


def test_a_manifest_of_such_an_experiment_has_a_key_for_tokens() -> None:
    (manifest,) = manifests(1, WITH, token_key=KEY)
    assert accept(served(manifest), document=WITH).manifest.token_key == KEY
    for key in (None, b"short"):
        with pytest.raises(LocalProtocolError, match="no key for tokens"):
            manifests(1, WITH, token_key=key)
        bad = replace(manifest, token_key=key)
        with pytest.raises(InconsistentManifestError, match="no key for tokens"):
            accept(bad.signed([COORDINATOR]), document=WITH)
    # Where there are no tokens the place may hold anything, as before.
    manifests(1, document(), token_key=b"anything")


def test_a_session_puts_a_token_beside_every_package() -> None:
    (manifest,) = manifests(1, WITH, token_key=KEY)
    session = ParticipantSession(WITH, seal=unsafe_no_seal)
    session.receive(ManifestArrived(served(manifest)), now=START - 10, words=words())
    tokens = tuple(bytes([i]) * 64 for i in range(5))
    for bad in ((), tokens[:4]):
        with pytest.raises(LocalProtocolError, match="token"):
            session.receive(PackagesReady(packages(), bad), now=START - 9, words=words())
    session.receive(PackagesReady(packages(), tokens), now=START - 9, words=words())
    contents = [split_content(row.capsule) for row in session.take_changes().put]
    assert {token for _, token in contents} == set(tokens)
    assert repr(PackagesReady(packages(), tokens)) == "PackagesReady(...)"


def test_a_session_without_tokens_takes_none() -> None:
    of = document()
    (manifest,) = manifests(1, of)
    session = ParticipantSession(of, seal=unsafe_no_seal)
    session.receive(ManifestArrived(served(manifest)), now=START - 10, words=words())
    with pytest.raises(LocalProtocolError, match="token"):
        session.receive(PackagesReady(packages(), (bytes(64),) * 5), now=START - 9, words=words())


def test_both_lengths_are_read_as_they_were_written_and_no_other_is_written() -> None:
    for content in (bytes(range(32)), with_token(bytes(range(32)), b"t" * 64)):
        request = package_request(content)
        assert len(request) == request_bytes(len(content))
        assert read_request(request) == PackageRequest(content)
        assert package_in(request) == content
        assert split_content(content)[0] == content[:PACKAGE_BYTES]
    for size in (0, 31, 33, 64, 95, 97):
        with pytest.raises(LocalProtocolError):
            package_request(bytes(size))
        with pytest.raises(MalformedMessageError):
            split_content(bytes(size))
    with pytest.raises(LocalProtocolError):
        with_token(bytes(32), bytes(63))
