"""Tokens at the entry relay: one for each client, one for each submission, and nothing joins the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.crypto.tokens import TOKEN_BYTES, TokenBatch, TokenKey
from secvm.errors import MalformedMessageError
from secvm.relay.admission import Identity
from secvm.relay.entry.intake import IncomingSubmission, IntakeLimits, IntakeVerdict, read_submission
from secvm.relay.entry.rounds import EntryRound
from secvm.relay.refusals import RelayRefusalError
from tests.unit.relay.relayed import BUDGET, ENTRY_SECRET, TIMES, Machine, body, until_nothing

LIMITS = IntakeLimits(quota=1, network_quota=2, submissions=100)
KEY = TokenKey.of_round(ENTRY_SECRET.token_seed)
BEFORE, WITHIN = TIMES.opens_at - 500, TIMES.opens_at + 500


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path, "entry", token_bytes=TOKEN_BYTES) as made:
        yield made


def batch(number: int) -> TokenBatch:
    return TokenBatch(bytes([number]) * 32, 1)


def client(number: int, network: bytes = b"") -> Identity:
    return Identity(b"address %d" % number, network)


def given(entry: EntryRound, number: int, *, whom: Identity | None = None, now: int = BEFORE) -> bytes:
    """A client's token."""
    one = batch(number)
    answer = entry.grant(whom or client(number), one.request(KEY.public), LIMITS, now)
    assert isinstance(answer, bytes)
    return one.tokens(answer, KEY.public)[0]


def submission(number: int, token: bytes) -> IncomingSubmission:
    return read_submission(None, token + body(number), budget=BUDGET, token_bytes=TOKEN_BYTES)


def take(entry: EntryRound, *submissions: IncomingSubmission) -> list[IntakeVerdict]:
    return entry.take(submissions, LIMITS, WITHIN)


def test_one_token_is_one_submission_and_a_retry_needs_none(machine: Machine) -> None:
    entry = machine.start()
    token = given(entry, 1)
    first = submission(1, token)
    assert take(entry, first) == [IntakeVerdict.TAKEN]
    # The same capsules again, with the token, with another one's bytes, and with none that is true.
    again = [first, submission(1, bytes(TOKEN_BYTES)), submission(1, b"x" * TOKEN_BYTES)]
    assert take(entry, *again) == [IntakeVerdict.TAKEN] * 3
    assert take(entry, submission(2, token)) == [IntakeVerdict.OTHERS]
    assert entry.knows(first.root)
    assert entry._file is not None
    assert entry._file.submissions() == 1


def test_no_token_and_a_token_of_another_round_are_refused(machine: Machine) -> None:
    entry = machine.start()
    token = given(entry, 1)
    other = TokenKey.of_round(b"o" * 32)
    nonce = bytes(32)
    made_up = [bytes(TOKEN_BYTES), token[:-1] + bytes([token[-1] ^ 1]), nonce + other.output_of(nonce)[:32]]
    assert take(entry, *(submission(i, one) for i, one in enumerate(made_up, 5))) == [IntakeVerdict.NO_TOKEN] * 3
    # None of them is used up by that.
    assert take(entry, submission(9, token)) == [IntakeVerdict.TAKEN]


def test_a_client_is_given_one_token_and_the_same_request_again_the_same(machine: Machine) -> None:
    entry = machine.start()
    request = batch(1).request(KEY.public)
    first = entry.grant(client(1), request, LIMITS, BEFORE)
    assert entry.grant(client(1), request, LIMITS, BEFORE) == first
    assert entry.grant(client(1), batch(2).request(KEY.public), LIMITS, BEFORE) is IntakeVerdict.OVER_QUOTA
    # A restart forgets neither.
    machine.die()
    entry = machine.start()
    assert entry.grant(client(1), request, LIMITS, WITHIN) == first
    assert entry.grant(client(1), batch(2).request(KEY.public), LIMITS, WITHIN) is IntakeVerdict.OVER_QUOTA
    # Whoever brings the known bytes is given what their maker was: without the blind it is of no use.
    assert entry.grant(client(7), request, LIMITS, WITHIN) == first


def test_networks_have_a_quota_and_the_round_has_room(machine: Machine) -> None:
    entry = machine.start()
    for number in (1, 2):
        given(entry, number, whom=client(number, b"net"))
    request = batch(3).request(KEY.public)
    assert entry.grant(client(3, b"net"), request, LIMITS, BEFORE) is IntakeVerdict.OVER_QUOTA
    full = IntakeLimits(quota=1, network_quota=2, submissions=2)
    assert entry.grant(client(3), request, full, BEFORE) is IntakeVerdict.FULL


def test_a_request_that_is_none_costs_its_client_nothing(machine: Machine) -> None:
    entry = machine.start()
    elsewhere = TokenKey.of_round(b"o" * 32).public
    two = TokenBatch(b"t" * 32, 2).request(KEY.public)
    for wrong in (b"", b"x" * 64, KEY.public, KEY.public + bytes(32), batch(1).request(elsewhere), two):
        with pytest.raises(MalformedMessageError):
            entry.grant(client(1), wrong, LIMITS, BEFORE)
    assert given(entry, 1)


def test_nothing_is_given_after_the_window_nor_where_there_are_no_tokens(machine: Machine, tmp_path: Path) -> None:
    entry = machine.start()
    request = batch(1).request(KEY.public)
    with pytest.raises(RelayRefusalError) as refused:
        entry.grant(client(1), request, LIMITS, TIMES.accept_until)
    assert refused.value.why == "stale"
    with Machine(tmp_path / "plain", "entry") as plain, pytest.raises(RelayRefusalError) as refused:
        plain.start().grant(client(1), request, LIMITS, BEFORE)
    assert refused.value.why == "unknown"


def test_nothing_joins_a_client_a_grant_and_a_submission_and_all_of_it_goes(machine: Machine) -> None:
    entry = machine.start()
    token = given(entry, 1)
    take(entry, submission(1, token))
    assert b"address 1" not in machine.everything()
    tables = {
        str(name): {str(row[1]) for row in entry._file.rows(f"PRAGMA table_info({name})")}
        for (name,) in entry._file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    apart = {"name", "request", "nonce", "root", "digest"}
    assert all(len(columns & apart) <= 1 for columns in tables.values())
    until_nothing(entry, TIMES.batch_by)
    entry.handed_on()
    until_nothing(entry, TIMES.batch_by)
    left = machine.everything()
    assert token[:32] not in left
    assert batch(1).request(KEY.public)[32:] not in left


def test_a_machine_that_restarted_gives_no_tokens_of_a_round_that_is_lost(machine: Machine) -> None:
    machine.start()
    machine.restart()
    with pytest.raises(RelayRefusalError):
        machine.start().grant(client(1), batch(1).request(KEY.public), LIMITS, BEFORE)
