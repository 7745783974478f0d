"""What is believed, and what is not: step by step, exactly on the edges, and never back."""

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.merkle import Frontier
from secvm.errors import (
    BadInputError,
    BadSignatureError,
    CheatingError,
    LocalProtocolError,
    MalformedMessageError,
    RemoteProtocolError,
    StaleRoundError,
)
from secvm.learning import aggregate
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.manifest import last_round
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.policy import LogPolicy
from secvm.protocol.trust.trusted_rounds import Served, Trusted, TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory, served_from
from secvm_lab.rigs.histories.random_experiments import Parties, draw_document
from tests.unit.protocol.helpers import document


def history(rounds: int, seed: object = 0, **changes: Any) -> PublicHistory:
    """So many rounds, the last of them announced and not concluded."""
    made = PublicHistory.drawn(random.Random(f"{seed}"), witnesses=3, beacons=0, **changes)
    made.play(rounds - 1, abandoned=0)
    made.announce()
    return made


def device(of: PublicHistory, trusted: Trusted | None = None, **changes: Any) -> TrustedRounds:
    return TrustedRounds(of.document, of.envelope, trusted, **changes)


def follower(of: PublicHistory) -> TrustedRounds:
    rounds = device(of)
    rounds.believe(rounds.check(of.served(rounds), now=of.now))
    return rounds


def convicted(rounds: TrustedRounds, served: Served, now: int) -> Kind:
    with pytest.raises(CheatingError) as caught:
        rounds.check(served, now=now)
    return examine(caught.value.evidence).kind


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "hashes"), [(1, ()), (0, (bytes(32),)), (3, (bytes(32),)), (1, (bytes(31),)), (-1, ())]
)
def test_no_other_frontier_can_be_made(size: int, hashes: tuple[bytes, ...]) -> None:
    with pytest.raises(LocalProtocolError):
        Frontier(size, hashes)


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_what_is_kept_is_read_back(rounds: int) -> None:
    made = history(max(1, rounds))
    kept = (follower(made) if rounds else device(made)).trusted
    assert Trusted.from_parts(kept.to_bytes(), kept.state) == kept
    assert device(made, kept).trusted == kept


def test_a_header_that_was_changed_is_not_read() -> None:
    made = history(2)
    header = follower(made).trusted.to_bytes()
    for damaged in (header[:-1], header + b" ", header.replace(b'"size":', b'"size":1'), b"{}"):
        with pytest.raises(MalformedMessageError):
            Trusted.from_parts(damaged, b"")


def test_a_state_that_a_disk_has_changed_is_not_computed_with() -> None:
    made = history(2)
    kept = follower(made).trusted
    broken = replace(kept, state=kept.state[:-1] + bytes([kept.state[-1] ^ 1]))
    with pytest.raises(MalformedMessageError):
        device(made, broken).model()


def test_an_experiment_without_a_log_is_not_for_this() -> None:
    with pytest.raises(BadInputError, match="no log"):
        TrustedRounds(document(), b"")


