"""DP-SGD, federated averaging, secure summation, and the table of all."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import baselines as benchmark
from secvm.errors import BadInputError
from secvm.learning.individual.binning import HashBinning
from secvm.privacy.leakage import auc_of
from secvm_lab.baselines.baseline import UnitRows, clipped, two_labels
from secvm_lab.baselines.central_gaussian import CentralGaussian
from secvm_lab.baselines.compare import compare, file_split
from secvm_lab.baselines.dp_sgd import DPSGD
from secvm_lab.baselines.plain import Plain, SecureSummation
from secvm_lab.baselines.unprotected import FederatedAveraging
from tests.deep.statistical.bounds import counts
from tests.seeds import FALSE_ALARM, seed_for
from tests.unit.lab.baselines.crowds import crowd, rows_of, split


@given(limit=st.integers(1, 9), seed=st.integers(0, 5))
def test_clipped_rows_keep_so_many_bins_of_their_own_and_no_more(limit: int, seed: int) -> None:
    lists = [[0, 3, 5, 7, 8], [], [1], [0, 1, 2, 3, 4, 5, 6, 7, 8]]
    rows = clipped(rows_of(lists, 9), limit, seed=seed)
    for i, bins in enumerate(lists):
        kept = rows.bins[rows.indptr[i] : rows.indptr[i + 1]].tolist()
        assert len(kept) == min(limit, len(bins))
        assert set(kept) <= set(bins)
        assert kept == sorted(kept)


def test_every_bin_has_the_same_chance_to_be_kept() -> None:
    """Fails by chance with probability at most 1e-6: exact binomial counts."""
    rows = clipped(rows_of([list(range(5))] * 20_000, 5), 2, seed=seed_for("clipped rows"))
    assert counts(np.bincount(rows.bins, minlength=5), 20_000, 0.4, FALSE_ALARM) < 1


def test_unit_rows_reckon_as_written_out_rows_do() -> None:
    rows = rows_of([[0, 3], [], [1, 2, 4]], 5)
    people = UnitRows(rows)
    dense = people.dense(np.arange(3))
    assert np.allclose((dense**2).sum(axis=1), 1)
    assert dense[:, 5].all()
    weights = np.arange(6.0)
    assert np.allclose(people.scores(weights), dense @ weights)
    assert np.allclose(people.combined(weights[:3]), weights[:3] @ dense)
    assert people.own(np.array([0, 0, 1, 2]), np.array([3, 4, 5, 4])).tolist() == [True, False, True, True]


@settings(max_examples=30, deadline=None)
@given(clip=st.floats(0.01, 20), scale=st.floats(0, 50), seed=st.integers(0, 100))
def test_one_person_moves_a_batch_by_no_more_than_the_clip(clip: float, scale: float, seed: int) -> None:
    rows, labels = crowd(20, seed=seed)
    people = UnitRows(rows, normalised=False)
    weights = scale * np.random.default_rng(seed).normal(size=people.n_cells)
    server = DPSGD(1.0, 1e-6, 8, clip=clip)
    coefficients = server.coefficients(people, weights, two_labels(labels))
    lengths = np.sqrt(((people.dense(np.arange(20)) * coefficients[:, None]) ** 2).sum(axis=1))
    assert lengths.max() <= clip * (1 + 1e-12)


@pytest.mark.parametrize("server", [DPSGD(1.0, 1e-6, 8, steps=30), CentralGaussian(1.0, 1e-6, 5, 8)])
def test_a_trusted_server_learns_and_noise_costs(server: DPSGD | CentralGaussian) -> None:
    people = split(1500, 1)
    found = []
    for epsilon in (0.01, 8.0, math.inf):
        fitted = replace(server, epsilon=epsilon).fit(people.rows, people.labels, seed=1)
        found.append(fitted.evaluate(people.test_rows, people.test_labels))
    assert found[0] < 0.7 < 0.8 < min(found[1:])


def slow_averaging(asked: FederatedAveraging, rows: UnitRows, signs: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """Federated averaging as one would write it: each client has a model and walks."""
    dense = rows.dense(np.arange(len(rows)))
    common = np.zeros(rows.n_cells)
    for _ in range(asked.rounds):
        total = np.zeros_like(common)
        for client in clients:
            here = [i for i in client.tolist() if i >= 0]
            own = common.copy()
            for _epoch in range(asked.epochs):
                for i in here:
                    if signs[i] * (own @ dense[i]) < 1:
                        own += asked.step_size * signs[i] * dense[i]
            total += len(here) * own
        common = total / len(rows)
    return common


@pytest.mark.parametrize("size", [1, 3])
def test_federated_averaging_is_what_clients_would_do_one_by_one(size: int) -> None:
    rows, labels = crowd(20)
    asked = FederatedAveraging(3, 8, people_per_client=size, epochs=2, step_size=0.37)
    found = asked.fit(rows, labels, seed=5).weights.values()[0]
    wanted = slow_averaging(asked, UnitRows(rows), 2.0 * labels - 1, asked._clients(20, 5))
    assert np.allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


def test_secure_summation_is_plain_and_tells_labels() -> None:
    rows, labels = crowd(300)
    found = SecureSummation(4, 8).fit(rows, labels, seed=2)
    assert found.weights.to_bytes() == Plain(4, 8).fit(rows, labels, seed=2).weights.to_bytes()
    assert found.guarantee is None
    # One round: everybody sends, d'² is about 40 · 4 / 300.
    assert found.notes["label_auc_one_round"] == pytest.approx(auc_of(40 * 4 / 300), abs=0.02)
    assert found.notes["label_auc"] > found.notes["label_auc_one_round"]


def test_counts_are_only_presence() -> None:
    rows, labels = crowd(100)
    doubled = rows.present()
    doubled.values[:] = 2
    one, two = (Plain(3, 8).fit(people, labels, seed=1) for people in (rows, doubled))
    assert one.weights.to_bytes() == two.weights.to_bytes()
    assert one.evaluate(rows, labels) == one.evaluate(doubled, labels)


def test_a_table_has_a_row_of_every_baseline_over_all_seeds() -> None:
    said: list[tuple[int, str, float]] = []
    found = compare(
        [Plain(3, 8), FederatedAveraging(3, 8)],
        lambda seed: split(300, seed),
        [1, 2, 3],
        on_fit=lambda seed, name, accuracy: said.append((seed, name, accuracy)),
    )
    assert list(found) == ["plain", "federated averaging"]
    accuracies = [accuracy for _, name, accuracy in said if name == "plain"]
    assert found["plain"].mean == pytest.approx(np.mean(accuracies))
    assert found["plain"].sd == pytest.approx(np.std(accuracies, ddof=1))
    assert found["plain"].told()["epsilon"] is None
    with pytest.raises(BadInputError):
        compare([Plain(3, 8), Plain(4, 8)], lambda seed: split(300, seed), [1])


def test_people_of_a_file_are_split_by_the_seed(tmp_path: Path) -> None:
    lines = [json.dumps({"label": "ab"[i % 2], "features": {f"w{i}": 2, "all": 1}}) for i in range(20)]
    file = tmp_path / "people.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    binning = HashBinning(n_bins=50, salt=bytes(16))
    found = file_split(file, binning, test_share=Fraction(1, 4), seed=b"one")
    assert (len(found.rows), len(found.test_rows)) == (15, 5)
    other = file_split(file, binning, test_share=Fraction(1, 4), seed=b"two")
    assert not np.array_equal(found.test_rows.bins, other.test_rows.bins)


def test_the_benchmark_tells_of_all_baselines() -> None:
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    small = (
        "--people 300 --test-people 100 --words 10 --vocabulary 200 --bins 40 --contribution 10 --rounds 2 --seeds 1"
    )
    found = benchmark.run(parser.parse_args(small.split()))
    rows = found["baselines"]
    assert isinstance(rows, dict)
    assert set(rows) == {baseline.name for baseline in benchmark.baselines(parser.parse_args(small.split()))}
    assert all(0 <= row["accuracy"] <= 1 for row in rows.values())
    assert rows["secure summation"]["points_below_plain"] == 0
    json.dumps(found)
