"""``secvm.testing.Federation`` of experiment and people, beside ``secvm_lab.simulate`` of the same."""

from pathlib import Path
from typing import Any

import pytest

from secvm.testing import Federation
from secvm_lab import simulate

WORDS = ["tea", "rain", "sea", "sand", "hill", "snow"]
PEOPLE = [
    ({WORDS[(2 * (i % 3) + j) % 6]: 1 + (i + j) % 3 for j in range(4)} | {f"word-{i % 5}": 2}, "abc"[i % 3])
    for i in range(24)
]
#: Everything that a simulation could do otherwise: counts, a sample of them, pairs of labels, weights, several hashes.
COUNTS: dict[str, Any] = {
    "binning": {"bins": 16, "hashes": 2},
    "features": {"presence": False, "per_participant": 3},
    "multiclass": "ovo",
    "class_weights": {"b": 2},
    "budget": 12,
    "rounds": 30,
    "early_stopping": {"patience": 2, "at_least": 3},
    "privacy": "none",
}
NAMED = {"binning": {}, "budget": 9, "rounds": 2, "floor": 3, "descent": {"rule": "pegasos"}, "privacy": "none"}


@pytest.mark.parametrize(("asked", "vocabulary"), [(COUNTS, None), (NAMED, WORDS)], ids=["counts", "vocabulary"])
def test_simulation_comes_to_the_bytes_of_a_federation(asked: Any, vocabulary: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"vocabulary": vocabulary, "seed": "same"}
    with Federation(tmp_path, experiment=asked, people=PEOPLE, witnesses=1, **options) as federation:
        deployed = federation.run()
        assert federation.run().rows() == deployed.rows(), "nothing is left to play"
    simulated = simulate(asked, PEOPLE, **options)
    assert deployed.model_file.to_bytes() == simulated.model_file.to_bytes()
    assert deployed.rows() == simulated.rows()
    assert deployed.notes == simulated.notes
    assert len(deployed.rounds) < 30, "test results soon stand still"


def test_federation_with_a_guarantee_leaves_nothing_behind() -> None:
    asked = {"binning": {"bins": 6}, "features": {"per_participant": 4}, "rounds": 1, "privacy": {"epsilon": 8}}
    with Federation(experiment=asked, people=PEOPLE, witnesses=1) as federation:
        result = federation.run()
        names, folder = federation.children.names(), federation.folder
    simulated = simulate(asked, PEOPLE)
    assert names
    assert federation.children.names() == []
    assert not folder.exists()
    assert result.packages == simulated.packages
    assert result.privacy["epsilon"] == simulated.privacy["epsilon"] == 8