def test_lines_of_witnesses_that_the_device_does_not_know_count_for_nothing() -> None:
    dice = random.Random(2)
    parties = Parties.drawn(dice)
    terms = parties.log_terms(quorum=2)
    made = PublicHistory(dice, draw_document(dice, parties, beacons=0, log=terms), parties)
    made.announce()
    outside = parties.witnesses[0].key.public
    known = [key for key in terms.witness_keys if key.key != outside]
    rounds = device(made, policy=LogPolicy.of_witnesses(known))
    signed = made.log.checkpoint()
    some = [witness for witness in parties.witnesses if witness.key.public == outside]
    some += [witness for witness in parties.witnesses if witness not in some][: terms.quorum - 1]
    lines = [signed.checkpoint.cosign(one.key, name=one.name, time_s=made.now // 1000) for one in some]
    served = replace(made.served(rounds), checkpoint=signed.cosigned(*lines).data)
    with pytest.raises(BadSignatureError, match="too few"):
        rounds.check(served, now=made.now)


# ── nothing is taken back ────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_changes_before_it_is_believed() -> None:
    made = history(2)
    rounds = device(made)
    before = rounds.trusted
    rounds.check(made.served(rounds), now=made.now)
    assert rounds.trusted == before
    assert rounds.last is None


def test_believing_never_goes_back() -> None:
    made = history(2)
    late = device(made)
    old = late.check(made.served(late), now=made.now)
    made.conclude(None)
    made.announce()
    rounds = follower(made)
    kept = rounds.trusted
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="never goes back"):
            rounds.believe(old)
    assert rounds.trusted == kept


@given(st.integers(0, 10**9), st.lists(st.integers(0, 9), max_size=12))
def test_whatever_is_served_in_whatever_order_it_only_grows(seed: int, looks: list[int]) -> None:
    made = PublicHistory.drawn(random.Random(seed), witnesses=1, beacons=0)
    rounds = device(made)
    offers: list[tuple[dict[str, bytes], int]] = []
    for _ in range(4):
        made.announce()
        offers.append((dict(made.files), made.now))
        made.conclude(None)
    size = rounds.trusted.log.frontier.size
    for look in looks:
        files, now = offers[look % len(offers)]
        with suppress(RemoteProtocolError):
            rounds.believe(rounds.check(served_from(files, made.document.digest, rounds), now=now))
        assert rounds.trusted.log.frontier.size >= size
        size = rounds.trusted.log.frontier.size


# ── what a look tells ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_look_tells_what_is_new_and_what_is_old() -> None:
    made = history(1)
    first = made.files[f"{made.place}/manifest/1"]
    rounds = device(made)
    assert rounds.look(first) == made.manifests[0]
    rounds.believe(rounds.check(made.served(rounds), now=made.now))
    assert rounds.look(first) is None
    made.conclude(None)
    made.announce()
    assert rounds.look(made.files[f"{made.place}/manifest/latest"]) == made.manifests[1]
    rounds.believe(rounds.check(made.served(rounds), now=made.now))
    with pytest.raises(StaleRoundError):
        rounds.look(first)


def test_repro_a_manifest_of_another_experiment_convicts_nobody() -> None:
    """Whoever stands between could have swapped them: the same coordinator may run both."""
    made = history(2)
    other = PublicHistory(made.dice, replace(made.document, title="Another"), made.parties.anew(), now=made.now + 1000)
    other.announce()
    other.conclude(None)
    other.end()
    foreign = other.files[f"{other.place}/manifest/1"]
    for rounds in (device(made), follower(made)):
        with pytest.raises(MalformedMessageError, match="another experiment"):
            rounds.look(foreign)
    late = follower(made)
    made.conclude(None)
    made.end()
    served = replace(made.served(late), ending=other.files[f"{other.place}/ending"])
    with pytest.raises(MalformedMessageError, match="another experiment"):
        late.check(served, now=made.now)


# ── what is served is whole, or nothing ──────────────────────────────────────────────────────────────────────────────


def test_an_ending_over_a_gap_is_refused() -> None:
    made = history(3)
    rounds = device(made)
    made.conclude(None)
    made.end()
    served = made.served(rounds)
    with pytest.raises(MalformedMessageError, match="between"):
        rounds.check(replace(served, manifests=served.manifests[:-1]), now=made.now)


@pytest.mark.parametrize("away_s", [-3600, 7 * 86_400, 10 * 365 * 86_400])
def test_repro_an_ending_is_believed_whatever_its_age(away_s: int) -> None:
    # Nobody renews what is under an ending: who came back a week later could never believe that it is over.
    made = history(2)
    late = follower(made)
    made.conclude(made.draw_tally())
    made.end()
    checked = late.check(made.served(late), now=made.now + 1000 * away_s)
    assert checked.ending == made.ending


def test_repro_a_second_manifest_convicts_also_where_the_first_was_never_believed() -> None:
    # Shown to one device without a quorum, and then what everybody is shown: the device held both, and forgot one.
    made = history(2)
    rounds, coordinator = device(made), [made.parties.coordinator]
    lie = replace(made.manifests[-1], quota=made.document.budget + 1)
    assert rounds.look(lie.signed(coordinator)) == lie
    # The same once more is no second one.
    assert rounds.look(lie.signed(coordinator)) == lie
    with pytest.raises(CheatingError) as caught:
        rounds.look(made.manifests[-1].signed(coordinator))
    assert examine(caught.value.evidence).kind is Kind.TWO_DOCUMENTS


def test_repro_a_manifest_looked_at_convicts_the_chain_that_passes_over_it() -> None:
    made = history(2)
    rounds = device(made)
    lie = replace(made.manifests[-1], quota=made.document.budget + 1)
    rounds.look(lie.signed([made.parties.coordinator]))
    made.conclude(made.draw_tally())
    made.announce()
    assert convicted(rounds, made.served(rounds), made.now) is Kind.TWO_DOCUMENTS


# ── what convicts ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_newcomer_knows_of_no_fork() -> None:
    made = history(1)
    rounds = device(made)
    fork = made.log.branch(0)
    fork.append(made.manifests[0].log_entry)
    served = replace(made.served(rounds), checkpoint=fork.checkpoint().data, lines=tuple(fork.entries))
    with pytest.raises(RemoteProtocolError) as caught:
        rounds.check(served, now=made.now)
    assert not isinstance(caught.value, CheatingError)


def test_a_tally_of_nobody_convicts() -> None:
    made = history(1)
    empty = aggregate.empty_tally(made.document.experiment)
    last = made.conclude(made.draw_tally())
    # Participants that only the document tells: the floor is met there, and nobody is in the tally.
    told = last_round(empty)
    made.files[f"/v1/blob/{told.tally}"] = encode_tally(empty, made.document.experiment)
    made.announce(last=replace(last, tally=told.tally))
    rounds = device(made)
    assert convicted(rounds, made.served(rounds), made.now) is Kind.WRONG_COUNTS


def test_a_model_that_does_not_follow_convicts_also_in_the_ending() -> None:
    made = history(2)
    rounds = follower(made)
    made.conclude(made.draw_tally())
    made.state = aggregate.start(made.document.experiment)
    made.end()
    assert convicted(rounds, made.served(rounds), made.now) is Kind.WRONG_STEP
