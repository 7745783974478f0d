"""What a person is told, and what the model says of them: in plain words, with true numbers, and nothing is sent."""

from fractions import Fraction
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import pytest

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, Package, ParticipationPackage, TrainPackage
from secvm.learning.thinning import Thinning
from secvm.participant.consent.policies import Consent
from secvm.participant.device import Device
from secvm.participant.person.disclosure import figures
from secvm.participant.person.inspection import as_text, inspect, leakage, leakage_at_floor
from secvm.participant.person.pinning import predict_for
from secvm.participant.storage.state import Status
from secvm.participant.storage.vault import Vault
from tests.there import there
from tests.unit.participant.world import BUDGET, FEATURES, START, World, real_document
from tests.unit.protocol.helpers import GRACE_S


def test_device_without_experiments_says_so(tmp_path: Path) -> None:
    device = World(tmp_path).start()
    assert "takes part in nothing" in as_text(inspect(device.state, now=START))
    device.close()


def test_person_is_told_what_was_and_will_be_sent_and_the_risk(world: World, device: Device) -> None:
    first = world.publish(1)
    world.drive(device, until=first.accept_until)
    second = world.publish(2, opens_at=first.accept_until + 4000 * GRACE_S)
    world.drive(device, until=second.opens_at)
    device.flush()
    found = inspect(device.state, now=START)
    one = found[world.of.digest]
    assert (one["status"], one["waiting"], one["acknowledged"], one["lost"]) == ("joined", BUDGET, BUDGET, 0)
    assert one["rounds"][0] == {"round": 1, "packages": BUDGET, "acknowledged": BUDGET, "lost": 0, "unopened": False}
    # 20 people of one label and 30 of the other, 20 bins, nothing thinned.
    assert one["leakage"]["d_squared"] == pytest.approx(20 * (1 / 20 + 1 / 30))
    assert one["leakage"]["auc"] == pytest.approx(0.8193, abs=1e-3)
    rounds = world.of.rounds
    assert one["leakage"]["auc_all_rounds"] == pytest.approx(NormalDist().cdf(sqrt(rounds * 5 / 6)))
    assert f"and of {one['leakage']['auc_all_rounds']:.2f} in {rounds} of them" in as_text(found)
    text = as_text(found)
    assert f"exactly {BUDGET} sealed packages" in text
    assert "no formal guarantee" in text
    assert "Tallies are public" in text
    assert f"{BUDGET} sealed packages of the running round: still to be sent" in text
    assert not any(feature in text + repr(found) for feature in FEATURES)


@pytest.mark.parametrize(("act", "said"), [("forget", "cannot be taken back"), ("pause", "until you resume")])
def test_decisions_are_shown(world: World, device: Device, act: str, said: str) -> None:
    if act == "forget":
        device.state.forget(world.of.digest)
    else:
        device.state.set_status(world.of.digest, device.state.records()[0].status.PAUSED)
    text = as_text(inspect(device.state, now=START))
    assert said in text
    assert ("risk has no number" in text) == (act == "pause")
    assert "Nothing limits the risk" in text
    device._look()


def test_leakage_falls_with_thinning_and_is_certain_without_others() -> None:
    of = real_document()
    whole, tenth = leakage(of, (100, 100), keep=1.0), leakage(of, (100, 100), keep=0.1)
    assert whole is not None
    assert tenth is not None
    assert whole["d_squared"] == pytest.approx(10 * tenth["d_squared"])
    assert 0.5 < tenth["auc"] < whole["auc"] < 1
    alone = there(leakage(of, (0, 100), keep=1.0))
    assert alone["auc"] == 1.0
    assert leakage(of, (), keep=1.0) is None


def test_risk_at_the_floor_is_told_before_anybody_joins() -> None:
    of = real_document()
    found = leakage_at_floor(of, keep=1.0)
    assert found == leakage(of, (of.floor / 2, of.floor / 2), keep=1.0)
    assert found is not None
    (sentence,) = [one for one in figures(of, Consent().statement(of)) if "if " in one]
    assert f"if {of.floor} train" in sentence
    assert f"about {found['auc']:.2f} in one round" in sentence


def test_running_round_counts_what_is_acknowledged_so_far(world: World, device: Device) -> None:
    manifest = world.publish(1)
    world.drive_into(device, manifest)
    device.flush()
    one = inspect(device.state, now=START)[world.of.digest]
    assert 0 < one["waiting"] < BUDGET
    assert one["newest"] == {"round": 1, "opens_at": manifest.opens_at, "closes_at": manifest.closes_at}
    assert "newest round it knows is 1: its window lasts from" in as_text(inspect(device.state, now=START))
    assert "which is over" in as_text(inspect(device.state, now=manifest.closes_at))
    acknowledged = BUDGET - one["waiting"]
    assert one["rounds"] == [
        {"round": 1, "packages": BUDGET, "acknowledged": acknowledged, "lost": 0, "unopened": False}
    ]
    assert one["acknowledged"] == BUDGET - one["waiting"]
    device.state.set_status(world.of.digest, Status.PAUSED)
    assert "only if you resume within its window" in as_text(inspect(device.state, now=START))
    # Whoever forgets in the middle of a round is told how much had left by then.
    device.state.forget(world.of.digest)
    assert inspect(device.state, now=START)[world.of.digest]["acknowledged"] == BUDGET - one["waiting"]
    device._look()


