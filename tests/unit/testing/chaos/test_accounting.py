"""The accounts of a disturbed run: what would be wrong is found, whatever it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.receipts import encode_bits, encode_receipt
from secvm.protocol.received import bucket_bits, bucket_of, receipt, received_root, side_by_side
from secvm.testing.chaos.accounting import Acknowledged, RoundAccount, read_received, settle
from secvm.testing.chaos.passage import Answer, Request


def digests(count: int) -> set[bytes]:
    return {hashlib.sha256(b"%d" % i).digest() for i in range(count)}


def counts(units: int) -> Tally:
    tally = Tally.empty(n_models=1, n_bins=4, n_labels=2)
    tally.plus[0, :units] = 1
    tally.participants[0] = 3
    return tally


def honest(units: int = 4) -> RoundAccount:
    """Everything that was scheduled was acknowledged, received and counted."""
    return RoundAccount(
        scheduled=units + 3,
        acknowledged=digests(units + 3),
        received=digests(units + 3),
        tally=counts(units),
        expected=counts(units),
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = settle([honest(), honest()])
    assert (verdict.lost, verdict.counted_twice) == (0, 0)
    assert verdict.scheduled == verdict.acknowledged == verdict.received == 14


@given(missing=st.integers(1, 4))
def test_acknowledged_before_the_commit_and_then_lost_is_found(missing: int) -> None:
    account = replace(honest(), received=digests(7 - missing), tally=counts(4 - missing))
    verdict = settle([account])
    # Missing under the root and from the tally: the same packages, and lost once each.
    assert (verdict.lost, verdict.counted_twice) == (missing, 0)


def test_a_lost_null_package_is_found_though_no_tally_shows_it() -> None:
    account = replace(honest(), received=digests(6))
    assert settle([account]).lost == 1


def test_received_and_not_counted_is_found() -> None:
    assert settle([replace(honest(), tally=counts(3))]).lost == 1


def test_counted_twice_is_found_though_the_capsules_are_all_there() -> None:
    tally = counts(4)
    tally.plus[0, 1] += 1
    tally.participants[0] += 1
    verdict = settle([replace(honest(), tally=tally)])
    assert (verdict.lost, verdict.counted_twice) == (0, 2)


def test_one_lost_and_one_twice_do_not_cancel() -> None:
    tally = counts(4)
    tally.plus[0, 1], tally.plus[0, 2] = 2, 0
    verdict = settle([replace(honest(), tally=tally)])
    assert (verdict.lost, verdict.counted_twice) == (1, 1)


def test_what_nobody_acknowledged_may_be_missing() -> None:
    account = replace(honest(), acknowledged=digests(6), received=digests(6), tally=counts(3))
    assert settle([account]).lost == 0


def test_a_round_that_was_abandoned_for_no_reason_has_lost_everything() -> None:
    assert settle([replace(honest(), received=None, tally=None)]).lost == 7
    assert settle([replace(honest(), received=None, tally=None, expected=None)]).lost == 0


def test_after_a_wrong_tally_later_rounds_are_held_to_their_capsules_alone() -> None:
    wrong = replace(honest(), tally=counts(3))
    other_model = replace(honest(), tally=counts(1))
    assert settle([wrong, other_model]).lost == 1
    assert settle([wrong, replace(other_model, received=digests(5))]).lost == 1 + 2


def files_of(found: set[bytes]) -> dict[str, bytes]:
    data = side_by_side(found)
    bits = bucket_bits(len(found))
    files = {"r": encode_bits(bits)}
    for digest in found:
        files[f"r/{bucket_of(digest, bits)}"] = encode_receipt(receipt(data, digest))
    return files


@pytest.mark.parametrize("count", [1, 31, 33, 200])
def test_received_digests_are_read_from_public_receipts(count: int) -> None:
    found = digests(count)
    root = received_root(side_by_side(found))
    assert read_received(files_of(found).get, "r", root) == found


def test_received_digests_that_do_not_lead_to_the_root_are_refused() -> None:
    found = digests(100)
    root = received_root(side_by_side(found))
    files = files_of(found)
    assert read_received(lambda _path: None, "r", root) is None
    with pytest.raises(MalformedMessageError):
        read_received(files.get, "r", bytes(32))
    del files["r/1"]
    with pytest.raises(MalformedMessageError):
        read_received(files.get, "r", root)


def test_only_acknowledged_packages_are_noted_each_capsule_once() -> None:
    seen = Acknowledged("/relay")

    def post(capsule: bytes, status: int, path: str = "/relay") -> None:
        seen(Request("POST", path, capsule, b""), Answer(status))

    post(b"\x07one", 202)
    post(b"\x07one", 202)
    post(b"\x07two", 200)
    post(b"\x08next epoch", 202)
    post(b"\x07refused", 410)
    post(b"\x07later", 503)
    post(b"\x07a fetch", 200, "/relay/fetch")
    seen(Request("GET", "/relay", b"\x07", b""), Answer(200))
    assert seen.of(7) == seen.of(256 + 7) == {hashlib.sha256(one).digest() for one in (b"\x07one", b"\x07two")}
    assert len(seen.of(8)) == 1
    assert seen.of(9) == set()
    assert seen.answers == 4


def test_tallies_of_other_shapes_are_no_excuse() -> None:
    verdict = settle([replace(honest(), tally=None)])
    assert verdict.lost == int(np.sum(counts(4).plus)) + 3
