"""Checks of the vectors of what a device believes, and of evidence."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from secvm.crypto.signing import Envelope
from secvm.errors import (
    BadProofError,
    BadSignatureError,
    CheatingError,
    MalformedMessageError,
    RemoteProtocolError,
    StaleCheckpointError,
    StaleRoundError,
)
from secvm.protocol.documents import digest_of
from secvm.protocol.evidence import examine
from secvm.protocol.experiment_document import read_published
from secvm.protocol.trusted_rounds import Served, TrustedRounds
from tests.vectors.log_checks import root_of

JSON = dict[str, Any]
FAULTS: dict[str, type[RemoteProtocolError]] = {
    "malformed": MalformedMessageError,
    "signature": BadSignatureError,
    "stale": StaleCheckpointError,
    "stale round": StaleRoundError,
    "proof": BadProofError,
}


def joined(envelope: bytes) -> TrustedRounds:
    digest = digest_of(Envelope.from_bytes(envelope).payload)
    return TrustedRounds(read_published(envelope, digest=digest), envelope)


def served(told: JSON) -> Served:
    return Served(
        manifests=tuple(bytes.fromhex(one) for one in told["manifests"]),
        proof=told["proof"].encode(),
        tallies={name: bytes.fromhex(blob) for name, blob in told["tallies"].items()},
        ending=None if told["ending"] is None else bytes.fromhex(told["ending"]),
    )


def take(device: TrustedRounds, told: JSON) -> None:
    checked = device.check(served(told), now=told["now"])
    frontier = checked.trusted.frontier
    assert (frontier.size, [found.hex() for found in frontier.hashes]) == (told["size"], told["hashes"])
    names = (told["state"], told["training_weights"], told["evaluation_weights"])
    assert checked.model.names == names
    device.believe(checked)


def leaf(kind: str, payload: bytes) -> bytes:
    """By the formula of §20.1 alone."""
    return hashlib.sha256(b"\0" + f"secvm-v1-{kind} {hashlib.sha256(payload).hexdigest()}\n".encode()).digest()


def check_trusted(content: JSON) -> None:
    for history in content["histories"]:
        envelope = bytes.fromhex(history["experiment"])
        device = joined(envelope)
        leaves = [leaf("experiment", Envelope.from_bytes(envelope).payload)]
        for look in history["looks"]:
            take(device, look)
            parts = [("manifest", one) for one in look["manifests"]]
            parts += [("ending", look["ending"])] if look["ending"] is not None else []
            leaves += [leaf(kind, Envelope.from_bytes(bytes.fromhex(one)).payload) for kind, one in parts]
            assert device.trusted.frontier.root == root_of(leaves)
        assert len(leaves) == device.trusted.frontier.size


def check_bad_trusted(content: JSON) -> None:
    def device() -> TrustedRounds:
        found = joined(bytes.fromhex(content["experiment"]))
        take(found, content["believed"])
        return found

    assert device().check(served(content["good"]), now=content["now"]).accepted is not None
    for case in content["cases"]:
        with pytest.raises(RemoteProtocolError) as caught:
            device().check(served(case), now=content["now"])
        if isinstance(caught.value, CheatingError):
            assert examine(caught.value.evidence).kind.value == case["fault"], case["why"]
        else:
            assert type(caught.value) is FAULTS[case["fault"]], case["why"]


def check_evidence(content: JSON) -> None:
    assert len({case["kind"] for case in content["cases"]}) == 6
    for case in content["cases"]:
        finding = examine(case["file"].encode())
        assert (finding.kind.value, finding.experiment) == (case["kind"], case["experiment"]), case["why"]
        assert json.loads(case["file"])["kind"] == case["kind"]


def check_bad_evidence(content: JSON) -> None:
    for case in content["cases"]:
        try:
            examine(case["file"].encode())
        except RemoteProtocolError:
            continue
        pytest.fail(f"taken, though it has {case['why']}")


CHECKS: dict[str, Callable[[JSON], None]] = {
    "trusted": check_trusted,
    "bad_trusted": check_bad_trusted,
    "evidence": check_evidence,
    "bad_evidence": check_bad_evidence,
}