# ── prediction ───────────────────────────────────────────────────────────────────────────────────────────────────────


def trained_world(tmp_path: Path, experiment: Experiment, packages: list[Package], answer: str) -> World:
    """A device whose experiment has ended with a model."""
    world = World(tmp_path, real_document(experiment=experiment))
    world.fill(label=answer)
    device = world.start()
    world.join(device)
    manifest = world.take_part(device)
    state = aggregate.step(experiment, aggregate.start(experiment), aggregate.empty_tally(experiment).count(packages))
    world.end(aggregate.evaluation_weights(experiment, state).to_bytes())
    world.drive(device, until=manifest.accept_until + 400_000)
    device.close()
    return world


def shares(labels: int) -> list[Package]:
    return [ParticipationPackage(cohort=Cohort.TRAIN, class_index=i) for i in range(labels)]


def test_prediction_uses_all_features_and_sends_nothing(tmp_path: Path) -> None:
    experiment = Experiment(n_bins=20, labels=("a", "b"), rule=Pegasos(), budget=BUDGET, features_per_person=1)
    binning = HashBinning(n_bins=20, salt=bytes(16))
    vector = bin_features(FEATURES, binning, presence=True)
    packages: list[Package] = [*shares(2), *(TrainPackage(model=0, bin_index=b, sign=1) for b in vector.values)]
    world = trained_world(tmp_path, experiment, packages, "a")
    asked, sent = len(world.net.fetches), len(world.net.seen)
    device = world.start()
    assert "joined: the experiment is over." in as_text(inspect(device.state, now=START))
    with Vault(world.folder) as vault:
        found = predict_for(world.of.digest, device.state, vault)
    assert found.label == "b"
    # As many as its operator's export says: the ending's model is the one after its last round.
    assert found.rounds == 1
    # λ = default, one step of mean direction ½ in each of the person's bins: every bin adds its count.
    weights = aggregate.evaluation_weights(
        experiment,
        aggregate.step(experiment, aggregate.start(experiment), aggregate.empty_tally(experiment).count(packages)),
    )
    expected = sum(weights.values()[0, b] * value for b, value in vector.values.items())
    assert found.margin == pytest.approx(expected)
    assert "b" not in repr(found).replace("Prediction", "")
    assert (len(world.net.fetches), len(world.net.seen)) == (asked, sent)
    device.close()


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_prediction_among_several_labels_has_the_winners_margin(tmp_path: Path, multiclass: str) -> None:
    experiment = Experiment(n_bins=20, labels=("a", "b", "c"), rule=Pegasos(), budget=BUDGET, multiclass=multiclass)
    sign: Literal[-1, 1] = 1 if multiclass == "ovr" else -1
    models = [0] if multiclass == "ovr" else [0, 1]
    packages: list[Package] = [
        *shares(3),
        *(TrainPackage(model=model, bin_index=20, sign=sign) for model in models for _ in range(3)),
    ]
    world = World(tmp_path, real_document(experiment=experiment))
    state = aggregate.step(experiment, aggregate.start(experiment), aggregate.empty_tally(experiment).count(packages))
    weights = aggregate.evaluation_weights(experiment, state)
    from secvm.participant.person.pinning import _answer

    label, margin = _answer(world.of.experiment, weights, bin_features({}, HashBinning(20, bytes(16))))
    assert label == "a"
    assert margin == pytest.approx(abs(weights.values()[0, 20]))


def test_number_is_predicted_without_a_margin() -> None:
    from secvm.participant.person.pinning import _answer

    experiment = Experiment(
        n_bins=4,
        labels=("age",),
        budget=BUDGET,
        rule=Swift(),
        thinning=Thinning(rho=Fraction(1)),
        loss=Loss("epsilon-insensitive"),
        target_centre=Fraction(40),
        target_spread=Fraction(10),
    )
    packages: list[Package] = [*shares(1), TrainPackage(model=0, bin_index=4, sign=1)]
    state = aggregate.step(experiment, aggregate.start(experiment), aggregate.empty_tally(experiment).count(packages))
    weights = aggregate.evaluation_weights(experiment, state)
    vector = bin_features({"x": 1}, HashBinning(4, bytes(16)))
    text, margin = _answer(experiment, weights, vector)
    values = weights.values()[0]
    (bin_index,) = vector.values
    assert float(text) == pytest.approx((values[4] + values[bin_index]) / sqrt(2) * 10 + 40, rel=1e-4)
    assert margin is None


def test_without_a_model_prediction_says_why(world: World, device: Device) -> None:
    with Vault(world.folder) as vault:
        with pytest.raises(BadInputError, match="does not know"):
            predict_for("0" * 64, device.state, vault)
        with pytest.raises(BadInputError, match="no model"):
            predict_for(world.of.digest, device.state, vault)
        manifest = world.publish(1)
        world.drive(device, until=manifest.opens_at)
        with pytest.raises(BadInputError, match="learnt nothing yet"):
            predict_for(world.of.digest, device.state, vault)
        for path in (world.folder / "models").iterdir():
            path.unlink()
        with pytest.raises(BadInputError, match="file is not there"):
            predict_for(world.of.digest, device.state, vault)
