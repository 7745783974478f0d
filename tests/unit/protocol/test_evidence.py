"""Evidence convinces whoever reads it, and nothing that an honest server signed convicts it, however it is mixed."""

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import CheatingError, MalformedMessageError, RemoteProtocolError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import publish
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry, examine
from secvm.protocol.trust.trusted_rounds import TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from secvm_lab.rigs.lies.catalogue import LIES
from secvm_lab.rigs.lies.liar import Liar
from secvm_lab.trials import look
from tests.unit.protocol.helpers import COORDINATOR, document, manifests, served


@cache
def evidence_of(kind: Kind, number: int) -> bytes:
    """The ``number``-th piece of this kind that the lies give, of followers and newcomers."""
    lies = {
        Kind.TWO_DOCUMENTS: "two-manifests",
        Kind.BAD_DOCUMENT: "shorter-window",
        Kind.WRONG_STEP: "wrong-normaliser",
        Kind.WRONG_COUNTS: "relay-count-that-cannot-be",
        Kind.FORKED_LOG: "forked-log",
        Kind.NOT_IN_LOG: "different-gateway-key",
        Kind.TWO_ENTRIES: "logged-twice",
    }
    for seed in range(200):
        scene, told = LIES[lies[kind]].told(random.Random(f"evidence {seed}"))
        try:
            look(scene, told)
        except CheatingError as fault:
            if examine(fault.evidence).kind is kind:
                number -= 1
                if number < 0:
                    return fault.evidence
        except RemoteProtocolError:
            pass
    raise AssertionError("no lie gives this evidence")


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("number", range(3))
def test_every_kind_is_made_by_a_lie_and_verified_from_the_file_alone(kind: Kind, number: int) -> None:
    data = evidence_of(kind, number)
    finding = examine(data)
    assert finding.kind is kind
    assert finding.sentence.endswith(".")
    assert Evidence.from_bytes(data).to_bytes() == data
    assert finding.title == "Which words tell a from b?"


@settings(max_examples=60)
@given(st.sampled_from(list(Kind)), st.integers(0, 1), st.data())
def test_a_part_that_was_changed_shows_nothing_or_the_same(kind: Kind, number: int, data: st.DataObject) -> None:
    good = evidence_of(kind, number)
    evidence = Evidence.from_bytes(good)
    names = ("documents", "checkpoints", "blobs", "entries")
    name = data.draw(st.sampled_from([one for one in names if getattr(evidence, one)]))
    parts = list(getattr(evidence, name))
    which = data.draw(st.integers(0, len(parts) - 1))
    part = data.draw(st.sampled_from(["entry", "proof"])) if name == "entries" else None
    before = parts[which] if part is None else getattr(parts[which], part)
    at = data.draw(st.integers(0, len(before) - 1))
    after = before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :]
    parts[which] = after if part is None else replace(parts[which], **{part: after})
    changed: dict[str, Any] = {name: tuple(parts)}
    try:
        found = examine(replace(evidence, **changed).to_bytes())
    except RemoteProtocolError:
        return
    assert found == examine(good)
    assert name == "checkpoints" or part == "proof"


@pytest.mark.parametrize("kind", list(Kind))
def test_a_part_too_few_too_many_or_in_another_place_shows_nothing(kind: Kind) -> None:
    good = Evidence.from_bytes(evidence_of(kind, 0))
    extra = b"watermark"
    changed = [
        replace(good, blobs=(*good.blobs, extra)) if len(good.blobs) < 2 else replace(good, blobs=good.blobs[:1]),
        replace(good, checkpoints=(*good.checkpoints, extra)[:2])
        if len(good.checkpoints) < 2
        else replace(good, checkpoints=good.checkpoints[:1]),
        replace(good, documents=(*good.documents, extra)),
        replace(good, entries=(*good.entries, LoggedEntry(extra, extra)))
        if len(good.entries) < 2
        else replace(good, entries=good.entries[:1]),
        *(replace(good, kind=other) for other in Kind if other is not kind),
    ]
    for evidence in changed:
        with pytest.raises(RemoteProtocolError):
            examine(evidence.to_bytes())


@pytest.mark.parametrize("kind", list(Kind))
def test_repro_evidence_without_any_part_is_refused_like_any_other(kind: Kind) -> None:
    made = honest()[0]
    with pytest.raises(MalformedMessageError):
        examine(Evidence(kind=kind, experiment=made.envelope).to_bytes())


