"""Evidence of a canary that was left out convicts whoever did it, from the file alone, and never somebody honest."""

import random
from dataclasses import replace

import pytest

from secvm.crypto.sealing.layers import OUTER_BYTES, open_outer
from secvm.errors import MalformedMessageError, OpeningError, RemoteProtocolError
from secvm.learning.package import NullPackage, Package, TrainPackage
from secvm.protocol.evidence.missing_canary import BEGINS, MissingCanary, examine_canary
from secvm.protocol.evidence.relayed import Who
from secvm.protocol.relays.batches import CapsuleTree, capsule_digest
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.submission import (
    SECRETS_BYTES,
    canary_capsules,
    draw_order,
    read_request,
    receipt_for,
    seal_submission,
)
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, STRANGER, known_bytes
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.effort import scaled
from tests.seeds import seed_for

HONEST = SealedRound()
CANARY = HONEST.submissions[0].canary
X_LIES = SealedRound(mix_leaves_out=frozenset({CANARY.inner_digest}))
E_LIES = SealedRound(entry_leaves_out=frozenset({CANARY.place.digest}))


def file(told: SealedRound, *, narrowed: bool = False, **changes: object) -> bytes:
    evidence = told.evidence(narrowed=narrowed)
    assert evidence is not None
    return replace(evidence, **changes).to_bytes()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "narrowed", "blame"),
    [
        (X_LIES, False, Who.EITHER),
        (E_LIES, False, Who.EITHER),
        (X_LIES, True, Who.MIX),
        (E_LIES, True, Who.ENTRY),
    ],
)
def test_a_canary_that_was_left_out_convicts(told: SealedRound, narrowed: bool, blame: Who) -> None:
    data = file(told, narrowed=narrowed)
    assert data.startswith(BEGINS)
    found = examine_canary(data)
    assert (found.blame, found.round_number, found.document.digest) == (blame, 1, told.document.digest)
    assert ("Entry e.V." in found.sentence, "Mix Ltd." in found.sentence) == (
        blame is not Who.MIX,
        blame is not Who.ENTRY,
    )
    assert MissingCanary.from_bytes(data).to_bytes() == data


def test_a_canary_that_is_there_gives_no_file() -> None:
    assert HONEST.evidence() is None
    assert all(X_LIES.evidence(device) is None for device in range(1, X_LIES.clients))


def test_what_others_signed_or_for_other_rounds_convicts_nobody() -> None:
    other = SealedRound(round_number=2, before=X_LIES.manifest, opening_before=X_LIES.opening)
    for changes in (
        {"receipt": X_LIES.receipt.signed(STRANGER)},
        {"receipt": other.receipt.signed(ENTRY)},
        {"receipt": HONEST.receipt_for(1)},
        {"mix_count": X_LIES.mix_count.signed(STRANGER)},
        {"mix_count": other.mix_count.signed(MIX)},
        {"mix_count": HONEST.mix_count.signed(MIX)},
        {"manifest": other.manifest.data},
        {"ephemerals": bytes(64)},
        {"ephemerals": CANARY.ephemerals[::-1]},
        {"place": HONEST.submissions[1].canary.place},
    ):
        with pytest.raises(RemoteProtocolError):
            examine_canary(file(X_LIES, **changes))


def test_the_entry_relays_count_must_be_the_one_that_was_mixed() -> None:
    other = replace(X_LIES.entry_count, clients=6, capsules=X_LIES.entry_count.capsules + 7)
    for count in (other.signed(ENTRY), X_LIES.entry_count.signed(STRANGER)):
        with pytest.raises(RemoteProtocolError):
            examine_canary(file(X_LIES, narrowed=True, entry_count=count))
    # Another capsule of the batch in its place.
    leaves = CapsuleTree(b"".join(X_LIES.batch))
    with pytest.raises(RemoteProtocolError):
        examine_canary(file(X_LIES, narrowed=True, batch_place=leaves.place(3)))
    with pytest.raises(MalformedMessageError):
        examine_canary(file(X_LIES, narrowed=True, batch_place=None))


# ── nobody who is honest is ever convicted ───────────────────────────────────────────────────────────────────────────


