"""Tokens at the coordinator: which packages need one, and that each counts once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.counting import RoundToCount, count_epoch
from secvm.coordinator.gateway import Admitted, Gateway, Refused, open_block
from secvm.coordinator.present import Present
from secvm.coordinator.records import make_record, view_words
from secvm.coordinator.redeeming import Doubles, Redeemer
from secvm.crypto.tokens import TokenBatch, TokenKey, issue
from secvm.errors import LocalProtocolError, MalformedMessageError, RefusedPackageError
from secvm.learning.package import Package
from secvm.protocol.sealed_requests import package_request
from secvm.protocol.tokens import TokenTerms, with_token
from tests.unit.coordinator.package_path import (
    DATE,
    DICE,
    EPOCH,
    KEY,
    OPEN_ROUND,
    PRESENT,
    ROUND,
    plaintext,
    running,
    seal,
    train,
)
from tests.unit.protocol.helpers import START, document

SEED = bytes(range(32))
WITH_TOKENS = document(tokens=TokenTerms(issuer="https://relay.example/r"))
HERE = Present((replace(OPEN_ROUND, document=WITH_TOKENS),), (KEY,))


def issued(count: int, epoch: int = EPOCH) -> list[bytes]:
    key, batch = TokenKey.of_epoch(SEED, epoch), TokenBatch(b"d" * 32, count)
    return batch.tokens(issue(key, batch.request(key.public), random.Random(0).randbytes), key.public)


TOKENS = issued(3)


def content(package: Package, token: bytes | None) -> bytes:
    encoded = plaintext(package, of=WITH_TOKENS)
    return encoded if token is None else with_token(encoded, token)


def gateway() -> Gateway:
    made = Gateway(dice=DICE, public=lambda _path: None, date=lambda: DATE, redeemer=Redeemer(SEED))
    made.update(HERE)
    return made


def judged(by: Gateway, data: bytes) -> str:
    found = by.package(seal(package_request(data)).capsule, START)
    return found.problem.name if isinstance(found, Refused) else "admitted"


def test_a_package_is_admitted_with_its_token_and_no_other_way() -> None:
    by = gateway()
    forged = TOKENS[0][:-1] + bytes([TOKENS[0][-1] ^ 1])
    (of_next_epoch,) = issued(1, EPOCH + 1)
    cases = {
        "no-token": (None, bytes(64), forged, of_next_epoch),
        "admitted": (TOKENS[0],),
        "spent-token": (TOKENS[0],),
    }
    for problem, tokens in cases.items():
        assert [judged(by, content(train(), token)) for token in tokens] == [problem] * len(tokens)


def test_a_resend_is_the_same_bytes_and_no_second_use() -> None:
    by, capsule = gateway(), seal(package_request(content(train(), TOKENS[1]))).capsule
    first, again = by.package(capsule, START), by.package(capsule, START)
    assert isinstance(first, Admitted)
    assert isinstance(again, Admitted)
    assert first.spent == again.spent == first.record[:32] + TOKENS[1][:32]


def test_an_experiment_without_tokens_takes_none() -> None:
    by = Gateway(dice=DICE, public=lambda _path: None, date=lambda: DATE)
    by.update(PRESENT)
    assert judged(by, plaintext(train())) == "admitted"
    assert judged(by, with_token(plaintext(train()), TOKENS[0])) == "wrong-size"


def test_in_blocks_what_has_no_token_is_dropped_by_name() -> None:
    redeemer = Redeemer(SEED)
    contents = [
        content(train(), TOKENS[0]),
        content(train(1), TOKENS[0]),
        content(train(), None),
        content(train(), bytes(64)),
    ]
    capsules = [seal(package_request(data)).capsule for data in contents]
    opened = open_block(HERE.keys_of(EPOCH), capsules, lambda data: redeemer.check(data, EPOCH, HERE))
    assert opened.refused == {"no-token": 2}
    assert opened.block == b"".join(make_record(c, data[:32]) for c, data in zip(capsules[:2], contents, strict=False))
    assert opened.spent == b"".join(make_record(c, TOKENS[0][:32]) for c in capsules[:2])
    # Which of the two counts is not said here; the count says it.
    told = [RoundToCount(WITH_TOKENS.experiment_id, WITH_TOKENS.experiment, ROUND)]
    counted = count_epoch([opened.block], told, dice=bytes, spent=[opened.spent])
    assert (counted.received, counted.distinct, counted.refused) == (2, 2, {"spent-token": 1})
    assert counted.tallies[0].plus.sum() == 1
    assert len(counted.digests) == 2


def test_a_batch_is_opened_and_its_tokens_are_kept() -> None:
    capsules = [seal(package_request(content(train(i), token))).capsule for i, token in enumerate((*TOKENS, None))]

    async def check() -> None:
        async with running(redeemer=Redeemer(SEED)) as path:
            path.routes.update(HERE)
            assert (await path.batch(capsules)).status == 202
            path.store.close_epoch(EPOCH)
            await path.ingest.finish(EPOCH)
            assert len(path.opened()) == len(TOKENS)
            spent = b"".join(path.store.spent(EPOCH))
            assert {spent[at + 32 : at + 64] for at in range(0, len(spent), 64)} == {token[:32] for token in TOKENS}

    asyncio.run(check())


def test_of_many_uses_the_oldest_are_forgotten_and_left_to_the_count() -> None:
    redeemer = Redeemer(SEED, remembered=2)
    for nonce in (b"1", b"2", b"3"):
        redeemer.use(nonce, b"a")
    with pytest.raises(RefusedPackageError):
        redeemer.use(b"3", b"b")
    redeemer.use(b"1", b"b")


def test_without_a_seed_nothing_can_be_redeemed() -> None:
    with pytest.raises(LocalProtocolError):
        Redeemer().check(content(train(), TOKENS[0]), EPOCH, HERE)
    with pytest.raises(MalformedMessageError):
        Redeemer(SEED).check(bytes(33), EPOCH, HERE)
    assert repr(Redeemer(SEED)) == "Redeemer(...)"


names = st.integers(0, 5).map(lambda i: bytes([255 - i]) * 32)


@given(pairs=st.lists(st.tuples(names, names), max_size=20), cut=st.integers(0, 20))
def test_of_capsules_with_one_token_the_smallest_counts_whatever_the_order(
    pairs: list[tuple[bytes, bytes]], cut: int
) -> None:
    # A capsule has one token: its digest, here its name, tells which.
    pairs = list({digest: (digest, nonce) for digest, nonce in pairs}.values()) * 2
    rows = [digest + nonce for digest, nonce in pairs]
    found = Doubles([b"".join(rows[:cut]), b"".join(rows[cut:])])
    first = {nonce: min(digest for digest, other in pairs if other == nonce) for _, nonce in pairs}
    refused = {digest for digest, nonce in pairs if digest != first[nonce]}
    assert len(found) == len(refused)
    words = view_words(b"".join(rows))
    expected = np.array([digest in refused for digest, _ in pairs], dtype=np.bool_)
    assert (found.among(words) == expected).all()