def test_evidence_of_an_experiment_that_its_keys_did_not_sign_shows_nothing() -> None:
    good = Evidence.from_bytes(evidence_of(Kind.WRONG_STEP, 0))
    with pytest.raises(RemoteProtocolError):
        examine(replace(good, experiment=honest()[0].envelope).to_bytes())


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "white-lie"},
        {"entries": [{"entry": "AA=="}]},
        {"entries": [{"entry": "AA==", "proof": "AA=="}] * 3},
        {"type": "secvm-v1-trusted"},
        {"more": 1},
    ],
    ids=str,
)
def test_files_are_read_strictly(change: dict[str, object]) -> None:
    content = {**json.loads(evidence_of(Kind.FORKED_LOG, 0)), **change}
    data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(MalformedMessageError):
        Evidence.from_bytes(data)


def test_a_manifest_after_the_ending_and_a_second_ending_convict() -> None:
    made = PublicHistory.drawn(random.Random(4), beacons=0)
    made.announce()
    made.conclude(None)
    other = Liar.after(made)
    first = made.end()
    sign = [made.parties.coordinator]
    second = replace(first, why=next(why for why in type(first.why) if why is not first.why))
    other.announce()
    later = other.manifests[-1]
    for documents, word in (
        ((first.signed(sign), later.signed(sign)), "ended"),
        ((later.signed(sign), first.signed(sign)), "ended"),
        ((first.signed(sign), second.signed(sign)), "endings"),
    ):
        evidence = Evidence(kind=Kind.TWO_DOCUMENTS, experiment=made.envelope, documents=documents)
        assert word in examine(evidence.to_bytes()).sentence
    fine = Evidence(
        kind=Kind.TWO_DOCUMENTS,
        experiment=made.envelope,
        documents=(made.manifests[0].signed(sign), first.signed(sign)),
    )
    with pytest.raises(MalformedMessageError):
        examine(fine.to_bytes())


def test_a_wrong_first_model_convicts_also_where_there_was_no_round() -> None:
    made = PublicHistory.drawn(random.Random(5), beacons=0)
    made.state = aggregate.step(made.document.experiment, made.state, made.draw_tally())
    made.end()
    rounds = TrustedRounds(made.document, made.envelope)
    with pytest.raises(CheatingError) as caught:
        rounds.check(made.served(rounds), now=made.now)
    assert "first model" in examine(caught.value.evidence).sentence


def test_an_experiment_without_a_log_can_be_convicted_of_two_manifests_but_of_no_fork() -> None:
    of = document()
    envelope = publish(of, keys=(COORDINATOR,))
    one, two = manifests(1, of)[0], manifests(1, of, quota=9)[0]
    both = Evidence(kind=Kind.TWO_DOCUMENTS, experiment=envelope, documents=(served(one), served(two)))
    assert examine(both.to_bytes()).kind is Kind.TWO_DOCUMENTS
    notes = Evidence.from_bytes(evidence_of(Kind.FORKED_LOG, 0)).checkpoints
    with pytest.raises(MalformedMessageError, match="has none"):
        examine(Evidence(kind=Kind.FORKED_LOG, experiment=envelope, checkpoints=notes).to_bytes())


# ── an honest history convicts nobody ────────────────────────────────────────────────────────────────────────────────


@cache
def honest() -> tuple[PublicHistory, PublicHistory]:
    """Two experiments of one coordinator, in one log and with the same witnesses, both to their end."""
    first = PublicHistory.drawn(random.Random("honest"), witnesses=3, beacons=0)
    second = PublicHistory(first.dice, replace(first.document, title="Another"), first.parties, log=first.log)
    for abandoned in (0, 0, 0, 1, 0):
        for made in (first, second):
            made.play(1, abandoned=abandoned)
    for made in (first, second):
        made.end()
    return first, second


@cache
def parts() -> tuple[list[bytes], list[bytes], list[bytes], list[LoggedEntry]]:
    """All documents, checkpoints and blobs of both, and every entry of the log under some of its checkpoints."""
    documents, checkpoints, blobs, entries = list[bytes](), list[bytes](), list[bytes](), list[LoggedEntry]()
    for made in honest():
        documents += [data for path, data in made.files.items() if "/manifest/" in path or path.endswith("/ending")]
        checkpoints += [data for path, data in made.files.items() if path.endswith("/checkpoint")]
        blobs += [data for path, data in made.files.items() if path.startswith("/v1/blob/")]
    log = honest()[0].log
    checkpoints += [log.checkpoint(size).data for size in range(1, log.tree.size + 1)]
    for index, line in enumerate(log.entries):
        entries += [LoggedEntry(line, log.proof(index, log.checkpoint(size))) for size in {index + 1, log.tree.size}]
    return sorted(set(documents)), sorted(set(checkpoints)), sorted(set(blobs)), entries


