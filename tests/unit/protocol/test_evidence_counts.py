"""Evidence about counts convicts the coordinator from the file alone, and nobody who counted honestly."""

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from secvm.auditor.explanation import explain
from secvm.errors import RemoteProtocolError
from secvm.learning.package import TrainPackage
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.experiment import publish
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, RelayedKind, Who
from secvm.protocol.relays.batches import CapsuleTree
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import entry_bytes
from secvm.protocol.relays.shards import ShardProof, ShardRun, read_sub_tally, write_sub_tally
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, STRANGER, relayed_document
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.effort import scaled
from tests.seeds import seed_for

DOCUMENT = relayed_document()
UNIT = TrainPackage(model=0, bin_index=3, sign=1)


def one_more(sub_tally: bytes) -> bytes:
    counts = read_sub_tally(sub_tally, cells=30, capsules=4096)
    return write_sub_tally({**counts, 7: counts.get(7, 0) + 1})


def one_more_in_net(net: Any) -> Any:
    minus = net.minus.copy()
    minus[0, 3] += 1
    return replace(net, minus=minus)


@cache
def made(kind: str) -> SealedRound:
    """An honest round, or one whose coordinator signs a false sub-tally, or a net tally that is not their sum."""
    lies: dict[str, Any] = {
        "honest": {},
        "count": {"sub_tallies": lambda told: [one_more(told[0])]},
        "tally": {"net": one_more_in_net},
    }[kind]
    return SealedRound(covered=True, name="counts", clients=3, told=((UNIT,),), lies=lies)


def file(kind: RelayedKind, of: SealedRound, **changes: Any) -> bytes:
    run = ShardRun(0, len(of.mixed), of.shards.proof(0).mix_path, tuple(of.mixed))
    parts: dict[str, Any] = {
        "documents": (of.manifest.signed([COORDINATOR]), of.opening.signed([COORDINATOR])),
        "blobs": (encode_tally(of.net, of.document.experiment), entry_bytes(run, of.sub_tallies[0])),
    }
    if kind is RelayedKind.WRONG_COUNT:
        parts |= {"blobs": (of.public()["capsules/1/0"], of.sub_tallies[0]), "proof": of.shards.proof(0)}
    experiment = publish(DOCUMENT, keys=(COORDINATOR,))
    return RelayedEvidence(kind=kind, experiment=experiment, **{**parts, **changes}).to_bytes()


def shows_nothing(data: bytes) -> bool:
    try:
        examine_relayed(data)
    except RemoteProtocolError:
        return True
    return False


@pytest.mark.parametrize(("kind", "lie"), [(RelayedKind.WRONG_COUNT, "count"), (RelayedKind.WRONG_TALLY, "tally")])
def test_false_counts_convict_the_coordinator_and_honest_ones_nobody(kind: RelayedKind, lie: str) -> None:
    data = file(kind, made(lie))
    assert RelayedEvidence.from_bytes(data).to_bytes() == data
    finding = examine_relayed(data)
    assert (finding.kind, finding.who) == (kind, Who.COORDINATOR)
    told = explain(data)
    assert told.kind == kind.value
    assert told.signed_by == (f"coordinator {COORDINATOR.public.key_id.hex()}",)
    assert "round 1" in told.sentence
    assert shows_nothing(file(kind, made("honest")))


def test_wrong_count_is_no_larger_than_a_shard_in_base64() -> None:
    assert len(file(RelayedKind.WRONG_COUNT, made("count"))) < 4 / 3 * len(made("count").mixed) * 80 + 2**15


def test_what_the_coordinator_did_not_sign_does_not_convict_it() -> None:
    of = made("count")
    stranger = (of.manifest.signed([COORDINATOR]), of.opening.signed([STRANGER]))
    other_round = (of.manifest.signed([COORDINATOR]), replace(of.opening, label=bytes(32)).signed([COORDINATOR]))
    capsules, sub_tally = of.public()["capsules/1/0"], of.sub_tallies[0]
    unopened = replace(of.opening, mix_reveal=None, count_seed=None, tally=None, shards=None)
    changes: list[dict[str, Any]] = [
        {"documents": stranger},
        {"documents": other_round},
        {"documents": (of.manifest.signed([COORDINATOR]), unopened.signed([COORDINATOR]))},
        {"documents": tuple(reversed((of.manifest.signed([COORDINATOR]), of.opening.signed([COORDINATOR]))))},
        {"blobs": (capsules[80:] + capsules[:80], sub_tally)},
        {"blobs": (capsules[:-80], sub_tally)},
        {"blobs": (capsules[:-1], sub_tally)},
        {"blobs": (capsules * 20, sub_tally)},
        {"blobs": (capsules, b"")},
        {"blobs": (capsules, of.counted[0])},
        {"proof": replace(of.shards.proof(0), shard=1)},
        {"proof": replace(of.shards.proof(0), label=bytes(32))},
        {"proof": None},
    ]
    assert [one for one in changes if not shows_nothing(file(RelayedKind.WRONG_COUNT, of, **one))] == []


