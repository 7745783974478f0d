"""Policy files: what they mean, what is refused, and that a policy and an experiment's terms only ever add up."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey, VerifyKey
from secvm.errors import BadInputError, LocalProtocolError
from secvm.protocol.log.checkpoints import Quorum
from secvm.protocol.log.policy import MOST_LINES, Listed, LogPolicy, quorum_of, read_policy
from secvm_lab.rigs.histories.witnessed_log import known_log_terms

KEYS = [
    NoteKey(f"w{i}.example", SigningKey(bytes([i]) * 32).public, SignatureKind.COSIGNATURE)
    for i in range(1, MOST_LINES + 2)
]
A, B, C, D = KEYS[:4]
LOG = NoteKey("log.example/secvm/v2", SigningKey(b"L" * 32).public)


def policy(text: str) -> LogPolicy:
    """A policy in which letters stand for keys."""
    for letter, key in zip("ABCD", KEYS, strict=False):
        text = text.replace(f"${letter}", key.to_text())
    return read_policy(text.replace("$LOG", LOG.to_text()).encode(errors="surrogateescape"))


ABC = "witness a $A\nwitness b $B\nwitness c $C\n"


def test_a_policy_is_logs_witnesses_and_a_quorum() -> None:
    read = policy(
        "# a comment\n\n \t\nlog $LOG https://log.example/\n"
        f"\twitness a $A https://a.example\t\n{ABC.partition(chr(10))[2]}"
        "  # another\ngroup two 2 a b\ngroup all all two c\nquorum all\n"
    )
    assert read.logs == (Listed(LOG, "https://log.example/"),)
    assert read.witnesses == (Listed(A, "https://a.example"), Listed(B), Listed(C))
    assert read.quorum == Quorum(2, (Quorum(2, (A.key, B.key)), C.key))


def test_no_cosignatures_may_be_demanded_and_no_log_be_named() -> None:
    assert policy("quorum none\n") == LogPolicy()
    assert policy(f"{ABC}quorum none\n") == LogPolicy.of_witnesses([A, B, C])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "one line quorum, and this one 0"),
        ("quorum none", "not whole"),
        ("quorum\vnone\n", "control characters"),
        ("quorum a\n", "no line before it defines .line 1 "),
        (f"{ABC}group g 1 h\ngroup h 1 a\nquorum g\n", "no line before it defines .line 4 "),
        (f"{ABC}witness a $D\nquorum a\n", "meaning already"),
        (f"{ABC}witness d $A\nquorum a\n", "twice"),
        (f"{ABC}group g 3 a b\nquorum g\n", "how many are enough"),
        (f"{ABC}group g 1 a\ngroup h 2 a b\nquorum h\n", "member of one group, once"),
        ("log $A\nquorum none\n", "type 04 stands where one of type 01"),
        ("witness a $LOG\nquorum a\n", "type 01 stands where one of type 04"),
        ("witness a w.example+00000000+BAAA\nquorum a\n", "no Ed25519 key"),
        ("log\nquorum none\n", "no log, witness, group or quorum"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence) as refused:
        policy(text)
    assert "\n" not in str(refused.value)


def test_as_many_as_there_is_room_for() -> None:
    def file(count: int) -> bytes:
        lines = [f"witness w{i} {key.to_text()}\ngroup g{i} 1 w{i}\n" for i, key in enumerate(KEYS[:count])]
        return "".join([*lines, "quorum none\n"]).encode()

    assert len(read_policy(file(MOST_LINES)).witnesses) == MOST_LINES >= 32
    with pytest.raises(BadInputError, match=f"more than {MOST_LINES}"):
        read_policy(file(MOST_LINES + 1))
    with pytest.raises(BadInputError, match="at most 65536 bytes"):
        read_policy(b"#" * 65536 + b"\nquorum none\n")


@st.composite
def policies(draw: st.DrawFn) -> LogPolicy:
    count = draw(st.integers(0, 8))
    urls = st.none() | st.sampled_from(["https://w.example", "x\udcff"])
    pool: list[VerifyKey | Quorum] = [key.key for key in KEYS[:count]]
    while len(pool) > 1 and draw(st.booleans()):
        taken = draw(st.integers(1, len(pool)))
        pool = [*pool[taken:], Quorum(draw(st.integers(1, taken)), tuple(pool[:taken]))]
    quorum = pool[-1] if pool and isinstance(pool[-1], Quorum) else None
    logs = (Listed(LOG, draw(urls)),) if draw(st.booleans()) else ()
    return LogPolicy(logs=logs, witnesses=tuple(Listed(key, draw(urls)) for key in KEYS[:count]), quorum=quorum)


@given(made=policies())
def test_what_is_written_is_read_again(made: LogPolicy) -> None:
    assert read_policy(made.to_bytes()) == made


def test_what_cannot_be_read_again_is_not_written() -> None:
    for wrong in (
        LogPolicy(quorum=Quorum(1, (A.key,))),
        LogPolicy(witnesses=(Listed(A, "https://x y"),)),
        LogPolicy(witnesses=(Listed(A), Listed(B)), quorum=Quorum(3, (A.key, B.key))),
    ):
        with pytest.raises(LocalProtocolError):
            wrong.to_bytes()


# ── with an experiment ───────────────────────────────────────────────────────────────────────────────────────────────


def test_terms_make_a_policy_that_demands_what_they_do() -> None:
    terms = known_log_terms()
    made = LogPolicy.of_terms(terms, {terms.witnesses[0].key: "https://w.example"})
    assert made.logs[0].url == f"https://{terms.name}/secvm/v2"
    assert [one.url for one in made.witnesses][:2] == ["https://w.example", None]
    assert read_policy(made.to_bytes()) == made
    assert made.quorum == terms.rule == quorum_of(terms, None)
    keys = [witness.key for witness in terms.witnesses]
    for count in range(len(keys) + 1):
        for some in combinations(keys, count):
            assert quorum_of(terms, made).met_by(some) == terms.rule.met_by(some) == (count >= terms.quorum)


def test_the_policy_and_the_experiment_both_hold() -> None:
    terms = known_log_terms()
    a, b, *rest = (witness.key for witness in terms.witnesses)
    must_a = replace(LogPolicy.of_terms(terms), quorum=Quorum(1, (a,)))
    quorum = quorum_of(terms, must_a)
    assert quorum.met_by([a, b])
    assert not quorum.met_by([a])
    assert not quorum.met_by([b, *rest])


def test_what_can_never_be_enough_is_told_at_once() -> None:
    terms = known_log_terms()
    keys = terms.witness_keys
    other = Listed(NoteKey(terms.log_key.name, SigningKey(b"x" * 32).public))
    stranger = Quorum(2, (keys[0].key, A.key))
    for own, sentence in (
        (LogPolicy.of_witnesses(keys[: terms.quorum - 1]), "too few"),
        (LogPolicy(logs=(other,)), "none of those"),
        (replace(LogPolicy.of_terms(terms), quorum=stranger), "not enough for the policy's quorum"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            quorum_of(terms, own)


@given(times=st.lists(st.integers(0, 9) | st.none(), min_size=3, max_size=3))
def test_a_quorum_was_met_when_enough_had_cosigned_and_not_before(times: list[int | None]) -> None:
    quorum = Quorum(2, (Quorum(1, (A.key, B.key)), C.key))
    told = {key.key: time for key, time in zip((A, B, C), times, strict=True) if time is not None}
    met = [moment for moment in range(10) if quorum.met_by(key for key, time in told.items() if time <= moment)]
    assert quorum.met_at(told) == (met[0] if met else None)