class HonestRelays:
    """What both relays do with requests, by the rules of §28 and §30: no more than is needed to accuse them."""

    def __init__(self) -> None:
        self.round = HONEST
        self.budget = HONEST.document.budget
        #: Outer digests of all requests that were taken, and the capsules.
        self.taken: dict[bytes, bytes] = {}
        self.receipts: list[tuple[tuple[bytes, ...], bytes]] = []

    def submit(self, label: bytes, body: bytes, at: int) -> bytes | None:
        instants = self.round.manifest.instants
        if label != self.round.label or not instants.opens_at <= at < instants.accept_until:
            return None
        try:
            capsules = read_request(body, budget=self.budget)
        except MalformedMessageError:
            return None
        digests = tuple(capsule_digest(one) for one in capsules)
        if any(digest in self.taken for digest in digests):
            return None
        self.taken |= dict(zip(digests, capsules, strict=True))
        receipt = receipt_for(label, digests).signed(ENTRY)
        self.receipts.append((digests, receipt))
        return receipt

    def count(self) -> tuple[EntryCount, MixCount, CapsuleTree, CapsuleTree]:
        mix, inner = self.round.secret("mix").mix_key, set[bytes]()
        for capsule in self.taken.values():
            try:
                inner.add(capsule_digest(open_outer(mix, self.round.label, capsule)))
            except OpeningError:
                continue
        batch, mixed = (CapsuleTree(b"".join(sorted(found))) for found in (self.taken, inner))
        entry = EntryCount(label=self.round.label, clients=1, received=batch.root, capsules=batch.size, root=batch.root)
        count = MixCount(
            label=self.round.label,
            entry_count=entry.digest,
            refused=batch.size - mixed.size,
            capsules=mixed.size,
            root=mixed.root,
        )
        return entry, count, batch, mixed


def _request(number: int, dice: random.Random) -> tuple[bytes, bytes]:
    """What a device with bad intentions sends, and the secrets that it says it used."""
    secrets = known_bytes(f"secrets {number} {dice.getrandbits(64)}", SECRETS_BYTES * HONEST.document.budget)
    unit = TrainPackage(model=0, bin_index=dice.randrange(10), sign=1)
    packages: list[Package] = [unit, *[NullPackage()] * (HONEST.document.budget - 1)]
    order = draw_order(len(packages), iter(lambda: dice.getrandbits(64), None))
    made = seal_submission(HONEST.document, HONEST.manifest, packages, order=order, ephemerals=secrets)
    capsules = list(read_request(made.body, budget=HONEST.document.budget))
    for _ in range(dice.randrange(3)):
        at = dice.randrange(len(capsules))
        match dice.randrange(4):
            case 0:
                capsules[at] = dice.randbytes(OUTER_BYTES)
            case 1:
                flipped = bytearray(capsules[at])
                flipped[dice.randrange(OUTER_BYTES)] ^= 1 << dice.randrange(8)
                capsules[at] = bytes(flipped)
            case 2:
                capsules[at] = capsules[dice.randrange(len(capsules))]
            case _:
                # A low-order point in place of the ephemeral key.
                capsules[at] = bytes(32) + capsules[at][32:]
    capsules.sort(key=capsule_digest)
    body = b"".join(capsules)
    return body[: len(body) - dice.choice([0, 0, 0, 0, 1])], secrets


@pytest.mark.parametrize("part", range(scaled(2, 400)))
def test_bad_requests_convict_no_honest_relay(part: int) -> None:
    # Ten thousand of them in the deep tier.
    dice = random.Random(seed_for("bad requests", part))
    relays, tries = HonestRelays(), 25
    instants, kept = HONEST.manifest.instants, list[tuple[bytes, bytes]]()
    for number in range(tries):
        body, secrets = _request(number, dice)
        kept.append((body, secrets))
        label = dice.choice([HONEST.label] * 5 + [HONEST.following().label])
        at = dice.choice([instants.opens_at] * 5 + [instants.opens_at - 1, instants.accept_until])
        relays.submit(label, body, at)
        if dice.random() < 0.2:  # doubled, or somebody else's
            relays.submit(HONEST.label, dice.choice(kept)[0], instants.opens_at)
    assert relays.receipts
    assert len(relays.receipts) < tries
    entry, count, batch, mixed = relays.count()
    convicted = 0
    for digests, receipt in relays.receipts:
        _, secrets = kept[dice.randrange(len(kept))] if dice.random() < 0.1 else _of(digests, kept)
        tree = CapsuleTree(b"".join(digests))
        secret = dice.choice([secrets[at : at + SECRETS_BYTES] for at in range(0, len(secrets), SECRETS_BYTES)])
        inner, outer = map(capsule_digest, canary_capsules(HONEST.manifest, HONEST.document.experiment_id, secret))
        index = tree.find(outer)
        # Whatever of it is absent from what was mixed is offered as missing; else something else that is.
        absent = inner if mixed.find(inner) is None else dice.randbytes(32)
        evidence = MissingCanary(
            experiment=HONEST.published,
            manifest=HONEST.manifest.data,
            receipt=receipt,
            mix_count=count.signed(MIX),
            place=tree.place(dice.randrange(tree.size) if index is None else index),
            ephemerals=secret,
            absence=mixed.absence(absent),
        )
        for told in (evidence, evidence.narrowed(entry.signed(ENTRY), batch)):
            try:
                examine_canary(told.to_bytes())
                convicted += 1
            except RemoteProtocolError:
                pass
    assert convicted == 0


def _of(digests: tuple[bytes, ...], kept: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    for body, secrets in kept:
        if len(body) % OUTER_BYTES == 0 and capsule_digest(body[:OUTER_BYTES]) == digests[0]:
            return body, secrets
    raise AssertionError("a receipt for what nobody sent")
