"""An exported model is one that an audit believes, and sees people as devices did."""

import random
from collections.abc import Iterator

import pytest

from secvm.cli.experiment import model_file
from secvm.cli.experiment.remote import Remote, TrustedModel
from secvm.errors import BadInputError
from secvm.estimator.model import ModelFile
from secvm.learning import aggregate
from secvm.protocol.canonical import digest_of
from secvm_lab.rigs.histories.audited_history import draw_history
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.serving import Server, serving
from tests.unit.auditor.histories import history
from tests.unit.auditor.test_lies import TooFar
from tests.unit.auditor.test_relayed_log import LOGGED
from tests.unit.protocol.helpers import document


def test_exported_models_see_people_as_devices_did() -> None:
    for of, one_per_bin in ((relayed_document(), True), (document(), False)):
        state = aggregate.start(of.experiment)
        weights = aggregate.evaluation_weights(of.experiment, state)
        model = ModelFile.from_bytes(model_file(TrustedModel(of, weights, rounds=3, ended=None), None))
        assert model.one_per_bin is one_per_bin
        assert model.presence


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({}) as running:
        yield running


@pytest.mark.parametrize("end", [False, True])
def test_model_is_the_one_that_the_coordinator_names_computed_from_the_tallies(server: Server, *, end: bool) -> None:
    made = history(rounds=2, end=end)
    # Nobody needs to serve what follows from the tallies.
    named = made.manifests[-1].evaluation_weights
    server.serve({path: data for path, data in made.files.items() if path != f"/v1/blob/{named}"})
    found = Remote(server.url).model(made.document.digest, now=lambda: made.now)
    assert (found.rounds, found.ended) == (2, "finished" if end else None)
    if not end:
        assert digest_of(found.weights.to_bytes()) == named


def test_repro_a_model_that_does_not_follow_is_not_exported_though_it_is_signed(server: Server) -> None:
    made = TooFar.drawn(random.Random(3))
    made.play(3, abandoned=0)
    made.end()
    server.serve(made.files)
    with pytest.raises(BadInputError, match="cannot be trusted: the model after it does not follow") as caught:
        Remote(server.url).model(made.document.digest, now=lambda: made.now)
    assert "secvm audit http" in (caught.value.next_step or "")


def test_experiment_without_a_round_has_no_model(server: Server) -> None:
    made = PublicHistory.drawn(random.Random(1), witnesses=3)
    server.serve(made.files)
    with pytest.raises(BadInputError, match="the experiment has no round yet"):
        Remote(server.url).model(made.document.digest, now=lambda: made.now)


def test_model_of_two_relays_is_computed_too(server: Server) -> None:
    made = draw_history(random.Random(17), rounds=3, document=LOGGED)
    server.serve(made.files)
    found = Remote(server.url).model(made.document.digest, now=lambda: made.now)
    assert found.weights.to_bytes() == made.model.evaluation.to_bytes()
    assert found.weights.mantissas.any()
