"""Fig. 1 against another's implementation of the paper: nothing of ours but people, splits, salts and SipHash.

Full-batch Pegasos in float64 with scipy, straight from the paper: w <- (1 - 1/t) w + 1/(lambda t N) sum of y x over
those with y w x < 1, the last weight vectors averaged, a bias that everybody has. Floats and integers may part where
somebody stands on the margin to the last digit; one test person of a split is allowed to differ.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from secvm.learning._kernels.reference import siphash24
from secvm_lab.paper.offline.crowd import FileCrowd
from secvm_lab.paper.offline.models import Stored
from secvm_lab.paper.offline.run import Evaluation
from secvm_lab.paper.offline.settings import Settings
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.offline.training import LocalSweeper, Trainer

ROUNDS = 40
N_SPLITS = 6
BINS = 60


def write_people(path: Path, n: int = 300) -> None:
    """Zipf's words, some of which lean; some words come more than once."""
    dice = np.random.default_rng(5)
    weights = 1 / (np.arange(900) + 3.0)
    lean = dice.normal(0, 0.25, 900)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(n):
            side = int(dice.integers(2))
            p = weights * np.exp((2 * side - 1) * lean)
            words = dice.choice(900, size=int(dice.integers(10, 60)), p=p / p.sum())
            label = side ^ int(dice.random() < 0.15)
            file.write(json.dumps({"label": "ab"[label], "features": [f"w{word}" for word in words]}) + "\n")


def matrix(people: list[dict[str, Any]], salt: str | None) -> Any:
    """Counts of words, or of bins under a salt."""
    bins: dict[str, int] = {}
    key = None
    if salt is not None:
        content = bytes.fromhex(salt) + BINS.to_bytes(8, "little") + bytes(4)
        key = hashlib.blake2b(content, digest_size=16, person=b"secvm-v1-binning").digest()
    rows, columns = [], []
    for i, person in enumerate(people):
        for word in person["features"]:
            if word not in bins:
                bins[word] = len(bins) if key is None else ((siphash24(key, word.encode()) >> 32) * BINS) >> 32
            rows.append(i)
            columns.append(bins[word])
    width = len(bins) if salt is None else BINS
    counts = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(people), width))
    return sp.hstack([counts, sp.csr_matrix(np.ones((len(people), 1)))]).tocsr()


def plain_pegasos(
    x: Any, y: np.ndarray[Any, Any], train: list[int], test: list[int], strength: float, averaging: int = 2
) -> list[float]:
    inside, outside, w = x[train], x[test], np.zeros(x.shape[1])
    last: list[np.ndarray[Any, Any]] = []
    curve = []
    for t in range(1, ROUNDS + 1):
        violators = y[train] * (inside @ w) < 1
        w = (1 - 1 / t) * w + inside.T @ (y[train] * violators) / (strength * t * len(train))
        last = [w, *last[: averaging - 1]]
        right = np.where(outside @ np.mean(last, axis=0) >= 0, 1, -1) == y[test]
        curve.append(float(right.mean()))
    return curve


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("offline")
    write_people(folder / "people.jsonl")
    crowd = FileCrowd.open(folder / "people.jsonl")
    Splits.draw(crowd.n_people, N_SPLITS, 1).write(folder / "splits.json")
    settings = Settings(
        crowd=crowd,
        splits=Splits.read(folder / "splits.json", crowd.n_people),
        figures=("1a", "1b"),
        asked_bins=(None, BINS),
        rounds=ROUNDS,
        salt=b"salt",
    )
    found = Evaluation(settings, Trainer(crowd, settings.splits, Stored(None), LocalSweeper())).run()
    people = [json.loads(line) for line in (folder / "people.jsonl").read_text(encoding="utf-8").splitlines()]
    return people, json.loads((folder / "splits.json").read_text(encoding="utf-8")), found


def signs(people: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    return np.array([1 if person["label"] == "b" else -1 for person in people])


@pytest.mark.parametrize("bins", [None, BINS])
def test_fig_1b_is_what_a_plain_implementation_finds(ours: Any, bins: int | None) -> None:
    people, splits, found = ours
    y = signs(people)
    (entry,) = [one for one in found["figure_1b"] if one["bins"] == bins]
    per_hash, salts = found["settings"]["splits_per_hash"], found["settings"]["salts"]

    def curve(k: int, averaging: int) -> list[float]:
        x = matrix(people, None if bins is None else salts[k // per_hash])
        test = splits["splits"][k]
        train = sorted(set(range(len(people))) - set(test))
        return plain_pegasos(x, y, train, test, 1e-4, averaging)

    theirs = [curve(k, 2) for k in range(N_SPLITS)]
    last = [one[-1] for one in theirs]
    np.testing.assert_allclose(entry["accuracies"], last, atol=1.01 / len(splits["splits"][0]))
    assert entry["mean"] == pytest.approx(np.mean(last), abs=0.005)
    np.testing.assert_allclose(entry["curve"]["mean"], np.mean(theirs, axis=0), atol=0.01)
    # Without averaging it would be another curve.
    assert np.abs(np.array(curve(0, 1)) - theirs[0]).max() > 0.05


def test_fig_1a_is_what_a_plain_implementation_finds(ours: Any) -> None:
    people, splits, found = ours
    y, x = signs(people), matrix(people, None)

    def curve(half: str, strength: str, averaging: int) -> list[float]:
        chosen = splits["halves"][half]
        train = sorted(set(chosen["people"]) - set(chosen["test"]))
        return plain_pegasos(x, y, train, chosen["test"], float(strength), averaging)

    figure = found["figure_1a"]
    for one in figure["choice"]:
        assert one["mean"] == pytest.approx(curve("A", one["lambda"], 2)[-1], abs=0.07)
    best = max(one["mean"] for one in figure["choice"])
    assert figure["lambda"] == next(one["lambda"] for one in figure["choice"] if one["mean"] == best)
    for one in figure["curves"]:
        theirs = curve("B", figure["lambda"], one["averaging"])
        assert np.mean(np.abs(np.array(theirs) - one["curve"]["mean"])) < 0.005
