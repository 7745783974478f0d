"""A device's request: exactly B capsules, a canary whose place nothing of the person decides, and nothing else kept."""

import hashlib
import math
import random

import pytest

from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.sealing.layers import OUTER_BYTES, BulkSealer, open_inner, open_outer
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TrainPackage
from secvm.protocol.codec import decode
from secvm.protocol.relays.batches import capsule_digest, capsule_root
from secvm.protocol.relays.submission import (
    SECRETS_BYTES,
    Canary,
    Receipt,
    Submission,
    canary_capsules,
    draw_order,
    read_request,
    receipt_for,
    seal_submission,
)
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, RelayedRound, known_bytes
from secvm_lab.rigs.histories.sealed_round import known_words
from tests.effort import scaled
from tests.seeds import FALSE_ALARM, seed_for

ROUND = RelayedRound()
BUDGET = ROUND.document.budget


def packages(*units: Package) -> list[Package]:
    told: list[Package] = [ParticipationPackage(cohort=Cohort.TRAIN, class_index=1), *units]
    return told + [NullPackage()] * (BUDGET - len(told))


UNIT = TrainPackage(model=0, bin_index=3, sign=-1)


def sealed(name: str = "a", *units: Package, lanes: Lanes | None = None) -> Submission:
    return seal_submission(
        ROUND.document,
        ROUND.manifest,
        packages(*units),
        order=draw_order(BUDGET, iter(known_words(name))),
        ephemerals=known_bytes(name, SECRETS_BYTES * BUDGET),
        sealer=BulkSealer(lanes),
    )


def opened(submission: Submission) -> list[Package]:
    mix = ROUND.secret("mix").mix_key
    inners = [open_outer(mix, ROUND.label, outer) for outer in read_request(submission.body, budget=BUDGET)]
    return [decode(open_inner(ROUND.count_key, ROUND.label, inner)).package for inner in inners]


def test_request_has_exactly_the_packages_in_capsules_of_one_size_ascending_by_digest() -> None:
    body = sealed("a", UNIT).body
    assert len(body) == BUDGET * OUTER_BYTES
    digests = [capsule_digest(one) for one in read_request(body, budget=BUDGET)]
    assert digests == sorted(set(digests))
    found = opened(sealed("a", UNIT))
    assert sorted(map(repr, found)) == sorted(map(repr, packages(UNIT)))


def test_vector_of_a_request(lanes: Lanes | None) -> None:
    # Fixed by docs/protocol.md §28 and the texts of the test's dice: whoever changes a byte of it sees it here.
    submission = sealed("vector", UNIT, lanes=lanes)
    assert hashlib.sha256(submission.body).hexdigest() == VECTOR_BODY
    assert hashlib.sha256(submission.canary.to_bytes()).hexdigest() == VECTOR_CANARY


def test_same_dice_give_the_canary_the_same_capsule_whatever_the_person_has() -> None:
    one, other = sealed("dice"), sealed("dice", UNIT, UNIT, UNIT)
    assert one.canary.ephemerals == other.canary.ephemerals
    assert one.canary.inner_digest == other.canary.inner_digest
    assert one.canary.place.digest == other.canary.place.digest


def test_canary_is_a_null_under_the_root_of_its_request() -> None:
    submission = sealed("c", UNIT)
    canary = submission.canary
    digests = [capsule_digest(one) for one in read_request(submission.body, budget=BUDGET)]
    canary.place.check(size=BUDGET, root=capsule_root(digests))
    inner, outer = canary_capsules(ROUND.manifest, ROUND.document.experiment_id, canary.ephemerals)
    assert (capsule_digest(inner), capsule_digest(outer)) == (canary.inner_digest, canary.place.digest)
    assert opened(submission)[canary.place.index] == NullPackage()


