"""Checks of the vectors of what a device believes, and of evidence."""

import hashlib
import json

import pytest

from secvm.crypto.signing import Envelope
from secvm.errors import (
    CheatingError,
    RemoteProtocolError,
)
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.evidence.plain import examine
from secvm.protocol.trust.trusted_rounds import Served, TrustedRounds
from tests.contract.vectors.reading import FAULTS, JSON, refused, tree_root


def joined(envelope: bytes) -> TrustedRounds:
    digest = digest_of(Envelope.from_bytes(envelope).payload)
    return TrustedRounds(read_published(envelope, digest=digest), envelope)


def served(told: JSON) -> Served:
    return Served(
        manifests=tuple(bytes.fromhex(one) for one in told["manifests"]),
        checkpoint=told["checkpoint"].encode(),
        lines=tuple(line.encode() for line in told["lines"]),
        tallies={name: bytes.fromhex(blob) for name, blob in told["tallies"].items()},
        ending=None if told["ending"] is None else bytes.fromhex(told["ending"]),
    )


def take(device: TrustedRounds, told: JSON) -> None:
    checked = device.check(served(told), now=told["now"])
    frontier = checked.trusted.log.frontier
    assert (frontier.size, [found.hex() for found in frontier.hashes]) == (told["size"], told["hashes"])
    names = (told["state"], told["training_weights"], told["evaluation_weights"])
    assert checked.model.names == names
    device.believe(checked)


def own_lines(history: JSON) -> list[str]:
    """By the formula of §20.1 alone: what the log must hold of the experiment."""
    digest = hashlib.sha256(Envelope.from_bytes(bytes.fromhex(history["experiment"])).payload).hexdigest()
    lines = [f"secvm-v2-experiment {digest}\n"]
    for look in history["looks"]:
        for one in look["manifests"]:
            named = hashlib.sha256(Envelope.from_bytes(bytes.fromhex(one)).payload).hexdigest()
            lines.append(f"secvm-v2-manifest {digest} {len(lines)} {named}\n")
        if look["ending"] is not None:
            named = hashlib.sha256(Envelope.from_bytes(bytes.fromhex(look["ending"])).payload).hexdigest()
            lines.append(f"secvm-v2-ending {digest} {named}\n")
    return lines


def check_trusted(content: JSON) -> None:
    for history in content["histories"]:
        envelope = bytes.fromhex(history["experiment"])
        device = joined(envelope)
        lines: list[str] = []
        for look in history["looks"]:
            take(device, look)
            lines += look["lines"]
            leaves = [hashlib.sha256(b"\0" + line.encode()).digest() for line in lines]
            assert device.trusted.log.frontier.root == tree_root(leaves)
        assert len(lines) == device.trusted.log.frontier.size
        digest = hashlib.sha256(Envelope.from_bytes(envelope).payload).hexdigest()
        assert [line for line in lines if f" {digest}" in line] == own_lines(history)
        assert len(lines) > len(own_lines(history))


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
    assert len({case["kind"] for case in content["cases"]}) == 7
    for case in content["cases"]:
        finding = examine(case["file"].encode())
        assert (finding.kind.value, finding.experiment) == (case["kind"], case["experiment"]), case["why"]
        assert json.loads(case["file"])["kind"] == case["kind"]


def check_bad_evidence(content: JSON) -> None:
    refused(content["cases"], lambda case: examine(case["file"].encode()), RemoteProtocolError)
