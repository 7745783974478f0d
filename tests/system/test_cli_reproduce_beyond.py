from pathlib import Path

from secvm_lab.beyond.findings import Asked, find
from secvm_lab.beyond.page import page_of
from tests.system.conftest import Program

PEOPLE = Path(__file__).parents[2] / "examples" / "people.jsonl"


def test_beyond_tells_networks_and_hashes_with_stable_keys(secvm: Program) -> None:
    small = "--people 100 --splits 1 --network-splits 1 --rounds 2 --most-hashes 1 --data"
    told = secvm.json("reproduce beyond", small, PEOPLE, quiet=False)
    assert list(told)[:6] == ["people", "rounds", "seed", "network", "hashes", "cover"]
    assert list(told)[6:] == ["seconds", "cpu_seconds", "peak_rss_mb"]
    assert list(told["network"]) == ["interactions", "digits", "words", "file"]
    assert list(told["hashes"]) == ["words", "file"]
    assert told["cover"]["proved_for_networks"] is False


def test_the_page_says_what_is_not_guaranteed_and_progress_ends_where_it_said() -> None:
    asked = Asked(people=100, splits=2, network_splits=2, rounds=2, seed=1, most_hashes=2)
    done: list[int] = []
    page = page_of(find(asked, done.append))
    assert sum(done) == asked.steps
    assert "None of them was shown for networks" in page.html()
    names = [figure.name for figure in page.figures]
    assert names[:2] == ["interactions-rounds", "interactions-packages"]
    assert names[-2:] == ["hashes-words-pegasos", "hashes-words-swift"]


def test_beyond_refuses_a_file_that_does_not_exist(tmp_path: Path, secvm: Program) -> None:
    assert "nobody.jsonl" in secvm.refused("reproduce beyond --data", tmp_path / "nobody.jsonl")
