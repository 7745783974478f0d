"""A model of an experiment with cover is exported for people whose bins have one unit or none."""

from secvm.cli.experiment import model_file
from secvm.cli.remote import TrustedModel
from secvm.estimator.model import Model
from secvm.testing.relayed_rounds import relayed_document
from tests.unit.protocol.helpers import document


def test_exported_models_see_people_as_devices_did() -> None:
    for of, one_per_bin in ((relayed_document(), True), (document(), False)):
        state = of.experiment.start()
        weights = of.experiment.rule.evaluation_weights(state)
        model = Model.from_bytes(model_file(TrustedModel(of, weights, rounds=3, ended=None), None))
        assert model.one_per_bin is one_per_bin
        assert model.presence