def test_sub_tallies_that_are_not_all_there_or_not_signed_do_not_convict() -> None:
    of = made("tally")
    run = ShardRun(0, len(of.mixed), (), tuple(of.mixed))
    whole, net = entry_bytes(run, of.sub_tallies[0]), encode_tally(of.net, of.document.experiment)
    false = entry_bytes(run, one_more(of.sub_tallies[0]))
    for entries in (b"", whole[:-1], whole + b"\0", whole * 2, whole[:30], whole[:36], false, entry_bytes(run, b"")):
        assert shows_nothing(file(RelayedKind.WRONG_TALLY, of, blobs=(net, entries)))
    honest = encode_tally(made("honest").net, of.document.experiment)
    assert shows_nothing(file(RelayedKind.WRONG_TALLY, of, blobs=(honest, whole)))


#: Files of evidence that an accuser puts together without any key.
TRIES = scaled(500, 100_000)


def test_no_accuser_without_keys_convicts_an_honest_federation() -> None:
    """Anything that was signed and shown in two honest rounds, in any order, with bytes of the accuser's own."""
    dice = random.Random(seed_for("accusers of an honest coordinator"))
    first = made("honest")
    second = SealedRound(
        covered=True, name="counts", clients=3, round_number=2, before=first.manifest, opening_before=first.opening,
        told=((UNIT,),),
    )  # fmt: skip
    unopened: Opening = replace(second.opening, mix_reveal=None, count_seed=None, tally=None, shards=None)
    rounds = (first, second)
    documents = [one.signed([COORDINATOR]) for of in rounds for one in (of.manifest, of.opening)]
    # The second one is not what was logged: an accuser's own, unsigned by anybody who counts.
    documents.append(unopened.signed([STRANGER]))
    statements = [data for of in rounds for data in of.statements().values()]
    blobs = [b"", b"\0" * 36, first.manifest.state.encode()]
    proofs: list[PartProof | ShardProof | None] = [None]
    for of in rounds:
        run = ShardRun(0, len(of.mixed), (), tuple(of.mixed))
        blobs += [
            of.public()[f"capsules/{of.round_number}/0"],
            of.sub_tallies[0],
            encode_tally(of.net, of.document.experiment),
        ]
        blobs += [entry_bytes(run, of.sub_tallies[0]), entry_bytes(run, b""), one_more(of.sub_tallies[0])]
        tree = CapsuleTree(b"".join(of.mixed))
        proofs += [of.shards.proof(0), PartProof(package=dice.randrange(40), absence=tree.absence(bytes(32)))]

    def changed(data: bytes) -> bytes:
        if not data or dice.random() < 0.7:
            return data
        at = dice.randrange(len(data))
        return dice.choice(
            (data[:at], data[at:], data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :])
        )

    shapes = {
        RelayedKind.TWO_STATEMENTS: (0, 2, 0), RelayedKind.FALSE_COUNT: (1, 2, 0), RelayedKind.FALSE_REVEAL: (1, 2, 0),
        RelayedKind.PART_NOT_IN_BATCH: (1, 3, 0), RelayedKind.TWO_DOCUMENTS: (2, 0, 0),
        RelayedKind.BAD_DOCUMENT: (2, 0, 0), RelayedKind.WRONG_STEP: (3, 0, 2), RelayedKind.WRONG_COUNT: (2, 0, 2),
        RelayedKind.WRONG_TALLY: (2, 0, 2),
    }  # fmt: skip
    experiment = publish(DOCUMENT, keys=(COORDINATOR,))
    convicted = []
    for _ in range(TRIES):
        kind = dice.choice((RelayedKind.WRONG_COUNT, RelayedKind.WRONG_TALLY, *RelayedKind))
        pools = (documents, statements, blobs)
        parts = [
            tuple(changed(dice.choice(pool)) for _ in range(n)) for pool, n in zip(pools, shapes[kind], strict=True)
        ]
        if dice.random() < 0.5 and kind in (RelayedKind.WRONG_COUNT, RelayedKind.WRONG_TALLY):
            at = 2 * dice.randrange(2)
            parts[0] = (documents[at], documents[at + 1])
        wanted = {RelayedKind.WRONG_COUNT: ShardProof, RelayedKind.PART_NOT_IN_BATCH: PartProof}.get(kind)
        fitting = [None] if wanted is None else [one for one in proofs if isinstance(one, wanted)]
        told = RelayedEvidence(
            kind=kind, experiment=experiment, documents=parts[0], statements=parts[1], blobs=parts[2],
            proof=dice.choice(fitting),
        )  # fmt: skip
        if not shows_nothing(changed(told.to_bytes())):
            convicted.append(told)
    assert convicted == []
