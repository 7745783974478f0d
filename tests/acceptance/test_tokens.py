"""A real federation whose packages need anonymous tokens: processes, sockets, and somebody who has bad ideas."""

from __future__ import annotations

import http.client
import os
import re
from pathlib import Path

import numpy as np
import pytest

from secvm.crypto.oblivious import REQUEST_MEDIA_TYPE
from secvm.crypto.tokens import REQUEST_MEDIA_TYPE as TOKEN_REQUEST
from secvm.crypto.tokens import TOKEN_BYTES, TokenBatch
from secvm.lab.disturbed import run_disturbed
from secvm.learning.package import Package, TrainPackage
from secvm.participant.sealing import gateway_seal
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.tokens import with_token
from secvm.testing.federation import Federation
from secvm.testing.federation_settings import COORDINATOR, RELAY, RELAY_PATH

LAST_ROUND = 2
STUFFED = TrainPackage(model=0, bin_index=3, sign=1)


class Mallory:
    """A client like any other, with one credential, who wants to count for more."""

    def __init__(self) -> None:
        self.federation: Federation | None = None
        self.round = 0
        #: What the relay and the coordinator said, in the last round.
        self.statuses: dict[str, list[int]] = {}
        self.sent: set[bytes] = set()
        self.same_tokens = False

    def meet(self, federation: Federation) -> None:
        self.federation = federation

    def attack(self) -> None:
        """Called before each window closes; in the last round nothing follows from what it changes."""
        self.round += 1
        if self.round == LAST_ROUND:
            self._attack()

    def _attack(self) -> None:
        federation = self.federation
        assert federation is not None
        assert federation.document is not None
        manifest, budget = federation.manifest(self.round), federation.document.budget
        key = manifest.token_key
        assert key is not None

        # Exactly Q: one batch, the same again for nothing, and not one token more.
        mine, more = TokenBatch(b"m" * 32, budget), TokenBatch(b"n" * 32, 1)
        first, again = (self._ask(mine.request(key)) for _ in range(2))
        refused = self._ask(more.request(key))
        old = self._ask(mine.request(federation.manifest(1).token_key or b""))
        self.statuses["tokens"] = [first[0], again[0], refused[0], old[0]]
        tokens = mine.tokens(first[1], key)
        self.same_tokens = tokens == mine.tokens(again[1], key)

        # An outsider: no token, one that nobody issued, and one of mine with a bit flipped.
        forged = tokens[1][:-1] + bytes([tokens[1][-1] ^ 1])
        self._send("without", STUFFED, None)
        self._send("invented", STUFFED, os.urandom(TOKEN_BYTES))
        self._send("forged", STUFFED, forged)
        # One token for three capsules, and each of them three times.
        for _ in range(3):
            self._send("spent", STUFFED, tokens[0], times=3)

    def _ask(self, request: bytes) -> tuple[int, bytes]:
        return self._post(f"{RELAY_PATH}/tokens", request, TOKEN_REQUEST)

    def _send(self, why: str, package: Package, token: bytes | None, *, times: int = 1) -> None:
        federation = self.federation
        assert federation is not None
        assert federation.document is not None
        plaintext = encode(AddressedPackage(federation.document.experiment_id, self.round, package))
        content = plaintext if token is None else with_token(plaintext, token)
        capsule = gateway_seal(os.urandom)(content, federation.manifest(self.round).gateway_keys)
        self.sent.add(capsule)
        for _ in range(times):
            self.statuses.setdefault(why, []).append(self._post(RELAY_PATH, capsule, REQUEST_MEDIA_TYPE)[0])

    def _post(self, path: str, body: bytes, media_type: str) -> tuple[int, bytes]:
        assert self.federation is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.federation.port(RELAY), timeout=30)
        try:
            connection.request("POST", path, body, {"content-type": media_type, "secvm-credential": "mallory"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def dropped(self) -> int:
        """Capsules that the coordinator says it dropped for want of a token."""
        assert self.federation is not None
        page = self.federation.ask(COORDINATOR, "GET", "/metrics").decode()
        found = re.search(r'^secvm_coordinator_dropped_total\{problem="no-token"\} ([0-9.e+]+)', page, re.MULTILINE)
        return int(float(found[1])) if found else 0


@pytest.mark.slow
def test_a_federation_with_tokens_counts_its_devices_and_of_mallory_one_package(tmp_path: Path) -> None:
    mallory = Mallory()
    dropped: list[int] = []
    outcome = run_disturbed(
        tmp_path,
        participants=10,
        rounds=LAST_ROUND,
        seed=3,
        disturb=mallory.meet,
        before_closing=mallory.attack,
        after_round=lambda: dropped.append(mallory.dropped()),
        tokens=True,
    )
    # Without Mallory: the very tallies of the same people without tokens, and every device took part.
    assert outcome.given_up == [0, 0]
    assert outcome.tallies[0] == outcome.expected_tallies[0]
    assert outcome.counted[0] == outcome.scheduled[0] == outcome.acknowledged[0]
    assert outcome.faults == []

    # Q tokens, the same request for nothing, no token more, and none of a round that is over.
    assert mallory.statuses["tokens"] == [200, 200, 429, 410]
    assert mallory.same_tokens
    # A relay cannot see what is under a seal.
    assert {status for why in ("without", "invented", "forged", "spent") for status in mallory.statuses[why]} == {202}
    assert outcome.counted[1] == outcome.scheduled[1] + len(mallory.sent)
    assert dropped == [0, 3]

    # Of nine sendings of three capsules with one token, one package counts; of the outsider's, none.
    last, expected = outcome.tallies[1], outcome.expected_tallies[1]
    assert last is not None
    assert expected is not None
    assert np.argwhere(last.plus != expected.plus).tolist() == [[0, 3]]
    assert last.plus[0, 3] == expected.plus[0, 3] + 1
    assert (last.minus == expected.minus).all()
    assert (last.participants == expected.participants).all()
    assert (last.cells == expected.cells).all()
