"""The kept corpus is replayed, and changed at random, on any machine: no decoder lets anything escape."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.errors import MalformedMessageError
from secvm_lab.fuzz.campaign import mutated, plan
from secvm_lab.fuzz.registry import TARGETS
from secvm_lab.fuzz.target import MOST_BYTES, Escape, Target, attempt, keep, name_of, read_corpus, smallest
from tests.conftest import ROOT
from tests.effort import scaled
from tests.seeds import seed_for

CORPUS = ROOT / "tests/contract/fuzz/corpus"
#: Those whose inputs cost a millisecond and more get fewer.
MUTATIONS, DEAR_MUTATIONS = scaled(100, 2000), scaled(10, 60)
DEAR = {
    *("token-answer", "group-uniform", "group-element", "history-file", "vault-file", "state-file"),
    *("relay-store-file", "witness-store-file", "people-json", "people-svmlight", "people-any"),
    *("manifest-accept", "ending-accept", "relay-count-signed", "gateway-content", "nist-newest", "nist-fetched"),
    *("relayed-manifest-accept", "opening", "opening-judged", "relay-statement", "relay-statement-signed"),
    *("missing-canary", "missing-canary-examined", "relayed-session"),
    *("relayed-evidence", "relayed-evidence-examine", "relayed-told"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_kept_and_what_chance_makes_of_it_escapes_nowhere(name: str) -> None:
    target = TARGETS[name]
    known = [*target.seeds(), *read_corpus(CORPUS, target)]
    taken = [attempt(target, data) for data in known]
    assert any(taken) or name in ONLY_REFUSED
    dice, most_bytes = random.Random(seed_for(f"fuzz {name}")), target.most_bytes
    for _ in range(DEAR_MUTATIONS if name in DEAR else MUTATIONS):
        attempt(target, mutated(known, dice, most_bytes=most_bytes))


#: Nobody here can sign for NIST, for drand, or against a coordinator: what is taken by these cannot be made.
ONLY_REFUSED = {"nist-record", "drand-round", "beacon-record", "merkle-proof"}


def test_the_corpus_is_small_and_named_by_what_it_holds() -> None:
    files = [file for file in CORPUS.rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == set(TARGETS)
    assert all(name_of(file.read_bytes()) == file.name for file in files)
    assert sum(file.stat().st_size for file in files) < 2 * 2**20


# ── the laws can be broken ───────────────────────────────────────────────────────────────────────────────────────────


def target(**changes: object) -> Target:
    """One that takes an even number of bytes, and says so."""

    def decode(data: bytes) -> bytes:
        if len(data) % 2:
            raise MalformedMessageError
        return data

    made = Target(
        name="even",
        decode=decode,
        allowed=(MalformedMessageError,),
        seeds=lambda: [b"", b"ab"],
        canonical=bytes,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # a test's own fields


def test_good_bytes_are_taken_and_bad_ones_refused() -> None:
    assert attempt(target(), b"ab")
    assert not attempt(target(), b"abc")


@pytest.mark.parametrize(
    "broken",
    [
        {"decode": lambda data: data[5]},
        {"allowed": ()},
        {"canonical": lambda data: data + b" "},
        {"canonical": lambda data: data[99]},
        {"canonical": None, "encode": lambda data: data + b"cd"},
        {"canonical": None, "encode": lambda data: data + b"c"},
    ],
)
def test_a_decoder_with_a_fault_is_found_out(broken: dict[str, object]) -> None:
    with pytest.raises(Escape):
        assert [attempt(target(**broken), data) for data in (b"ab", b"abc")]


def test_random_changes_find_a_fault_that_one_byte_hides() -> None:
    def decode(data: bytes) -> None:
        if data[:1] == b"\xff":
            raise IndexError

    # One change in ninety does: 3,000 of them miss it with 1e-15.
    dice = random.Random(seed_for("hidden fault"))
    hidden = target(decode=decode, canonical=None, seeds=lambda: [bytes(16)])
    with pytest.raises(Escape):
        assert [attempt(hidden, mutated(hidden.seeds(), dice, most_bytes=64)) for _ in range(3000)]


def test_mutations_follow_from_the_dice_and_keep_to_their_length() -> None:
    kept = [bytes(range(60)), b""]
    seeds = [seed_for("mutations", i) for i in range(300)]
    made = [[mutated(kept, random.Random(seed), most_bytes=64) for seed in seeds] for _ in range(2)]
    assert made[0] == made[1]
    assert max(map(len, made[0])) == 64
    # About 210 are different, with a standard deviation of 8.
    assert len(set(made[0])) > 150


# ── the corpus ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_inputs_that_reach_the_same_the_smaller_is_kept() -> None:
    package = TARGETS["package"]
    good, bad = min(package.seeds()), b"x"
    found = smallest(package, [good, bad, bad * 2, good + b"!", bytes(MOST_BYTES + 1)])
    assert good in found
    assert bad in found
    assert bad * 2 not in found


def test_what_reaches_nothing_new_goes(tmp_path: Path) -> None:
    package = TARGETS["package"]
    assert keep(tmp_path, package, [b"xx"]) == 1
    assert keep(tmp_path, package, [b"x", *read_corpus(tmp_path, package)]) == 1
    assert read_corpus(tmp_path, package) == [b"x"]


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dearer_target_gets_fewer_inputs_and_all_together_get_enough() -> None:
    wanted = plan({"cheap": 1e-5, "dear": 4e-5, "very dear": 1.0}, 100_000)
    assert sum(wanted.values()) >= 100_000
    assert wanted["cheap"] == pytest.approx(2 * wanted["dear"], rel=0.01)
    assert wanted["very dear"] == 1000
