"""More hashes: the same people hashed again, rounds chosen on other salts, differences with their errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.learning.individual.binning import HashBinning
from secvm.people.reader import read_people
from secvm_lab.beyond import findings as cost
from secvm_lab.beyond import hashes, page
from secvm_lab.beyond.findings import Asked, Findings
from secvm_lab.beyond.hashes import Cell
from secvm_lab.beyond.problems import made_up_text, text_of_file
from secvm_lab.beyond.trial import Mean
from secvm_lab.paper.twitter.people import TwitterPeople

PEOPLE = Path(__file__).parents[4] / "examples" / "people.jsonl"


@pytest.mark.parametrize("n_hashes", [1, 3])
def test_a_file_hashed_again_is_the_file_read_with_that_hash(n_hashes: int) -> None:
    binning = HashBinning(97, b"salt", n_hashes)
    ours, read = text_of_file(PEOPLE).binned(binning), read_people(PEOPLE, binning, presence=True).rows
    assert np.array_equal(ours.indptr, read.indptr)
    assert np.array_equal(ours.bins, read.bins)
    assert np.array_equal(ours.values, read.values)


def test_made_up_people_hashed_again_are_those_of_the_generator() -> None:
    binning = HashBinning(500, b"salt", 2)
    text = made_up_text(50, 3, words=20)
    ((rows, labels),) = TwitterPeople(n_people=50, words_per_person=20).rows(3, binning)
    ours = text.binned(binning)
    assert np.array_equal(ours.bins, rows.bins)
    assert np.array_equal(ours.values, rows.values)
    assert np.array_equal(text.labels, labels)


def cell(accuracies: list[list[list[float]]], n_hashes: int = 1) -> Cell:
    table = np.array(accuracies)
    return Cell("pegasos", 64, n_hashes, table, tuple(range(1, table.shape[2] + 1)), 10.0, 0)


def test_rounds_are_chosen_on_the_other_half_of_the_salts() -> None:
    # Salt 0 is best at mark 1, salt 1 at mark 0: each is taken where the other is best.
    crossed = cell([[[0.5, 0.9]], [[0.8, 0.6]]])
    assert crossed.at_chosen.tolist() == [[0.5], [0.6]]
    assert crossed.last.value == pytest.approx(0.75)


def test_a_difference_is_seen_beyond_three_standard_errors_of_salts() -> None:
    one = cell([[[0.70]], [[0.71]], [[0.72]], [[0.73]]])
    less = cell([[[0.66]], [[0.675]], [[0.675]], [[0.69]]], n_hashes=2)
    ahead = less.ahead_of(one)
    assert ahead.value == pytest.approx(-0.04)
    assert hashes.verdict(ahead) == "lower"
    assert hashes.verdict(Mean(0.02, 0.004)) == "higher"
    assert hashes.verdict(Mean(0.01, 0.004)) == "no difference seen"
    assert hashes.verdict(Mean(0.01, 0.0)) == "no difference seen"


def hashed(*differences: float) -> Findings:
    """Findings of two hashes beside one, with these differences."""
    few = ((0.7,), (0.71,), (0.72,), (0.73,))
    cells = []
    for bins, by in enumerate(differences):
        for n_hashes, more in ((1, 0.0), (2, by)):
            table = [[[mark + more + 0.001 * i * (n_hashes - 1)] for mark in salt] for i, salt in enumerate(few)]
            cells.append(replace(cell(table, n_hashes), bins=bins))
    return Findings(Asked(100, 4, 1, 1, 1), (), (("words", cells),), {})


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ((), "open"),
        ((-0.0015, -0.0015), "open"),
        ((-0.1, -0.1), "yes"),
        ((-0.1, 0.0), "partly: lower in 1 of 2"),
        ((0.1, -0.0015), "no: higher in 1 of 2"),
    ],
)
def test_repro_what_was_not_seen_does_not_refute_the_paper(differences: tuple[float, ...], said: str) -> None:
    assert page.hashes_hold(hashed(*differences)).startswith(said)


def test_repro_one_split_has_no_standard_error() -> None:
    one, two = Mean.of([0.5]), Mean.of([0.5, 0.5])
    assert one.told() == {"mean": 0.5, "standard_error": None}
    assert two.told() == {"mean": 0.5, "standard_error": 0.0}
    assert page.share(one) == "50.0"
    assert page.points(two) == "+50.0 ± 0.0"


def test_cells_cover_all_rules_bins_and_hashes_and_are_the_same_each_time() -> None:
    text = made_up_text(80, 1, words=10)

    def tried() -> list[dict[str, object]]:
        return hashes.told(hashes.try_hashes(text, bins_per_word=(4,), hashes=(1, 2), splits=2, rounds=3, seed=1))

    found = tried()
    assert [(one["rule"], one["hashes"]) for one in found] == [
        ("pegasos", 1),
        ("swift", 1),
        ("pegasos", 2),
        ("swift", 2),
    ]
    assert [one["ahead_of_one_hash"] is None for one in found] == [True, True, False, False]
    assert found == tried()


def test_a_file_with_three_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text("".join(f'{{"label": "{i % 3}", "features": ["a"]}}\n' for i in range(30)))
    with pytest.raises(BadInputError, match="exactly two labels"):
        text_of_file(path)


def test_cover_for_a_network_costs_more_than_its_cells_alone() -> None:
    costs = cost.cover_costs(256, 8)
    linear, network = costs["linear"], costs["network"]
    assert (network["cells"], network["named"]) == (2 * ((256 + 1) * 8 + 9), 31 * 8 + 9)
    # More cells, and more looks at each person.
    assert network["cover_packages"] / linear["cover_packages"] > network["cells"] / linear["cells"]
