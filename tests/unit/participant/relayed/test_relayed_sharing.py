"""What devices of one host share of rounds with two relays: the same question has one answer, another never gets it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secvm.errors import InconsistentManifestError, RemoteProtocolError
from secvm.participant.relayed.canaries import Canaries
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.manifest import RelayedManifest, read_manifest
from secvm.protocol.relays.shards import ShardRun
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.trust import relayed_chain as chain_module
from secvm.protocol.trust.relayed_chain import RelayedChain, RelayedServed
from secvm.protocol.trust.trusted_log import Checking
from secvm_lab.rigs.histories.relayed_history import RelayedHistory, terms_of_relays
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import known_log_terms
from tests.there import there
from tests.unit.participant.relayed.relayed_world import RelayedWorld, trusting


def history_of(rounds: int) -> tuple[RelayedHistory, RelayedServed]:
    """So many rounds that are over, one that is announced, and all of it as it is served to a newcomer."""
    history = RelayedHistory(relayed_document())
    for _ in range(rounds):
        history.announce()
        history.conclude()
    history.announce()
    path = f"/v1/experiment/{history.document.digest}"
    return history, RelayedServed(
        manifests=tuple(history.files[f"{path}/manifest/{number}"] for number in range(1, rounds + 2)),
        openings={number: history.files[f"{path}/opening/{number}"] for number in range(1, rounds + 1)},
        tallies={name[9:]: data for name, data in history.files.items() if name.startswith("/v1/blob/")},
    )


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_what_was_judged_for_one_device_is_not_judged_again_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    history, served = history_of(2)
    alone = RelayedChain(history.document, checking=Checking()).check(served)
    judged: list[object] = []

    def counting(*told: Any) -> RelayedManifest:
        judged.append(told)
        return read_manifest(*told)

    monkeypatch.setattr(chain_module, "read_manifest", counting)
    shared = SharedChecks()
    for _ in range(3):
        chain = RelayedChain(history.document, checking=shared)
        newest = there(chain.look(served.manifests[-1]))
        assert newest.round_number == 3
        found = chain.check(served)
        assert (found.trust, found.documents, found.steps) == (alone.trust, alone.documents, alone.steps)
        chain.believe(found)
    assert len(judged) == 1 + 3


def changes_of(served: RelayedServed) -> Mapping[str, RelayedServed]:
    """The same with one byte of each part changed, or a part left out."""
    opening, (name, tally) = served.openings[1], next(iter(served.tallies.items()))
    return {
        "manifest": replace(served, manifests=(flipped(served.manifests[0], 30), *served.manifests[1:])),
        "order": replace(served, manifests=served.manifests[::-1]),
        "opening": replace(served, openings={**served.openings, 1: flipped(opening, 30)}),
        "number": replace(served, openings={1: served.openings[2], 2: opening}),
        "no opening": replace(served, openings={2: served.openings[2]}),
        "tally": replace(served, tallies={**served.tallies, name: flipped(tally, len(tally) - 1)}),
        "no tally": replace(served, tallies={}),
        "ending": replace(served, ending=served.manifests[0]),
    }


@pytest.mark.parametrize("part", changes_of(history_of(2)[1]))
def test_who_is_lied_to_does_not_see_what_others_were_told(part: str) -> None:
    history, served = history_of(2)
    shared = SharedChecks()
    RelayedChain(history.document, checking=shared).check(served)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            RelayedChain(history.document, checking=shared).check(changes_of(served)[part])
    # And whoever is told the truth is not hurt by the lie.
    RelayedChain(history.document, checking=shared).check(served)


def test_a_key_that_only_one_device_has_seen_before_is_refused_by_that_one() -> None:
    history, served = history_of(0)
    shared = SharedChecks()
    RelayedChain(history.document, checking=shared).check(served)
    bound = min(history.running.manifest.bound)
    with pytest.raises(InconsistentManifestError):
        RelayedChain(history.document, seen={bound: 7}, checking=shared).check(served)


def test_a_device_further_on_is_not_taken_back_by_what_a_newcomer_was_told() -> None:
    history, served = history_of(1)
    shared = SharedChecks()
    newcomer = RelayedChain(history.document, checking=shared)
    trust = newcomer.check(served).trust
    # What was seen is the same to both: what they believe is not.
    further_on = RelayedChain(history.document, trust, checking=shared)
    with pytest.raises(RemoteProtocolError):
        further_on.check(served)


def test_a_run_is_fetched_once_and_one_that_does_not_verify_is_kept_for_nobody() -> None:
    history, _ = history_of(1)
    played, files, asked = history.rounds[0], dict(history.files), list[str]()

    async def content(path: str, _now: object, *, most: int) -> bytes:
        asked.append(path)
        assert len(files[path]) <= most
        return files[path]

    around: Any = SimpleNamespace(checks=SharedChecks(), content=content, state=SimpleNamespace(relayed=None))
    canaries = Canaries(around, history.document, b"")

    def look(digest: bytes, count: MixCount) -> list[ShardRun]:
        kept: Any = SimpleNamespace(canary=SimpleNamespace(inner_digest=digest), round_number=1)
        return asyncio.run(canaries._runs(kept, count, lambda: 0))

    assert played.opening.mix_count is not None
    run, count = played.run(0), MixCount.enclosed(played.opening.mix_count)
    path = next(path for path in files if path.endswith("/shard/1/0"))
    # Two digests of it, one in between that is nowhere, and one beyond its end.
    first, last = run.digests[0], run.digests[-1]
    between, beyond = (int.from_bytes(first, "big") + 1).to_bytes(32, "big"), b"\xff" * 32
    assert first < between < last < beyond

    files[path] = flipped(run.to_bytes(), len(run.to_bytes()) - 1)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            look(first, count)
    files[path] = run.to_bytes()
    asked.clear()
    assert [look(digest, count) for digest in (first, last, between)] == [[run]] * 3
    assert len(asked) == 2, "the index and the run, once"
    look(beyond, count)
    assert len(asked) == 4, "whether it stands beyond its end this run does not show"
    with pytest.raises(RemoteProtocolError):
        look(first, replace(count, root=bytes(32)))


def test_terms_are_asked_for_once_a_round_and_only_signed_ones_are_kept() -> None:
    document, shared = relayed_document(), SharedChecks()
    relay, signed = document.entry_relay, terms_of_relays(document)[document.entry_relay.url]
    answers: list[RelayedTerms | None] = [None, signed, signed, replace(signed, quota=7)]

    async def relayed_terms(_relay: Relay) -> RelayedTerms | None:
        return answers.pop(0)

    transport: Any = SimpleNamespace(relayed_terms=relayed_terms)

    def ask(of: Relay, label: bytes) -> RelayedTerms | None:
        return asyncio.run(shared.relay_terms(of, label, transport.relayed_terms))

    assert ask(relay, b"1") is None
    assert [ask(relay, b"1") for _ in range(3)] == [signed] * 3
    assert ask(relay, b"2") == signed
    # The same place with another key is another relay.
    assert ask(replace(relay, key=document.mix_relay.key), b"1") == replace(signed, quota=7)
    assert not answers


def test_devices_of_a_host_fetch_lines_of_the_log_once(tmp_path: Path) -> None:
    """News and checkpoints are each device's own: by them it sees whether it is told the same as all."""
    document, shared = relayed_document(log=known_log_terms()), SharedChecks(devices=2)
    worlds = [RelayedWorld(tmp_path / str(number), document) for number in range(2)]
    history = worlds[0].history
    for world in worlds:
        # One coordinator, one entry relay.
        world.net.files, world.net.entry = history.files, history.take
    policy = trusting(document, without_log=False)
    devices = [world.joined(checks=shared, policy=policy) for world in worlds]
    until = history.announce().instants.mix_by
    for world, device in zip(worlds, devices, strict=True):
        world.drive(device, until=until)
    history.conclude()
    until = history.announce().instants.opens_at
    for world, device in zip(worlds, devices, strict=True):
        world.drive(device, until=until)
    one, other = [device.state.relayed.log(document.digest) for device in devices]
    assert one == other
    assert one is not None
    assert one.frontier.size == 4
    assert [request.label for request in worlds[1].net.requests] == [history.rounds[0].label]
    first, second = ([path for path, _ in world.net.fetches] for world in worlds)
    for word in ("/news/", "/checkpoint"):
        assert min(sum(word in path for path in paths) for paths in (first, second)) >= 2, word
    # Lines from the beginning of the log on, for a first round; those of the second come with its news.
    assert sum("/tile/entries" in path for path in first) == 1
    assert not any("/tile/entries" in path for path in second)
