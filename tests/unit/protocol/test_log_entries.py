"""Lines of a coordinator's log: one spelling each, and one order for the entries of an experiment."""

import random

import pytest

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.log.entries import (
    MAX_LINE_BYTES,
    Entry,
    EntryKind,
    Placed,
    contradict,
    ending_entry,
    experiment_entry,
    follows,
    manifest_entry,
    opening_entry,
)
from secvm.protocol.version import MAX_ROUND
from tests.seeds import seed_for

D, E = "0123456789abcdef" * 4, "f" * 64
LINES = {
    f"secvm-v2-experiment {D}\n": experiment_entry(D),
    f"secvm-v2-manifest {D} 1 {E}\n": manifest_entry(D, 1, E),
    f"secvm-v2-opening {D} 1048575 {E}\n": opening_entry(D, 2**20 - 1, E),
    f"secvm-v2-ending {D} {E}\n": ending_entry(D, E),
}


@pytest.mark.parametrize("text", LINES)
def test_an_entry_has_one_spelling(text: str) -> None:
    assert Entry.from_bytes(text.encode()) == LINES[text]
    assert LINES[text].to_bytes() == text.encode()
    for bad in (text[:-1], text + "\n", text.replace(" ", "  ", 1), " " + text, text.upper(), text[:-1] + " \n"):
        with pytest.raises(MalformedMessageError):
            Entry.from_bytes(bad.encode())


def test_what_cannot_be_read_cannot_be_written() -> None:
    for bad in (
        Entry(kind=EntryKind.EXPERIMENT, experiment="x"),
        Entry(kind=EntryKind.EXPERIMENT, experiment=D, digest=E),
        Entry(kind=EntryKind.MANIFEST, experiment=D, digest=E),
        Entry(kind=EntryKind.ENDING, experiment=D, round_number=1, digest=E),
        manifest_entry(D, 2**20, E),
    ):
        with pytest.raises(LocalProtocolError):
            bad.to_bytes()


def test_of_one_kind_experiment_and_round_there_is_one_entry() -> None:
    assert manifest_entry(D, 1, D).key == manifest_entry(D, 1, E).key
    assert len({entry.key for entry in LINES.values()}) == len(LINES)


def test_no_line_is_longer_than_it_may_be() -> None:
    assert len(manifest_entry(D, MAX_ROUND, E).to_bytes()) == MAX_LINE_BYTES >= max(map(len, LINES))


# ── the order of an experiment's entries ─────────────────────────────────────────────────────────────────────────────


def course(rounds: int, *, openings: bool, ended: bool = True) -> list[Entry]:
    """All entries of an experiment, as they stand in an honest log."""
    found = [experiment_entry(D)]
    for number in range(1, rounds + 1):
        found.append(manifest_entry(D, number, E))
        found += [opening_entry(D, number, E)] if openings else []
    return [*found, ending_entry(D, E)] if ended else found


@pytest.mark.parametrize("openings", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_after_each_entry_only_its_successors_follow(rounds: int, openings: bool) -> None:
    """Against the list written out: what follows an entry is the next one of it, or the ending where no round runs."""
    whole = course(rounds + 1, openings=openings, ended=False)
    every = [*course(rounds + 2, openings=True), manifest_entry(D, rounds + 3, E)]
    for before, after in zip([None, *whole], whole, strict=False):
        # An experiment ends before its first round, or after a round whose end is told.
        may_end = before is not None and not (openings and before.kind is EntryKind.MANIFEST)
        allowed = [after, ending_entry(D, E)] if may_end else [after]
        assert [one for one in every if follows(before, one, openings=openings)] == allowed
    assert not [one for one in every if follows(ending_entry(D, E), one, openings=openings)]


def test_entries_of_two_experiments_have_no_order() -> None:
    with pytest.raises(LocalProtocolError):
        follows(experiment_entry(D), ending_entry(E, D), openings=False)


def test_no_two_entries_of_an_honest_log_contradict_each_other() -> None:
    dice = random.Random(seed_for("honest log"))
    both = {D: course(4, openings=True), E: [experiment_entry(E), manifest_entry(E, 1, D), ending_entry(E, D)]}
    order = [digest for digest, course in both.items() for _ in course]
    dice.shuffle(order)
    log = [Placed(index, both[digest].pop(0)) for index, digest in enumerate(order)]
    assert not any(contradict(one, other) for one in log for other in log)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Placed(3, manifest_entry(D, 1, D)), Placed(4, manifest_entry(D, 1, E))),
        (Placed(3, manifest_entry(D, 1, E)), Placed(4, manifest_entry(D, 1, E))),
        (Placed(3, experiment_entry(D)), Placed(9, experiment_entry(D))),
        (Placed(3, manifest_entry(D, 2, D)), Placed(4, manifest_entry(D, 1, E))),
        (Placed(3, opening_entry(D, 1, D)), Placed(4, manifest_entry(D, 1, E))),
        (Placed(3, manifest_entry(D, 2, D)), Placed(4, opening_entry(D, 1, E))),
        (Placed(3, ending_entry(D, D)), Placed(4, manifest_entry(D, 2**20 - 1, E))),
        (Placed(3, ending_entry(D, D)), Placed(4, ending_entry(D, E))),
        (Placed(3, manifest_entry(D, 1, D)), Placed(4, experiment_entry(D))),
        (Placed(3, manifest_entry(D, 1, D)), Placed(3, manifest_entry(D, 1, E))),
        (Placed(3, experiment_entry(D)), Placed(3, experiment_entry(E))),
    ],
)
def test_what_breaks_the_order_contradicts(first: Placed, second: Placed) -> None:
    assert contradict(first, second)
    assert contradict(second, first)
