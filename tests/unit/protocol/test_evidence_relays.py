"""Evidence about relays convicts from the file alone, names the right one, and convicts nobody honest."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.learning import aggregate
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.experiment import publish
from secvm.protocol.documents.recomputation import Stayed, after_opened, first_model
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, RelayedKind, Who, is_relayed_evidence
from secvm.protocol.relays.batches import CapsuleTree, capsule_digest
from secvm.protocol.relays.cover_parts import OpenedPart, Role
from secvm.protocol.relays.opening import RelayedEnding
from secvm.protocol.relays.submission import Receipt
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, STRANGER, RelayedRound, relayed_document
from secvm_lab.rigs.histories.sealed_round import SealedRound

DOCUMENT = relayed_document()
MODEL = first_model(DOCUMENT)
ROUND = RelayedRound(model=MODEL.names)
MANIFEST = ROUND.manifest.signed([COORDINATOR])
OPENING = ROUND.opening.signed([COORDINATOR])


def file(kind: RelayedKind, **parts: Any) -> bytes:
    return RelayedEvidence(kind=kind, experiment=publish(DOCUMENT, keys=(COORDINATOR,)), **parts).to_bytes()


def who(data: bytes) -> Who:
    assert RelayedEvidence.from_bytes(data).to_bytes() == data
    assert is_relayed_evidence(data)
    finding = examine_relayed(data)
    assert finding.experiment == DOCUMENT.digest
    assert finding.who.named(DOCUMENT) in finding.sentence
    return finding.who


def shows_nothing(data: bytes) -> bool:
    try:
        examine_relayed(data)
    except RemoteProtocolError:
        return True
    return False


# ── two statements ───────────────────────────────────────────────────────────────────────────────────────────────────

TWO: list[tuple[Any, Any, Any, Who]] = [
    (ROUND.mix_count, replace(ROUND.mix_count, refused=2), MIX, Who.MIX),
    (ROUND.entry_count, replace(ROUND.entry_count, clients=6), ENTRY, Who.ENTRY),
    (ROUND.entry_reveal, replace(ROUND.entry_reveal, part=0, seed=bytes(32)), ENTRY, Who.ENTRY),
    (ROUND.mix_reveal, replace(ROUND.mix_reveal, seed=bytes(32)), MIX, Who.MIX),
    (ROUND.manifest.mix_commitment, replace(ROUND.manifest.mix_commitment, parts=bytes(32)), MIX, Who.MIX),
    (ROUND.manifest.entry_commitment, replace(ROUND.manifest.entry_commitment, nonce=bytes(32)), ENTRY, Who.ENTRY),
    (ROUND.receipt, replace(ROUND.receipt, capsules=8), ENTRY, Who.ENTRY),
]


@pytest.mark.parametrize(("first", "second", "key", "convicted"), TWO)
def test_two_statements_where_a_relay_signs_one_convict_it(first: Any, second: Any, key: Any, convicted: Who) -> None:
    pair = (first.signed(key), second.signed(key))
    assert who(file(RelayedKind.TWO_STATEMENTS, statements=pair)) is convicted
    assert shows_nothing(file(RelayedKind.TWO_STATEMENTS, statements=(pair[0], pair[0])))
    assert shows_nothing(file(RelayedKind.TWO_STATEMENTS, statements=(pair[0], second.signed(STRANGER))))


def test_statements_of_two_rounds_or_requests_convict_nobody() -> None:
    other = ROUND.following()
    assert other.label != ROUND.label
    counts = (ROUND.mix_count.signed(MIX), other.mix_count.signed(MIX))
    receipts = (ROUND.receipt.signed(ENTRY), Receipt(label=ROUND.label, root=bytes(32), capsules=7).signed(ENTRY))
    mixed = (ROUND.mix_count.signed(MIX), ROUND.mix_reveal.signed(MIX))
    assert all(shows_nothing(file(RelayedKind.TWO_STATEMENTS, statements=pair)) for pair in (counts, receipts, mixed))


# ── counts and reveals ───────────────────────────────────────────────────────────────────────────────────────────────


def test_counts_that_do_not_add_up_convict_who_signed_them() -> None:
    entry, mix = ROUND.entry_count, ROUND.mix_count
    false_entry = replace(entry, capsules=entry.capsules - 1).signed(ENTRY)
    false_mix = replace(mix, refused=mix.refused + 1).signed(MIX)
    of = {"documents": (MANIFEST,)}
    assert who(file(RelayedKind.FALSE_COUNT, statements=(false_entry,), **of)) is Who.ENTRY
    assert who(file(RelayedKind.FALSE_COUNT, statements=(entry.signed(ENTRY), false_mix), **of)) is Who.MIX
    assert shows_nothing(file(RelayedKind.FALSE_COUNT, statements=(entry.signed(ENTRY),), **of))
    assert shows_nothing(file(RelayedKind.FALSE_COUNT, statements=(entry.signed(ENTRY), mix.signed(MIX)), **of))
    # After another count of the entry relay than the one that the mixing relay names, nothing follows.
    assert shows_nothing(file(RelayedKind.FALSE_COUNT, statements=(false_entry, mix.signed(MIX)), **of))
    elsewhere = ROUND.following().manifest.signed([COORDINATOR])
    assert shows_nothing(file(RelayedKind.FALSE_COUNT, statements=(false_entry,), documents=(elsewhere,)))


def test_reveals_of_what_a_relay_was_not_bound_to_convict_it() -> None:
    entry, mix, of = ROUND.entry_reveal, ROUND.mix_reveal, {"documents": (MANIFEST,)}
    other_part = (entry.part + 1) % ROUND.parts
    wrong: list[dict[str, Any]] = [{"seed": bytes(32)}, {"nonce": bytes(32)}, {"part": other_part}]
    wrong += [{"mix_count": ROUND.mix_count.signed(STRANGER)}, {"mix_count": ROUND.following().mix_count.signed(MIX)}]
    for changes in wrong:
        told = replace(entry, **changes).signed(ENTRY)
        assert who(file(RelayedKind.FALSE_REVEAL, statements=(told,), **of)) is Who.ENTRY, changes
    wrong = [{"seed": bytes(32)}, {"part": other_part}, {"mix_count": ROUND.mix_count.signed(STRANGER)}]
    for changes in wrong:
        told = replace(mix, **changes).signed(MIX)
        assert who(file(RelayedKind.FALSE_REVEAL, statements=(entry.signed(ENTRY), told), **of)) is Who.MIX, changes
    assert shows_nothing(file(RelayedKind.FALSE_REVEAL, statements=(entry.signed(ENTRY),), **of))
    assert shows_nothing(file(RelayedKind.FALSE_REVEAL, statements=(entry.signed(ENTRY), mix.signed(MIX)), **of))


# ── a part that is not in the batch ──────────────────────────────────────────────────────────────────────────────────


@cache
def dropped(role: Role, by: Role) -> tuple[SealedRound, bytes, OpenedPart]:
    """A round in which the first capsule of an opened part is not handed on, and by whom."""
    whole = SealedRound(covered=True, name=f"{role} {by}", model=MODEL.names, clients=3)
    # Who drops before the part is drawn hits it with a chance; here all parts lose one, so that one surely does.
    parts = [whole.part(role, number) for number in range(whole.parts)]
    at = 1 if by == "entry" else 0
    left = frozenset(capsule_digest(part.capsules(0)[at] or b"") for part in parts)
    made = replace(whole, entry_leaves_out=left) if by == "entry" else replace(whole, mix_leaves_out=left)
    opened = made.entry_reveal if role == "entry" else made.mix_reveal
    part = OpenedPart.of(role, DOCUMENT, made.manifest, made.entry_count, opened.seed)
    return made, capsule_digest(part.capsules(0)[0]), part


def part_file(role: Role, by: Role, *, leaves: bool, package: int = 0) -> bytes:
    made, inner, part = dropped(role, by)
    told = made.statements()
    names = ["entry_count", "mix_count", "entry_reveal", *(["mix_reveal"] if role == "mix" else [])]
    absence = CapsuleTree(b"".join(made.mixed)).absence(inner)
    proof = PartProof(package=package, absence=absence)
    outer = part.capsules(0)[1]
    if leaves and outer is not None:
        tree, digest = CapsuleTree(b"".join(made.batch)), capsule_digest(outer)
        found = tree.find(digest)
        proof = replace(
            proof,
            batch_place=None if found is None else tree.place(found),
            batch_absence=tree.absence(digest) if found is None else None,
        )
    return file(
        RelayedKind.PART_NOT_IN_BATCH,
        documents=(made.manifest.signed([COORDINATOR]),),
        statements=tuple(told[name] for name in names),
        proof=proof,
    )


def test_a_part_that_is_not_in_the_batch_convicts_with_leaves_the_one_and_without_them_one_of_two() -> None:
    assert who(part_file("entry", "entry", leaves=False)) is Who.EITHER
    assert who(part_file("entry", "entry", leaves=True)) is Who.ENTRY
    assert who(part_file("entry", "mix", leaves=True)) is Who.MIX
    assert who(part_file("mix", "mix", leaves=False)) is Who.MIX
    assert shows_nothing(part_file("mix", "mix", leaves=False, package=1))
    assert shows_nothing(part_file("mix", "mix", leaves=False, package=10**6))


def test_all_capsules_of_an_honest_rounds_parts_are_under_the_mixing_relays_root() -> None:
    made = SealedRound(covered=True, name="honest", model=MODEL.names, clients=3)
    seeds: list[tuple[Role, bytes]] = [("entry", made.entry_reveal.seed), ("mix", made.mix_reveal.seed)]
    for role, seed in seeds:
        part = OpenedPart.of(role, DOCUMENT, made.manifest, made.entry_count, seed)
        digests = list(part.inner_digests())
        assert len(digests) == DOCUMENT.relay_cover.part_packages
        assert set(digests) <= set(made.mixed)
        assert digests[7] == capsule_digest(part.capsules(7)[0])


# ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_documents_that_cannot_both_be_true_convict_the_coordinator() -> None:
    later = RelayedRound(model=("1" * 64,) * 3).manifest.signed([COORDINATOR])
    unopened = replace(ROUND.opening, count_seed=None, tally=None, shards=None).signed([COORDINATOR])
    second = ROUND.following()
    names: dict[str, Any] = dict(zip(("state", "training_weights", "evaluation_weights"), MODEL.names, strict=True))
    ended = RelayedEnding(
        experiment=DOCUMENT.digest,
        round_number=1,
        manifest=ROUND.manifest.digest,
        opening=ROUND.opening.digest,
        why="stopped",
        **names,
    )
    ending = ended.signed([COORDINATOR])
    pairs = [
        (MANIFEST, later),
        (OPENING, unopened),
        (ending, replace(ended, why="finished").signed([COORDINATOR])),
        (ending, second.manifest.signed([COORDINATOR])),
    ]
    for pair in pairs:
        assert who(file(RelayedKind.TWO_DOCUMENTS, documents=pair)) is Who.COORDINATOR
    for pair in ((MANIFEST, MANIFEST), (MANIFEST, OPENING), (ending, MANIFEST)):
        assert shows_nothing(file(RelayedKind.TWO_DOCUMENTS, documents=pair))


def test_documents_that_the_experiment_forbids_convict_the_coordinator() -> None:
    instants = replace(ROUND.manifest.instants, open_by=ROUND.manifest.instants.open_by + 1)
    bad = replace(ROUND.manifest, instants=instants).signed([COORDINATOR])
    second = RelayedRound(
        round_number=2, before=ROUND.manifest, opening_before=ROUND.opening, model=("1" * 64,) * 3
    ).manifest
    reused = replace(second, count_seed_hash=ROUND.manifest.count_seed_hash).signed([COORDINATOR])
    false = replace(ROUND.opening, count_seed=bytes(32)).signed([COORDINATOR])
    unopened = replace(ROUND.opening, count_seed=None, tally=None, shards=None)
    stepped = replace(second, opening=unopened.digest).signed([COORDINATOR])
    for told in (
        (bad,),
        (MANIFEST, reused),
        (MANIFEST, false),
        (MANIFEST, unopened.signed([COORDINATOR]), stepped),
    ):
        assert who(file(RelayedKind.BAD_DOCUMENT, documents=told)) is Who.COORDINATOR
    honest = second.signed([COORDINATOR])
    for told in ((MANIFEST,), (MANIFEST, honest), (MANIFEST, OPENING), (MANIFEST, OPENING, honest)):
        assert shows_nothing(file(RelayedKind.BAD_DOCUMENT, documents=told))


def test_a_model_that_does_not_follow_convicts_the_coordinator() -> None:
    tally = aggregate.empty_tally(DOCUMENT.experiment)
    tally.participants[:] = 9
    tally.plus[0, 1] = 12
    made = RelayedRound(model=MODEL.names, drawn=tally)
    after = after_opened(DOCUMENT, MODEL.state, tally, clients=made.clients)
    assert after.stayed is None

    def told(names: tuple[str, str, str]) -> bytes:
        next_round = RelayedRound(round_number=2, before=made.manifest, opening_before=made.opening, model=names)
        signed = (made.manifest, made.opening, next_round.manifest)
        documents = tuple(one.signed([COORDINATOR]) for one in signed)
        blobs = (MODEL.state_bytes, encode_tally(tally, DOCUMENT.experiment))
        return file(RelayedKind.WRONG_STEP, documents=documents, blobs=blobs)

    assert who(told(MODEL.names)) is Who.COORDINATOR
    assert shows_nothing(told(after.model.names))
    first = RelayedRound(model=("1" * 64,) * 3).manifest.signed([COORDINATOR])
    assert who(file(RelayedKind.WRONG_STEP, documents=(first,))) is Who.COORDINATOR
    assert shows_nothing(file(RelayedKind.WRONG_STEP, documents=(MANIFEST,)))


def test_rounds_that_are_not_stepped_say_why_and_leave_the_model() -> None:
    tally = aggregate.empty_tally(DOCUMENT.experiment)
    tally.participants[:] = 9
    flooded = replace(tally, plus=tally.plus + 10**5)
    cases = {
        Stayed.FLOOR: (tally, DOCUMENT.floor - 1),
        Stayed.UNEXPLAINED: (flooded, 5),
        Stayed.NOBODY: (aggregate.empty_tally(DOCUMENT.experiment), 5),
    }
    for stayed, (net, clients) in cases.items():
        after = after_opened(DOCUMENT, MODEL.state, net, clients=clients)
        assert (after.stayed, after.model.names) == (stayed, MODEL.names)


def test_a_file_with_a_part_too_many_or_of_a_plain_experiment_shows_nothing() -> None:
    assert shows_nothing(file(RelayedKind.TWO_DOCUMENTS, documents=(MANIFEST, OPENING, MANIFEST)))
    assert shows_nothing(file(RelayedKind.FALSE_COUNT, documents=(OPENING,), statements=(OPENING,)))
    with pytest.raises(MalformedMessageError):
        RelayedEvidence.from_bytes(b"{}")
