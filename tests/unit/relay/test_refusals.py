"""What a relay answers to what it does not take, and what a deposit holds."""

from __future__ import annotations

import json

import pytest

from secvm.crypto.sealing.capsules import MAX_CAPSULE_BYTES
from secvm.crypto.signing import SigningKey, verify
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.problems import MEDIA_TYPE
from secvm.protocol.version import RELAY_COUNT_TYPE
from secvm.relay import refusals
from secvm.relay.deposits import make_deposit
from secvm.relay.settings import RelayLimits
from tests.unit.relay.helpers import capsule, taken_apart

KEY = SigningKey(bytes(range(32)))


@pytest.mark.parametrize("status", refusals._PLAIN)
def test_faults_of_http_are_problems_too(status: int) -> None:
    response = refusals.plain(status)
    assert (response.status, response.media_type) == (status, MEDIA_TYPE)
    assert json.loads(response.body) == {
        "status": status,
        "title": refusals._PLAIN[status],
        "type": "about:blank",
    }


def test_a_deposit_has_the_count_and_the_capsules_in_another_order() -> None:
    capsules = [capsule(number) for number in range(60)]
    body = make_deposit(5, 3, capsules, key=KEY)
    assert body is not None
    envelope, deposited = taken_apart(body)
    payload = verify(envelope, purpose=RELAY_COUNT_TYPE, keys=[KEY.public])
    assert RelayCount.from_bytes(payload) == RelayCount(opens_at=5, clients=3, capsules=60)
    assert sorted(deposited) == capsules
    # By chance once in 60!.
    assert deposited != capsules


def test_without_capsules_there_is_no_deposit() -> None:
    assert make_deposit(5, 3, [], key=KEY) is None
    assert make_deposit(5, 1, [capsule(1)], key=KEY) is not None


def test_every_capsule_that_is_let_in_can_be_packed() -> None:
    field = RelayLimits.model_fields["package_bytes"]
    assert any(getattr(rule, "le", MAX_CAPSULE_BYTES) < MAX_CAPSULE_BYTES for rule in field.metadata)