@pytest.mark.parametrize("which", [0, 1])
def test_what_would_convict_if_it_were_otherwise_does_not_convict_the_honest(which: int) -> None:
    """The combinations that come nearest: each step with its own state and tally, each log from each of its sizes."""
    made = honest()[which]
    sign = [made.parties.coordinator]
    assert made.ending is not None
    chain = [*(one.signed(sign) for one in made.manifests), made.ending.signed(sign)]
    found: list[Evidence] = []
    told: list[RoundManifest | Ending] = [*made.manifests, made.ending]
    for before, after, first, second in zip(made.manifests, told[1:], chain, chain[1:], strict=False):
        assert after.last is not None
        found.append(_evidence(made, Kind.BAD_DOCUMENT, documents=(first, second)))
        if after.last.tally is not None:
            tally = made.files[f"/v1/blob/{after.last.tally}"]
            state = made.files[f"/v1/blob/{before.state}"]
            found.append(_evidence(made, Kind.WRONG_STEP, documents=(first, second), blobs=(state, tally)))
            found.append(_evidence(made, Kind.WRONG_COUNTS, documents=(first, second), blobs=(tally,)))
            found.append(_evidence(made, Kind.WRONG_COUNTS, documents=(second,), blobs=(tally,)))
    found += [_evidence(made, Kind.WRONG_STEP, documents=(chain[0],))]
    entries = [one for one in parts()[3] if made.document.digest.encode() in one.entry]
    for one in entries:
        found += [_evidence(made, Kind.NOT_IN_LOG, documents=(data,), entries=(one,)) for data in chain]
        found += [_evidence(made, Kind.TWO_ENTRIES, entries=(one, other)) for other in entries]
    for evidence in found:
        with pytest.raises(MalformedMessageError, match="does not show"):
            examine(evidence.to_bytes())


def _evidence(made: PublicHistory, kind: Kind, **told: Any) -> Evidence:
    return Evidence(kind=kind, experiment=made.envelope, **told)


def test_entries_of_other_experiments_and_other_logs_show_nothing() -> None:
    """Whoever accuses may not bring a log of its own, nor what another experiment's lines say."""
    made, other = honest()
    sign = [made.parties.coordinator]
    document = made.manifests[0].signed(sign)
    line = replace(made.manifests[0], quota=made.manifests[0].quota + 1).log_entry
    elsewhere = WitnessedLog("else.example/secvm/v2", made.parties.log, [line.to_bytes()])
    own = WitnessedLog(made.log.origin, other.parties.coordinator, [line.to_bytes()])
    for log in (elsewhere, own):
        logged = LoggedEntry(line.to_bytes(), log.proof(0, log.checkpoint()))
        for evidence in (
            _evidence(made, Kind.NOT_IN_LOG, documents=(document,), entries=(logged,)),
            _evidence(made, Kind.TWO_ENTRIES, entries=(logged, logged)),
        ):
            with pytest.raises(RemoteProtocolError):
                examine(evidence.to_bytes())
    theirs = next(one for one in parts()[3] if other.document.digest.encode() in one.entry)
    with pytest.raises(MalformedMessageError, match="another experiment"):
        examine(_evidence(made, Kind.TWO_ENTRIES, entries=(theirs, theirs)).to_bytes())


def test_repro_a_few_lines_do_not_ask_for_the_whole_memory() -> None:
    # 60 models of 2^24 bins: eight gigabytes of zeros for a file of three kilobytes.
    large = Experiment(n_bins=2**24, labels=tuple(f"label {i}" for i in range(60)), rule=Pegasos(), budget=8)
    of = document(experiment=large)
    (told,) = manifests(1, of)
    file = Evidence(
        kind=Kind.WRONG_STEP,
        experiment=publish(of, keys=(COORDINATOR,)),
        documents=(told.signed([COORDINATOR]),),
    )
    with pytest.raises(MalformedMessageError, match="too large"):
        examine(file.to_bytes())


def test_a_file_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = evidence_of(Kind.TWO_DOCUMENTS, 0)
    monkeypatch.setattr(Evidence, "longest", len(data))
    assert Evidence.from_bytes(data).to_bytes() == data
    monkeypatch.setattr(Evidence, "longest", len(data) - 1)
    with pytest.raises(MalformedMessageError):
        Evidence.from_bytes(data)
