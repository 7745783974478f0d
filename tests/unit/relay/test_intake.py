"""The intake of one label: whole or not at all, a retry is free, and nothing joins a client with a capsule."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.protocol.relays.batches import capsule_root
from secvm.relay.admission import Identity
from secvm.relay.entry.intake import IncomingSubmission, Intake, IntakeLimits, IntakeVerdict, read_submission
from secvm.relay.refusals import RelayRefusalError

LIMITS = IntakeLimits(quota=2, network_quota=3, submissions=100)
B = 3


def capsule(number: int) -> bytes:
    return hashlib.shake_256(b"outer %d" % number).digest(128)


def root_over(capsules: Iterable[bytes]) -> bytes:
    return capsule_root(sorted(hashlib.sha256(one).digest() for one in capsules))


def body(*numbers: int) -> bytes:
    return b"".join(sorted(map(capsule, numbers), key=lambda one: hashlib.sha256(one).digest()))


def submission(client: str, *numbers: int, network: bytes = b"") -> IncomingSubmission:
    identity = Identity(client.encode(), network)
    return read_submission(identity, body(*numbers), budget=len(numbers), token_bytes=0)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Intake]:
    with closing(Intake(tmp_path / "a.capsules", os.urandom)) as opened:
        yield opened


def test_a_submission_is_a_token_and_exactly_b_capsules_in_order() -> None:
    found = read_submission(Identity(b"a"), b"t" * 64 + body(1, 2, 3), budget=B, token_bytes=64)
    assert found.token == b"t" * 64
    assert found.root == root_over(map(capsule, (1, 2, 3)))
    three = body(1, 2, 3)
    for wrong, problem in (
        (three[:-1], "too-large"),
        (three + capsule(4), "too-large"),
        (three[128:] + three[:128], "garbage"),
        (three[:128] * 2 + three[128:256], "conflict"),
    ):
        with pytest.raises((MalformedMessageError, RelayRefusalError)) as refused:
            read_submission(Identity(b"a"), wrong, budget=B, token_bytes=0)
        assert getattr(refused.value, "why", refused.value.problem) == problem


def test_a_known_root_is_taken_again_whoever_brings_it_and_counts_once(file: Intake) -> None:
    first = submission("a", 1, 2, 3)
    assert file.take([first], LIMITS) == [IntakeVerdict.TAKEN]
    again = [submission(name, 1, 2, 3) for name in ("a", "a", "a", "stranger")]
    assert file.take(again, LIMITS) == [IntakeVerdict.TAKEN] * 4
    assert (file.submissions(), file.count()) == (1, 3)


def test_one_capsule_of_another_request_refuses_the_whole_of_it(file: Intake) -> None:
    group = [submission("a", 1, 2, 3), submission("b", 3, 4, 5), submission("b", 4, 5, 6)]
    assert file.take(group, LIMITS) == [IntakeVerdict.TAKEN, IntakeVerdict.OTHERS, IntakeVerdict.TAKEN]
    assert (file.submissions(), file.count()) == (2, 6)


def test_quotas_count_submissions_of_a_client_and_of_a_network(file: Intake, tmp_path: Path) -> None:
    mine = [submission("a", 3 * number, 3 * number + 1) for number in range(3)]
    assert file.take(mine, LIMITS) == [IntakeVerdict.TAKEN, IntakeVerdict.TAKEN, IntakeVerdict.OVER_QUOTA]
    close = [submission(f"n{number}", 100 + number, network=b"net") for number in range(4)]
    assert file.take(close, LIMITS) == [IntakeVerdict.TAKEN] * 3 + [IntakeVerdict.OVER_QUOTA]
    file.close()
    # A restart forgets no quota.
    file = Intake(tmp_path / "a.capsules", os.urandom)
    assert file.take([submission("a", 50, 51)], LIMITS) == [IntakeVerdict.OVER_QUOTA]
    full = IntakeLimits(quota=9, network_quota=9, submissions=file.submissions())
    assert file.take([submission("z", 60)], full) == [IntakeVerdict.FULL]
    file.close()


def test_a_group_that_fails_leaves_nothing_and_counts_nothing(file: Intake) -> None:
    bad = IncomingSubmission(Identity(b"a"), b"", (capsule(1), "no bytes"), b"r" * 32)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        file.take([submission("b", 7, 8), bad], LIMITS)
    assert (file.submissions(), file.count()) == (0, 0)


def test_no_address_is_in_the_file_and_no_row_joins_client_and_capsule(file: Intake, tmp_path: Path) -> None:
    file.take([submission("198.51.100.7-is-my-address", 1, 2, 3)], LIMITS)
    there = b"".join(found.read_bytes() for found in tmp_path.iterdir())
    assert b"198.51.100.7" not in there
    columns = {
        str(name): {str(row[1]) for row in file.rows(f"PRAGMA table_info({name})")}
        for (name,) in file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    assert not any({"name", "digest"} <= found or {"name", "root"} <= found for found in columns.values())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.frozensets(st.integers(0, 12), min_size=2, max_size=2)), max_size=12))
def test_intake_is_the_model_of_sets(
    tmp_path_factory: pytest.TempPathFactory, ops: list[tuple[int, frozenset[int]]]
) -> None:
    file = Intake(tmp_path_factory.mktemp("intake") / "a.capsules", os.urandom)
    taken: set[frozenset[int]] = set()
    sent: dict[int, int] = {}
    for client, numbers in ops:
        if numbers in taken:
            expected = IntakeVerdict.TAKEN
        elif any(numbers & other for other in taken):
            expected = IntakeVerdict.OTHERS
        elif sent.get(client, 0) >= LIMITS.quota:
            expected = IntakeVerdict.OVER_QUOTA
        else:
            expected = IntakeVerdict.TAKEN
            taken.add(numbers)
            sent[client] = sent.get(client, 0) + 1
        assert file.take([submission(str(client), *numbers)], LIMITS) == [expected]
    assert file.submissions() == len(taken)
    assert file.root() == root_over(capsule(number) for numbers in taken for number in numbers)
    file.close()
