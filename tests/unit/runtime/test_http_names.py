"""What is for the operator alone is not answered under a name that somebody else can point at this machine."""

import json

import pytest

from secvm.runtime.http.messages import refuse_names


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8750", "localhost", "LocalHost:1", "[::1]", "[::1]:8750", "10.1.2.3:80"]
)
def test_addresses_and_localhost_are_answered(host: str) -> None:
    assert refuse_names({"host": host}) is None


def test_without_a_host_there_is_no_name() -> None:
    assert refuse_names({}) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8750", "127.0.0.1.evil.example", "localhost.evil", "", "::1", "[::1]x", "a@[::1]"],
)
def test_names_are_refused_with_the_next_step(host: str) -> None:
    refused = refuse_names({"host": host})
    assert refused is not None
    assert refused.status == 421
    assert "127.0.0.1" in json.loads(refused.body)["detail"]
