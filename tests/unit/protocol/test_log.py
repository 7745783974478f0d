"""A coordinator's log: whose it is, and what a proof file shows of it."""

from typing import Any

import pytest

from secvm.crypto.merkle import Tree
from secvm.crypto.signing import SigningKey
from secvm.errors import (
    MalformedMessageError,
)
from secvm.protocol.canonical import Fields
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.proofs import LogProof
from tests.unit.protocol.helpers import LOG, WITNESSES, log_terms

EXPERIMENT, FIRST, SECOND, END = (f"{i:02x}" * 32 for i in (10, 11, 12, 13))


def test_a_coordinator_has_one_log_with_one_origin() -> None:
    assert log_terms().log_key.name == "log.example/secvm/v2"


# ── terms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def changed(**fields: object) -> LogTerms:
    return LogTerms.from_fields(Fields({**log_terms().to_content(), **fields}, "the log"))


def witnesses(count: int) -> list[dict[str, Any]]:
    return [{"key": SigningKey(bytes([i]) * 32).public.data.hex(), "name": f"w{i}.example"} for i in range(count)]


def test_terms_come_back_whole() -> None:
    assert changed() == log_terms()
    assert changed(witnesses=witnesses(16), quorum=9).quorum == 9
    assert changed(witnesses=witnesses(1), quorum=1, name="127.0.0.1:8080/a/b_c").name == "127.0.0.1:8080/a/b_c"


W = log_terms().to_content()["witnesses"]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "log.example/"},
        {"name": "Log.example"},
        {"name": "a+b"},
        {"name": "a" * 201},
        {"witnesses": witnesses(17), "quorum": 9},
        {"witnesses": [W[0], {"key": W[1]["key"], "name": W[0]["name"]}, W[2]]},
        {"witnesses": [*W[:2], {"key": W[2]["key"], "name": "a+b"}]},
        {"witnesses": [*W[:2], {"key": W[2]["key"], "name": "w\u00e9"}]},
        {"quorum": 1},
        {"quorum": 4},
        {"freshness_s": 7 * 86_400 + 1},
    ],
)
def test_terms_that_prove_nothing_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(MalformedMessageError):
        changed(**fields)


# ── a proof file of a round ──────────────────────────────────────────────────────────────────────────────────────────


def test_proof_of_a_round_is_small() -> None:
    """Three witnesses, and as many entries as a log can have: well below 4 kB."""
    tree = Tree([bytes(32)] * 1000)
    checkpoint = Checkpoint(log_terms().log_key.name, 2**20, tree.root())
    lines = [checkpoint.cosign(w, name=f"w{i}.example", time_s=1).to_line() for i, w in enumerate(WITNESSES)]
    data = checkpoint.sign(LOG) + "".join(lines).encode()
    assert len(LogProof(1, (bytes(32),) * 20, data).to_bytes()) < 2048
