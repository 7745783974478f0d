"""A rule and a loss that another package brings in one file, by entry points: offline, over a federation, audited."""

import json
import os
import shutil
import sys
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secvm.coordinator.experiments.specification import Specification
from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import RULES
from secvm.learning.losses import LOSSES, Loss
from secvm.runtime.settings import parse_settings
from secvm.testing.federation import Federation
from secvm.testing.federation_settings import HostOf
from secvm_lab.published import published
from tests.system.parties import secvm

PEOPLE = 6
BUDGET = 8
X = [["tea", "rain"], ["rain", "coat"], ["sun", "sea"], ["sea", "sand"]]
Y = ["n", "n", "s", "s"]
SPECIFICATION: dict[str, Any] = {
    "title": "An outsider's rule",
    "labels": ["n", "s"],
    "floor": 1,
    "rounds": 2,
    "budget": BUDGET,
    "train_share": "9/10",
    "features": {"source": "people-file"},
    "binning": {"bins": 30},
    "descent": {"rule": "signs", "rate": "1/8"},
    "loss": "margin",
    "loss_parameter": 3,
}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as pip would have installed it, here and for the processes that are started."""
    folder = tmp_path / "site"
    told = folder / "outside-1.0.dist-info"
    told.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "outside/signs.py", folder / "outside_signs.py")
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        "[secvm.rules]\nsigns = outside_signs:Signs\nlost = outside_signs:Nothing\npegasos = outside_signs:Signs\n"
        "[secvm.losses]\nmargin = outside_signs:Margin\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delitem(sys.modules, "outside_signs", raising=False)
    return folder


def test_rule_and_loss_are_known_while_their_package_is_installed(outside: Path) -> None:
    assert list(RULES) == ["pegasos", "swift", "lost", "signs"]
    assert RULES["pegasos"].name == "pegasos", "a built-in name is taken"
    assert RULES["pegasos"] is RULES.built_in["pegasos"]
    assert "margin" in LOSSES
    assert Loss("margin").parameter == 2
    for bad in ({"rule": "lost"}, {"rule": "signs", "rate": 2}, {"rule": "signs", "lambda": 1}, {"rule": "nobody's"}):
        with pytest.raises(BadInputError):
            parse_settings(json.dumps({**SPECIFICATION, "descent": bad}), Specification, "the specification")


def test_names_of_a_package_that_is_gone_are_refused() -> None:
    assert "signs" not in RULES
    with pytest.raises(BadInputError, match="unknown loss 'margin'; known are hinge"):
        Loss("margin")


def test_outsiders_rule_and_loss_train_offline_and_come_back_from_a_model_file(outside: Path, tmp_path: Path) -> None:
    rule = RULES.find("signs")(rate="1/8")  # type: ignore[call-arg]
    asked: dict[str, Any] = {"loss": "margin", "loss_parameter": 3, "rounds": 5, "dice_seed": b"s"}
    model = SecVMClassifier(descent=rule, **asked).fit(X, Y)
    assert model.predict(X).tolist() == Y
    by_name: Any = "signs"
    assert SecVMClassifier(descent=by_name).fit(X, Y).experiment_.rule == RULES.find("signs")()
    training = OfflineTraining(model.experiment_, seed=b"s")
    people = Population(rows=model.binner_.rows(X), labels=np.array([0, 0, 1, 1]))
    for _ in range(5):
        training.advance(people)
    assert training.state.to_bytes() == model.state_.to_bytes()
    model.save(tmp_path / "model.secvm", with_state=True)
    loaded = SecVMClassifier.load(tmp_path / "model.secvm")
    assert loaded.experiment_ == model.experiment_
    assert loaded.descent == rule
    assert loaded.predict(X).tolist() == Y


def test_outsiders_rule_and_loss_run_over_a_federation_and_are_audited(outside: Path, tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    words = [(["tea", f"rain{i}"], "n") for i in range(3)] + [(["sun", f"sea{i}"], "s") for i in range(3)]
    path.write_text("".join(json.dumps({"features": of, "label": label}) + "\n" for of, label in words))
    folder = tmp_path / "federation"
    folder.mkdir()
    with Federation(folder, hosts=[HostOf(path, 0, PEOPLE)], seed="outside", witnesses=1) as federation:
        federation.start_servers()
        federation.begin(SPECIFICATION)
        assert federation.document is not None
        experiment = federation.document.experiment
        assert experiment.rule.parameters() == {"rate": "1/8"}
        assert experiment.loss == Loss("margin", Fraction(3))
        state = aggregate.start(experiment)
        for number in (1, 2):
            # Whoever joins the second round has computed the first model itself, and found the published one.
            counts, _ = federation.play_round(number, attending=PEOPLE, budget=BUDGET)
            assert counts.joined == PEOPLE
            after = published(federation, number)
            assert after.tally is not None
            state = aggregate.step(experiment, state, after.tally)
            assert after.state == state.to_bytes()
        now = datetime.fromtimestamp(federation.clock.now() / 1000, UTC).isoformat()
        told = secvm("audit", federation.coordinator_url, "--at", now, "--format", "json")
    report = json.loads(told.stdout)
    assert (told.returncode, report["audit"], report["steps_replayed"]) == (0, "ok", 2), told.stderr
