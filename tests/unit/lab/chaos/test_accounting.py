"""The accounts of a disturbed run: what would be wrong is found, whatever it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning.aggregate.tally import Tally
from secvm_lab.chaos.accounting import Acknowledged, RoundAccount, settle
from secvm_lab.chaos.passage import Answer, Request


def counts(units: int) -> Tally:
    tally = Tally.empty(n_models=1, n_bins=4, n_labels=2)
    tally.plus[0, :units] = 1
    tally.participants[0] = 3
    return tally


def honest(units: int = 4) -> RoundAccount:
    """Everything that was scheduled was acknowledged and counted."""
    return RoundAccount(
        scheduled=units + 3,
        acknowledged=units + 3,
        tally=counts(units),
        expected=counts(units),
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = settle([honest(), honest()])
    assert (verdict.lost, verdict.counted_twice) == (0, 0)
    assert verdict.scheduled == verdict.acknowledged == 14


@given(missing=st.integers(1, 4))
def test_acknowledged_before_the_commit_and_then_lost_is_found(missing: int) -> None:
    verdict = settle([replace(honest(), tally=counts(4 - missing))])
    assert (verdict.lost, verdict.counted_twice) == (missing, 0)


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
    account = replace(honest(), acknowledged=6, tally=counts(3))
    assert settle([account]).lost == 0


def test_a_round_that_was_abandoned_for_no_reason_has_lost_everything() -> None:
    assert settle([replace(honest(), tally=None)]).lost == 7
    assert settle([replace(honest(), tally=None, expected=None)]).lost == 0


def test_after_a_wrong_tally_later_rounds_are_held_to_nothing() -> None:
    wrong = replace(honest(), tally=counts(3))
    other_model = replace(honest(), tally=counts(1))
    assert settle([wrong, other_model]).lost == 1


def test_only_acknowledged_packages_are_noted_each_capsule_once() -> None:
    seen = Acknowledged("/relay")

    def post(capsule: bytes, status: int, path: str = "/relay") -> None:
        seen(Request("POST", path, capsule), Answer(status))

    post(b"\x07one", 202)
    post(b"\x07one", 202)
    post(b"\x07two", 200)
    post(b"\x08next epoch", 202)
    post(b"\x07refused", 410)
    post(b"\x07later", 503)
    post(b"\x07a fetch", 200, "/relay/fetch")
    seen(Request("GET", "/relay", b"\x07"), Answer(200))
    assert [seen.of(bytes([epoch])) for epoch in (7, 8, 9)] == [2, 1, 0]
    assert seen.answers == 4


def test_requests_at_an_entry_relay_are_noted_by_label_each_once() -> None:
    seen, label = Acknowledged("/relay"), bytes(range(32))

    def post(path: str, status: int, body: bytes = b"all packages") -> None:
        seen(Request("POST", path, body), Answer(status))

    post(f"/relay/submit/{label.hex()}", 200)
    post(f"/relay/submit/{label.hex()}", 200)
    post(f"/relay/submit/{label.hex()}", 200, b"somebody else's")
    post(f"/relay/submit/{label.hex()}", 503, b"not taken")
    post(f"/relay/tokens/{label.hex()}", 200)
    post(f"/other/submit/{label.hex()}", 200)
    assert (seen.of(label), seen.answers) == (2, 3)


def test_tallies_of_other_shapes_are_no_excuse() -> None:
    verdict = settle([replace(honest(), tally=None)])
    assert verdict.lost == int(np.sum(counts(4).plus)) + 3