def test_canary_is_kept_as_bytes_and_read_again() -> None:
    canary = sealed("kept").canary
    assert Canary.from_bytes(canary.to_bytes()).to_bytes() == canary.to_bytes()
    digests = [capsule_digest(one) for one in read_request(sealed("kept").body, budget=BUDGET)]
    receipt = receipt_for(ROUND.label, digests)
    canary.check_receipt(receipt)
    taken = canary.with_receipt(receipt.signed(ENTRY))
    again = Canary.from_bytes(taken.to_bytes())
    assert again.receipt is not None
    assert Receipt.read(again.receipt, ENTRY.public) == receipt
    assert "0x" not in repr(canary) + repr(sealed("kept"))
    assert canary.ephemerals.hex() not in repr(canary)


@pytest.mark.parametrize(
    "changed",
    [
        packages()[:-1],
        [*packages(), NullPackage()],
        [*packages()[:-1], UNIT],
    ],
)
def test_other_numbers_of_packages_and_no_null_for_the_canary_are_our_fault(changed: list[Package]) -> None:
    with pytest.raises(LocalProtocolError, match="exactly 7 packages"):
        seal_submission(
            ROUND.document,
            ROUND.manifest,
            changed,
            order=draw_order(BUDGET, iter(known_words("x"))),
            ephemerals=known_bytes("x", SECRETS_BYTES * BUDGET),
        )


def test_secrets_that_come_twice_are_no_dice() -> None:
    with pytest.raises(LocalProtocolError, match="not fresh dice"):
        seal_submission(
            ROUND.document,
            ROUND.manifest,
            packages(),
            order=draw_order(BUDGET, iter(known_words("x"))),
            ephemerals=bytes(SECRETS_BYTES * BUDGET),
        )


def test_requests_of_other_lengths_or_orders_are_none() -> None:
    body = sealed().body
    for bad in (b"", body[:-1], body + bytes(OUTER_BYTES), body[OUTER_BYTES:] + body[:OUTER_BYTES]):
        with pytest.raises(MalformedMessageError):
            read_request(bad, budget=BUDGET)
    with pytest.raises(MalformedMessageError):
        read_request(body[:OUTER_BYTES] * BUDGET, budget=BUDGET)


def _within(count: int, tries: int, chance: float, looks: int) -> bool:
    """Whether a binomial count is not too far off: Hoeffding, over so many looks, false alarm FALSE_ALARM."""
    return abs(count - tries * chance) <= math.sqrt(tries * math.log(2 * looks / FALSE_ALARM) / 2)


def test_every_place_is_the_canarys_equally_often() -> None:
    # 7 places, each looked at once: a false alarm has at most FALSE_ALARM.
    dice = random.Random(seed_for("place of the canary"))
    tries = scaled(10_000, 200_000)
    words = iter(lambda: dice.getrandbits(64), None)
    found = [draw_order(BUDGET, words).canary for _ in range(tries)]
    assert all(_within(found.count(place), tries, 1 / BUDGET, BUDGET) for place in range(BUDGET))


def test_place_in_the_request_tells_neither_the_canary_nor_the_participation() -> None:
    # What the entry relay sees is the order by digest: for both packages 7 places are looked at.
    tries = scaled(40, 3_000)
    canaries, participations = [0] * BUDGET, [0] * BUDGET
    for number in range(tries):
        submission = sealed(f"{seed_for('place in the request')} {number}", UNIT)
        canaries[submission.canary.place.index] += 1
        participations[[isinstance(one, ParticipationPackage) for one in opened(submission)].index(True)] += 1
    for counts in (canaries, participations):
        assert all(_within(count, tries, 1 / BUDGET, 2 * BUDGET) for count in counts)


VECTOR_BODY = "c760435e5fc003b7b5e16329cee03c0bb5a4255d5f5655a70cb9278c7c07b041"
VECTOR_CANARY = "e8d386a0c1b68b1dab868efcbb6059ae0c2e2f677f58814f18f8fd5f52867933"
