"""Training on a GPU, by the emulation of its kernels, against OfflineTraining: the same bytes for every model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning._kernels import reference
from secvm.learning._kernels.layout import prepare
from secvm.learning.aggregate.descent import Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from secvm_lab.engine import sweep
from secvm_lab.engine.cuda.engine import CudaEngine
from secvm_lab.engine.cuda.people import DevicePeople
from secvm_lab.engine.cuda.sweeping import sweep_on
from secvm_lab.engine.cuda.training import CudaKernels, CudaTraining
from secvm_lab.paper.twitter.on_device import DeviceWords
from secvm_lab.paper.twitter.people import TwitterPeople
from tests.contract.estimator.test_engine import alone, ask, some_people
from tests.rigs.cuda_emulation import EmulatedDevice

ROUNDS = 9


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_model_has_the_bytes_it_would_have_alone(data: st.DataObject) -> None:
    seed, n = data.draw(st.integers(0, 2**32)), data.draw(st.integers(6, 60))
    rows, labels = some_people(
        seed, n, words=12, bins=40, values=data.draw(st.sampled_from([(1,), (1, 2, 3), (1, 255)]))
    )
    rng = np.random.default_rng(seed)
    train = rng.random((n, 4)) < 0.7
    train[:2] = True
    lambdas = data.draw(st.lists(st.sampled_from(["1e-6", "1e-3", "1/2", "7", "1/3"]), min_size=4, max_size=4))
    weights = data.draw(st.sampled_from([(), (Fraction(1), Fraction(4)), (Fraction(1, 3), Fraction(5, 7))]))
    averaging = data.draw(st.sampled_from([1, 2, 5]))
    loss = Loss(data.draw(st.sampled_from(["hinge", "perceptron"])))
    experiments = [ask(rows, lam, class_weights=weights, loss=loss, averaging=averaging) for lam in lambdas]
    device = EmulatedDevice(columns=data.draw(st.sampled_from([7, 13, 40])))
    engine = CudaEngine(DevicePeople.of_rows(device, rows), labels, experiments, train=train)
    seen = []
    for _ in range(ROUNDS):
        engine.advance()
        seen.append(engine.cells())
    for model, experiment in enumerate(experiments):
        state, cells = alone(experiment, rows, labels, train[:, model], ROUNDS)
        assert engine.state(model).to_bytes() == state.to_bytes()
        assert all(np.array_equal(mine[model], theirs) for mine, theirs in zip(seen, cells, strict=True))


def test_most_of_the_scoring_is_skipped_and_the_bytes_are_the_same() -> None:
    rows, labels = some_people(1, n=1500, words=60, bins=700)
    train = np.random.default_rng(2).random((1500, 3)) < 0.9
    engine = CudaEngine(DevicePeople.of_rows(EmulatedDevice(300), rows), labels, [ask(rows)] * 3, train=train)
    for _ in range(40):
        engine.advance()
        engine.cells()
    assert (engine.score_passes < 40).all()
    assert (engine.count_passes < 20).all()
    for model in range(3):
        state, cells = alone(ask(rows), rows, labels, train[:, model], 40)
        assert engine.state(model).to_bytes() == state.to_bytes()
        assert np.array_equal(engine.cells()[model], cells[-1])


def test_without_its_bound_lazy_scoring_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = some_people(1, n=1500, words=60, bins=700)
    people = DevicePeople.of_rows(EmulatedDevice(300), rows)
    engine = CudaEngine(people, labels, [ask(rows)])
    people.__dict__["norms"] = 0 * people.norms
    for _ in range(40):
        engine.advance()
    state, _ = alone(ask(rows), rows, labels, np.ones(1500, np.bool_), 40)
    assert engine.state(0).to_bytes() != state.to_bytes()


def test_sweep_gives_what_the_sweep_of_processors_gives_however_many_models_go_together() -> None:
    rows, labels = some_people(5, n=120, words=15, bins=60)
    train = np.random.default_rng(6).random((120, 6)) < 0.8
    experiments = [
        ask(rows, lam, averaging=k) for lam, k in zip(["1e-6", "1e-3", "1/2"] * 2, [2, 2, 1] * 2, strict=True)
    ]
    wanted = list(sweep(rows, labels, experiments, train=train, rounds=7, evaluate=[3, 7]))
    for memory in (1, 2**40):
        device = EmulatedDevice(memory=memory)
        found = list(sweep_on(device, rows, labels, experiments, train=train, rounds=7, evaluate=[3, 7]))
        assert [one.model for one in found] == [one.model for one in wanted]
        assert [one.state.to_bytes() for one in found] == [one.state.to_bytes() for one in wanted]
        assert all(np.array_equal(a.cells, b.cells) for a, b in zip(found, wanted, strict=True))
        assert [one.two_cycle_spells for one in found] == [one.two_cycle_spells for one in wanted]


def test_sweep_is_asked_for_a_gpu_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm_lab.engine.sweeping.Gpu", EmulatedDevice)
    rows, labels = some_people(5, n=60, words=15, bins=60)
    train = np.random.default_rng(6).random((60, 2)) < 0.8
    given: dict[str, Any] = {"train": train, "rounds": 4, "evaluate": [4]}
    wanted = list(sweep(rows, labels, [ask(rows)] * 2, **given))
    found = list(sweep(rows, labels, [ask(rows)] * 2, **given, device="cuda"))
    assert [one.state.to_bytes() for one in found] == [one.state.to_bytes() for one in wanted]
    assert all(np.array_equal(a.cells, b.cells) for a, b in zip(found, wanted, strict=True))
    with pytest.raises(BadInputError, match="a GPU takes binned rows"):
        list(sweep(prepare(rows), labels, [ask(rows)] * 2, **given, device="cuda"))


@pytest.mark.parametrize("rule", ["swift", "thinned swift", "pegasos", "thinned pegasos", "three labels"])
def test_any_rule_has_the_bytes_of_offline_training(rule: str) -> None:
    rows, labels = some_people(3, n=200, words=25, bins=90, values=(1, 1, 2))
    experiment = ask(rows)
    if rule == "three labels":
        labels = (labels + np.arange(200) % 2) % 3
        experiment = replace(experiment, labels=("a", "b", "c"))
    elif rule == "thinned pegasos":
        experiment = replace(experiment, thinning=Thinning(q=Fraction(1, 3)))
    elif rule != "pegasos":
        thinned = {"thinning": Thinning(rho=Fraction(2))} if rule != "swift" else {"fixed_point_rows": True}
        experiment = Experiment(n_bins=rows.n_bins, labels=("n", "p"), rule=Swift(), **thinned)
    people = Population(rows=rows, labels=labels, train=np.arange(200) % 5 > 0)
    plain = OfflineTraining(experiment, seed=b"dice")
    ours = CudaTraining(experiment, seed=b"dice", device=EmulatedDevice())
    for _ in range(8):
        assert plain.advance(people) == ours.advance(people)
        assert plain.state.to_bytes() == ours.state.to_bytes()


def test_repro_somebody_may_train_and_be_tested() -> None:
    """Who trained was left out of the tests although the sweep of processors counted them."""
    rows, labels = some_people(5, n=120, words=15, bins=60)
    dice = np.random.default_rng(6)
    train, test = dice.random((120, 2)) < 0.8, dice.random((120, 2)) < 0.5
    both: dict[str, Any] = {"train": train, "test": test, "rounds": 5}
    wanted = list(sweep(rows, labels, [ask(rows)] * 2, **both))
    found = list(sweep_on(EmulatedDevice(), rows, labels, [ask(rows)] * 2, **both))
    assert all(np.array_equal(a.cells, b.cells) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kind", ["labels", "train", "test", "people"])
def test_what_does_not_fit_together_is_refused(kind: str) -> None:
    rows, labels = some_people(5, n=30, words=5, bins=9)
    people = DevicePeople.of_rows(EmulatedDevice(), rows)
    given: dict[str, Any] = {"labels": labels, "train": np.ones((30, 2), np.bool_), "test": np.ones((30, 2), np.bool_)}
    if kind == "labels":
        given["labels"] = 2 * labels - 1
    elif kind == "people":
        given["labels"] = labels[:-1]
    else:
        given[kind] = given[kind][:, :1]
    with pytest.raises(BadInputError):
        CudaEngine(people, given["labels"], [ask(rows)] * 2, train=given["train"], test=given["test"])


def test_repro_counts_beyond_an_int32_are_counted_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fullest bin was looked for in counts that wrap, so nobody refused it."""
    rows, labels = some_people(5, n=30, words=5, bins=9)
    people = DevicePeople.of_rows(EmulatedDevice(), rows)
    whole = people.frequencies
    del people.__dict__["frequencies"]
    people.counts_fit = False
    assert np.array_equal(people.frequencies, whole)
    signs = np.where(labels == 1, 1, -1)[:, None]
    wanted = reference.tally(rows, signs)
    for mine, theirs in zip(CudaKernels(EmulatedDevice()).tally(people, signs), wanted, strict=True):
        assert np.array_equal(mine, theirs)
    monkeypatch.setitem(people.__dict__, "frequencies", np.full(10, 2**31))
    with pytest.raises(BadInputError, match="more units than an engine can count"):
        CudaEngine(people, labels, [ask(rows)])


def test_value_that_is_no_count_is_refused_in_one_sentence() -> None:
    rows, _ = some_people(3, n=20, words=5, bins=9, values=(1, -2, 300))
    with pytest.raises(BadInputError, match="counts from 1 to 255"):
        DevicePeople.of_rows(EmulatedDevice(), rows)


@pytest.mark.parametrize("n_hashes", [1, 2])
def test_made_up_people_are_those_of_the_processors(n_hashes: int) -> None:
    made_up = TwitterPeople(n_people=40, words_per_person=30, vocabulary=2**12)
    binning = HashBinning(500, b"salt", n_hashes)
    rows, labels = made_up.all_rows(7, binning)
    words = DeviceWords(EmulatedDevice(90), made_up, 7)
    ours, theirs = words.binned(binning), DevicePeople.of_rows(EmulatedDevice(90), rows)
    assert np.array_equal(words.labels, labels)
    assert np.array_equal(ours.starts, theirs.starts)
    assert np.array_equal(np.sort(ours.locals), np.sort(theirs.locals))
    weights = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 501)).astype(np.int32)
    kernels = CudaKernels(EmulatedDevice(90))
    assert np.array_equal(kernels.scores(ours, weights), reference.scores(rows, weights))
